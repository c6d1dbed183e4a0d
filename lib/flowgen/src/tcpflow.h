/* One TCP flow at full rate, sampled at every interval: for a given time, or until the server has had all its bytes. */
#ifndef FLOWGEN_TCPFLOW_H
#define FLOWGEN_TCPFLOW_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "tcpsample.h"
#include "token.h"

enum { MAX_INTERVALS = 1000000, CONGESTION_NAME = 16, ERROR_TEXT = 256 };

struct tcp_plan {
    union address server;
    struct token token;     /* what is sent begins with it, if it is given */
    uint64_t duration_ns;   /* from the connection; 0: the flow is finite */
    uint64_t finite_bytes;  /* what a finite flow sends; else 0 */
    uint64_t limit_ns;      /* from the call of connect; after that a finite flow gives up; 0: never */
    uint64_t interval_ns;
    const char *congestion; /* NULL: the kernel's default */
    size_t write_bytes;
    bool down;              /* from a server to its client: that sends it */
    const volatile sig_atomic_t *stopped; /* once it is not 0, the time of a timed flow is over; NULL: never */
};

struct sample {
    uint64_t at_ns;
    uint64_t written;
    uint64_t acked;         /* of what was written, so that neither SYN nor FIN counts */
    struct tcp_sample tcp;
};

/* Samples are kept in memory and printed at the end: printing would disturb the flow. */
struct tcp_flow {
    int socket;
    union address local; /* port 0: never connected */
    uint64_t connect_ns;
    uint64_t sent_ns;         /* when a finite flow had handed its last byte to the kernel; 0: not so far */
    uint64_t written;
    bool complete;            /* finite: all is acknowledged, and the server has closed */
    char congestion[CONGESTION_NAME];
    struct sample *samples;   /* the first is taken when connected; each later one ends an interval */
    size_t count, capacity;   /* count 0: never connected */
    int64_t netns_retransmits[2]; /* what the kernel had counted in this namespace just before and just after the last
                                     sample, between which some may be sent again; -1: unknown */
    char error[ERROR_TEXT];   /* empty: none */
};

/* Runs the flow to its end; `data` are plan->write_bytes bytes to send over and over. False: flow->error says why.
   flow is all zeros before, and tcp_flow_free follows. Flows of several threads may share plan and data. */
bool tcp_flow_run(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data);

/* Its parts, for a flow on a connection that others opened (flow->socket): all but opening and closing that. */
bool tcp_flow_open(struct tcp_flow *flow, const struct tcp_plan *plan);
bool tcp_flow_serve(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data);
void tcp_flow_close(struct tcp_flow *flow, const struct tcp_plan *plan);

void tcp_flow_free(struct tcp_flow *flow);

/* Bytes that the peer acknowledged between two samples. Bytes that were only written have crossed nothing yet: up to
   some megabytes of them lie in the socket buffer, which at short durations is most of what was written. A kernel
   that does not count acknowledged bytes leaves no better measure than the written ones. */
uint64_t bytes_between(const struct sample *from, const struct sample *to);

#endif
