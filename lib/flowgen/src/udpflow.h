/* One flow of UDP datagrams, at a rate or as fast as they go, for which the server reports at the end what arrived. */
#ifndef FLOWGEN_UDPFLOW_H
#define FLOWGEN_UDPFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "udpwire.h"

enum { UDP_LEAST_BYTES = sizeof(struct udp_header), UDP_MOST_BYTES = 65507, UDP_USUAL_BYTES = 1448 };

struct udp_plan {
    union address server;
    struct token token;
    uint64_t duration_ns;
    uint64_t rate_bps;        /* of payload; 0: as fast as they go */
    size_t datagram_bytes;
};

struct udp_flow {
    union address local; /* port 0: there was never a socket */
    uint64_t connect_ns;      /* when we began */
    uint64_t started_ns;      /* just before the first datagram; 0: never */
    uint64_t end_ns;          /* when sending was over */
    uint64_t sent;            /* datagrams */
    bool answered;
    struct udp_counts counts; /* when answered */
    char error[256];          /* empty: none */
};

/* Runs the flow to its end; false: flow->error says why. flow is all zeros before. Flows of several threads may share
   plan and data, which are plan->datagram_bytes bytes. */
bool udp_flow_run(struct udp_flow *flow, const struct udp_plan *plan, const char *data, uint16_t number);

#endif
