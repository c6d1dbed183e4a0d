/* The process that becomes the workload: how it waits, starts, and tells the launcher of both. */
#ifndef FLOWGEN_CHILD_H
#define FLOWGEN_CHILD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

struct child_plan {
    char **argv;
    const char *gate;            /* FIFO to wait at; NULL: start at once */
    int control;                 /* inherited, to see at the gate whether the controller still lives */
    int stdin_fd, stdout_fd, stderr_fd;
};

/* What child.progress carries. It ends when the child has become ARGV, or has died. */
enum { PROGRESS_AT_GATE = 1 };   /* any other bytes are the text of an error: the child could not start */

struct child {
    pid_t pid;                   /* and, soon after the fork, the id of its process group */
    int progress;                /* read end of a pipe */
    _Atomic uint64_t *start_ns;  /* shared memory: CLOCK_MONOTONIC just before exec; 0 before that */
};

/* Returns 0, or errno. */
int child_fork(struct child *child, const struct child_plan *plan);

#endif
