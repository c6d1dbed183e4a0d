/* What a client prints of a flow: JSON lines. */
#ifndef FLOWGEN_REPORT_H
#define FLOWGEN_REPORT_H

#include <stddef.h>

#include "sending.h"
#include "histogram.h"
#include "tcpflow.h"
#include "udpflow.h"

/* The intervals, then the total. */
void report_tcp(size_t number, const struct tcp_flow *flow, const struct tcp_plan *plan);

/* What a client received of a flow that it asked its server for, which reports the rest. */
void report_received(size_t number, const struct received_flow *flow);

/* The total: what is sent in an interval is not what arrives in it, which only the server counts. */
void report_udp(size_t number, const struct udp_flow *flow, const struct udp_plan *plan);

/* The occupied buckets of a histogram, each as its time in ns and its count: a line by itself, which may be a long one. */
void report_latencies(size_t number, const struct histogram *histogram);

#endif
