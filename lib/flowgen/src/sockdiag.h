/* Retransmissions and congestion control of another process's TCP connections, from the kernel (sock_diag(7)). */
#ifndef FLOWGEN_SOCKDIAG_H
#define FLOWGEN_SOCKDIAG_H

#include <stdint.h>
#include <sys/types.h>

/* The longest name of a congestion control, or SOCKDIAG_SEVERAL, with its end. */
enum { SOCKDIAG_NAME_BYTES = 16 };
#define SOCKDIAG_SEVERAL "more than one"

/* The connections of this network namespace which exist at the beginning, have sent data, and belong to `process` or
   to a process that descends from it: each is followed to its own end or to that of the watch, whichever is sooner.
   congestion: is given the congestion control of them all; empty: there are none, or the kernel does not say.
   NULL: no memory. */
struct sockdiag *sockdiag_begin(pid_t process, char congestion[SOCKDIAG_NAME_BYTES]);

/* Ends the watch, once the process has ended: segments retransmitted on those connections, in all. -1: there was no
   such connection, or the kernel does not report them. Where it does not report ends, or too late, the values
   at the beginning count. */
int64_t sockdiag_end(struct sockdiag *diag);

#endif
