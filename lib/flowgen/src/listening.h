/* Whether a port is served in this network namespace. */
#ifndef FLOWGEN_LISTENING_H
#define FLOWGEN_LISTENING_H

/* A TCP socket listens there; a UDP socket is bound to it. 1 or 0; or -1, with errno, where the kernel does not say. */
int tcp_port_is_listened_on(unsigned port);
int udp_port_is_bound(unsigned port);

#endif
