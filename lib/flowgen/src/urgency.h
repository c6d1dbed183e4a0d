/* Urgency: to have the CPU as soon as it is needed. At the release every launcher needs some microseconds, while the
   processes released before it want whole slices.

   Real time (SCHED_FIFO) is best: all launchers then run before all that they release, also where each container is a
   CPU cgroup of its own. It needs CAP_SYS_NICE, and a kernel with RT_GROUP_SCHED refuses it in a CPU cgroup that was
   given no real time, as Docker's are. Otherwise a short time slice: a process that asks for less CPU at a time gets it sooner.

   CAP_SYS_NICE is there for the launcher alone, and a measured program is to have the same rights in every backend:
   so no process that we launch has it, whether the launcher could use it or not. */
#ifndef FLOWGEN_URGENCY_H
#define FLOWGEN_URGENCY_H

/* Makes the calling process urgent, as far as it may be, and says how: "realtime", "slice", or "none" (before Linux
   6.12, or where another than the usual scheduling policy was chosen for us). Not before a fork: a slice is
   inherited. */
const char *urgency_raise(void);

/* From real time back to the usual policy. A short slice stays. */
void urgency_lower(void);

/* In the child: what it execs has no CAP_SYS_NICE. As far as that may be had: without CAP_SETPCAP, a set-user-id
   program, or one with file capabilities, gets its own. */
void urgency_forgo(void);

#endif
