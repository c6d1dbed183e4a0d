/* What request and response have on the wire besides their payload; one host's byte order, as both ends are on it.

   TCP: a connection begins with rr_opening, which the server answers with one byte; then come requests and responses of
   the sizes in it. Of a connection for one request only, the request follows the opening at once, and the response is
   all that the server sends; then it closes first, so that the client's port is free for the next connection.
   UDP: each datagram begins with rr_datagram, which is part of its size; a response leaves the token out. */
#ifndef FLOWGEN_RRWIRE_H
#define FLOWGEN_RRWIRE_H

#include <stdint.h>

#include "token.h"

enum { RR_MAGIC = 0x72657173, RR_RESPONSE_MAGIC = 0x72657370 }; /* "reqs", "resp" */

enum { RR_MOST_BYTES = 4 * 1024 * 1024, RR_MOST_DATAGRAM_BYTES = 65507 };

enum rr_opening_flags { RR_ONE_REQUEST = 1 };

struct rr_opening {
    char token[TOKEN_BYTES];
    uint32_t magic, request_bytes, response_bytes, flags;
};

struct rr_datagram {
    uint32_t magic, response_bytes;
    uint64_t sequence;
    char token[TOKEN_BYTES];
};

enum { RR_LEAST_REQUEST_DATAGRAM = sizeof(struct rr_datagram), RR_LEAST_RESPONSE_DATAGRAM = 16 };

_Static_assert(RR_LEAST_REQUEST_DATAGRAM == 32, "the smallest request by UDP has 32 bytes");

#endif
