/* Holds a process after its exec and before its first instruction, as a debugger would (ptrace).

   A process that execs only at the release costs the others about a millisecond of CPU for that: of many, released
   together, the last starts when all that is done. Held here, all that is left to do is to let it go.

   The kernel drops the privilege of a set-user-id program, or of one with file capabilities, that is traced by a
   process without CAP_SYS_PTRACE (execve(2)): it then runs as its caller. The workloads here are not such programs. */
#ifndef FLOWGEN_HELD_H
#define FLOWGEN_HELD_H

#include <stdbool.h>
#include <sys/types.h>

/* In the child: its next exec stops. False: tracing is refused here (Yama, seccomp, an LSM, another tracer). */
bool held_request(void);

enum held_stop { HELD_NOT_YET, HELD, HELD_UNSAFE };

/* In the parent: takes a stop of the child as wait gave it. HELD_UNSAFE, with errno: the child is stopped after its
   exec, but would run if we died. */
enum held_stop held_take_stop(pid_t child, int status);

/* In the parent: the child runs and is no longer traced. False: it is gone. */
bool held_release(pid_t child);

#endif
