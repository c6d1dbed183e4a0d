#include "urgency.h"

#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first version of the kernel's struct sched_attr. <linux/sched/types.h> has it too, but clashes with the one that
   newer glibc defines. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static const uint64_t SHORTEST_NS = 100000; /* the kernel takes no less */

static bool get_attributes(struct attributes *attributes)
{
    return syscall(SYS_sched_getattr, 0, attributes, sizeof *attributes, 0) == 0;
}

/* A system call, as musl's function of this name does nothing but fail. Once set, RESET_ON_FORK stays: it is a
   privilege to clear it. */
static bool set_policy(int policy, int priority)
{
    struct sched_param parameters = {.sched_priority = priority};
    return syscall(SYS_sched_setscheduler, 0, policy | SCHED_RESET_ON_FORK, &parameters) == 0;
}

static bool shorten_slice(struct attributes attributes)
{
    attributes.size = sizeof attributes;
    attributes.runtime = SHORTEST_NS;
    attributes.deadline = attributes.period = 0;
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) < 0)
        return false;
    return get_attributes(&attributes) && attributes.runtime == SHORTEST_NS; /* older kernels ignore it */
}

const char *urgency_raise(void)
{
    struct attributes usual;
    if (!get_attributes(&usual) || usual.policy != SCHED_OTHER)
        return "none";
    if (set_policy(SCHED_FIFO, 1))
        return "realtime";
    return shorten_slice(usual) ? "slice" : "none";
}

void urgency_lower(void)
{
    struct attributes now; /* the controller may have given us real time that we may not take ourselves */
    if (get_attributes(&now) && now.policy == SCHED_FIFO)
        set_policy(SCHED_OTHER, 0);
}

void urgency_forgo(void)
{
    prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0); /* root gains all of the bounding set by its exec */

    /* And what may be inherited; that takes it from the ambient set as well. */
    struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &self, sets) < 0)
        return;
    sets[CAP_TO_INDEX(CAP_SYS_NICE)].inheritable &= ~CAP_TO_MASK(CAP_SYS_NICE);
    syscall(SYS_capset, &self, sets);
}
