/* Whether a TCP port is listened on in this network namespace. */
#ifndef FLOWGEN_LISTENING_H
#define FLOWGEN_LISTENING_H

/* 1 or 0; or -1, with errno, where the kernel does not say. */
int tcp_port_is_listened_on(unsigned port);

#endif
