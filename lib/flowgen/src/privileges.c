#include "privileges.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* False: we may not take from the bounding set (without CAP_SETPCAP). */
static bool bound(void)
{
    bool bounded = true;
    int held;
    for (unsigned long capability = 0; (held = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++)
        if (held && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            bounded = false;
    return bounded;
}

bool privileges_drop(void)
{
    bool bounded = bound();
    struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &self, sets) < 0)
        return false;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        sets[i].inheritable = 0;
        if (!bounded) /* else the exec does it */
            sets[i].permitted = sets[i].effective = 0;
    }
    if (syscall(SYS_capset, &self, sets) < 0) /* it takes from the ambient set as well */
        return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
