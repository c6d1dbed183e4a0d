#include "neighbour.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ATTEMPTS = 10, ATTEMPT_MS = 100 };

/* An answer is ICMP's "port unreachable", which a connected socket reports as an error. It needs no privileges, and
   for it both kernels have resolved the other's address. It can be lost, as can ARP's request: then it is sent again. */
void neighbour_resolve(const union address *host)
{
    int probe = socket(host->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return;
    struct pollfd answer = {.fd = probe, .events = 0}; /* POLLERR is always reported */
    if (connect(probe, &host->any, sizeof *host) == 0)
        for (int i = 0; i < ATTEMPTS; i++)
            if (send(probe, "", 1, MSG_NOSIGNAL) < 0 || poll(&answer, 1, ATTEMPT_MS) > 0)
                break;
    close(probe);
}
