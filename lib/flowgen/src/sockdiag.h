/* What the kernel tells of another process's TCP connections (sock_diag(7)). */
#ifndef FLOWGEN_SOCKDIAG_H
#define FLOWGEN_SOCKDIAG_H

#include <stdint.h>
#include <sys/types.h>

/* Segments retransmitted so far on the connections of this network namespace which stand, have sent data, and
   belong to `process` or to a process that descends from it. -1: there is no such connection, or the kernel tells
   us nothing. */
int64_t sockdiag_retransmits(pid_t process);

#endif
