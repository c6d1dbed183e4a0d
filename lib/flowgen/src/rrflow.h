/* One connection that sends a request, awaits its response, and sends the next: at once, or when that is due. */
#ifndef FLOWGEN_RRFLOW_H
#define FLOWGEN_RRFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "histogram.h"
#include "token.h"

enum { RR_ERROR_TEXT = 256 };

struct rr_plan {
    union address server;
    struct token token;
    bool udp;
    bool one_request;          /* a connection for each request; its latency begins before the connection does */
    size_t request_bytes, response_bytes;
    double period_ns;          /* between two requests of this connection; 0: the next is sent when the response came */
    uint64_t warmup_ns;        /* before duration_ns; what is due in it is sent, and not counted */
    uint64_t duration_ns;
    uint64_t timeout_ns;       /* of UDP: a response that takes longer is lost */
};

/* Counts are of requests that were due, or without a rate sent, within duration_ns; all of them are in one. */
struct rr_counts {
    uint64_t transactions;     /* requests whose response came; the histogram has their latencies */
    uint64_t lost;             /* no response in time, or still unsent when the time was over */
    uint64_t failed;           /* could not be sent, or their connection broke */
};

struct rr_flow {
    union address local;  /* port 0: never connected */
    uint64_t connect_ns, connected_ns, end_ns;  /* connected_ns 0: never */
    uint64_t requests, responses;               /* all of them, warm-up included */
    struct rr_counts counts;
    uint64_t least_ns, most_ns;                 /* latencies, exactly; UINT64_MAX and 0 where there are none */
    double sum_ns;
    struct histogram *histogram;
    char error[RR_ERROR_TEXT]; /* empty: none */
};

/* How rr_flow_run waits for all others of its client once it is connected. */
typedef void rr_together(void *argument);

/* request: plan->request_bytes of payload; phase: when the first request is due, as a share of the period. flow is all
   zeros but for its histogram. False: flow->error says why. No memory is allocated while requests are sent. */
bool rr_flow_run(struct rr_flow *flow, const struct rr_plan *plan, const char *request, double phase,
                 rr_together *together, void *argument);

#endif
