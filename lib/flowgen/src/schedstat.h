/* How long a process could have run and had no CPU (Documentation/scheduler/sched-stats.rst of Linux). */
#ifndef FLOWGEN_SCHEDSTAT_H
#define FLOWGEN_SCHEDSTAT_H

#include <stdint.h>
#include <sys/types.h>

/* How long the first thread of that process has waited on a runqueue; also of one that has ended and was not reaped.
   -1: this kernel does not count it. */
int64_t schedstat_wait_ns(pid_t process);

#endif
