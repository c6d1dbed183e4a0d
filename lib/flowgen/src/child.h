/* The process that becomes the workload: how it waits, starts, and reports both to the launcher. */
#ifndef FLOWGEN_CHILD_H
#define FLOWGEN_CHILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "placement.h"

struct child_plan {
    char **argv;
    const char *gate;            /* the path of the FIFO to be held at; NULL: start at once */
    int gate_fd;
    uint64_t start_after_ns;     /* since it opened, where the child waits for that by itself */
    int control;                 /* inherited, to see at the gate whether the controller still lives */
    int stdin_fd, stdout_fd, stderr_fd;
    const char *const *cgroups;  /* folders of cgroups to join, up to a NULL */
    const struct cpus *cpus;     /* NULL: wherever it may run anyway */
    bool unprivileged;           /* it becomes a program without capabilities (privileges.h) */
};

/* What child.progress carries. It ends when the child has become ARGV, or has died.

   With a gate, the child asks to be held after its exec (held.h) and execs: its stop is then for the launcher to see.
   Where it may not be traced, it says PROGRESS_AT_GATE instead, waits at the gate by itself, and execs after that. */
enum { PROGRESS_AT_GATE = 1 };   /* any other bytes are the text of an error: the child could not start */

struct child {
    pid_t pid;                   /* and, soon after the fork, the id of its process group */
    int progress;                /* read end of a pipe */
    _Atomic uint64_t *start_ns;  /* shared memory: CLOCK_MONOTONIC just before exec, or, of a child held after it,
                                    just before it is released; 0 before that */
};

/* Returns 0, or errno. */
int child_fork(struct child *child, const struct child_plan *plan);

#endif
