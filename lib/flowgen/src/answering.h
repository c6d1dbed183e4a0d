/* The server's part of traffic: a client asks, on a connection that it keeps, for flows of given sizes, and gets their
   bytes one after the other. A request is the size, 8 bytes, the most significant first. */
#ifndef FLOWGEN_ANSWERING_H
#define FLOWGEN_ANSWERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_BYTES = 8 };

#define MOST_ASKED_BYTES UINT64_C(1000000000000000)

/* Of one connection; all zeros before its first byte. */
struct answering {
    unsigned char begun[REQUEST_BYTES]; /* a request of which a part has come */
    size_t begun_bytes;
    uint64_t owed;                      /* bytes of flows that are asked for and not sent */
    uint64_t sent;
    uint64_t requests;
};

void request_write(unsigned char request[REQUEST_BYTES], uint64_t flow_bytes);

/* Takes requests as they come, in parts too. False: one asks for no bytes, or for more than there may be. */
bool answering_take(struct answering *answering, const char *data, size_t length);

/* Sends what it owes, as far as it goes without waiting, and one write at most. False, with errno: it broke. */
bool answering_send(struct answering *answering, int socket);

#endif
