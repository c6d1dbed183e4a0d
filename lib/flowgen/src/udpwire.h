/* What a client and a server of UDP send each other. Both are on one host, so its byte order and clock are shared; the
   magic number identifies others. */
#ifndef FLOWGEN_UDPWIRE_H
#define FLOWGEN_UDPWIRE_H

#include <stdint.h>

#include "token.h"

enum { UDP_MAGIC = 0x666c6f77 }; /* "flow" */

enum udp_kind {
    UDP_DATA = 1, /* sequence: 0, 1, 2...; at_ns: when it was sent */
    UDP_END,      /* sequence: how many were sent; at_ns: when the flow began, which names it */
    UDP_ANSWER,   /* to UDP_END, with its sequence and at_ns; the counts follow */
};

struct udp_header {
    uint32_t magic;
    uint16_t kind, flow;
    uint64_t sequence, at_ns;
    char token[TOKEN_BYTES];
};

struct udp_counts {
    uint64_t received, reordered, duplicated; /* datagrams; duplicates are in none of the others */
    uint64_t bytes;                           /* of payload, our header included */
    uint64_t first_ns, last_ns;               /* when the first and the last were received; 0: none was */
};

struct udp_answer {
    struct udp_header header;
    struct udp_counts counts;
};

_Static_assert(sizeof(struct udp_header) == 40, "the smallest datagram is 40 bytes");

#endif
