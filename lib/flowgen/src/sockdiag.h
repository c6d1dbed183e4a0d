/* What the kernel tells of another process's TCP connections (sock_diag(7)). */
#ifndef FLOWGEN_SOCKDIAG_H
#define FLOWGEN_SOCKDIAG_H

#include <stdint.h>
#include <sys/types.h>

/* The connections of this network namespace which stand at the beginning, have sent data, and belong to `process` or
   to a process that descends from it: each is followed to its own end or to that of the watch, whichever is sooner.
   NULL: no memory. */
struct sockdiag *sockdiag_begin(pid_t process);

/* Ends the watch, once the process has ended: segments retransmitted on those connections, in all. -1: there was no
   such connection, or the kernel tells us nothing. Where the kernel does not tell of ends, or tells too late, what
   was known at the beginning counts. */
int64_t sockdiag_end(struct sockdiag *diag);

#endif
