#include "privileges.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* False: we may not take from the bounding set (without CAP_SETPCAP). */
static bool bound(bool keep_net_admin)
{
    bool bounded = true;
    int held;
    for (unsigned long capability = 0; (held = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++) {
        bool kept = keep_net_admin && capability == CAP_NET_ADMIN;
        if (held && !kept && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            bounded = false;
    }
    return bounded;
}

bool privileges_drop(bool keep_net_admin)
{
    bool bounded = bound(keep_net_admin);
    struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &self, sets) < 0)
        return false;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t kept = keep_net_admin && i == CAP_TO_INDEX(CAP_NET_ADMIN) ? CAP_TO_MASK(CAP_NET_ADMIN) : 0;
        sets[i].inheritable = sets[i].permitted & kept;
        if (!bounded) { /* else the exec does it */
            sets[i].permitted &= kept;
            sets[i].effective &= kept;
        }
    }
    if (syscall(SYS_capset, &self, sets) < 0) /* it takes from the ambient set as well */
        return false;
    if (keep_net_admin)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0); /* for users other than root */
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
