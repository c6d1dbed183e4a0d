#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "address.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"

static void print_line(struct json *line)
{
    if (!json_print(line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

static void json_local(struct json *line, const union address *address)
{
    char local[ADDRESS_TEXT];
    address_format(address, local);
    if (address->v4.sin_port)
        json_text(line, "local", local);
    else
        json_null(line, "local");
}

static void print_interval(uint64_t number, const struct tcp_flow *flow, size_t index)
{
    const struct sample *first = &flow->samples[0];
    const struct sample *from = &flow->samples[index - 1];
    const struct sample *to = &flow->samples[index];

    struct json line;
    json_begin(&line, "interval");
    json_integer(&line, "flow", number);
    json_number(&line, "start_s", (double)(from->at_ns - first->at_ns) / 1e9);
    json_number(&line, "end_s", (double)(to->at_ns - first->at_ns) / 1e9);
    json_integer(&line, "bytes", bytes_between(from, to));
    json_integer(&line, "retransmits", to->tcp.retransmits - from->tcp.retransmits);
    json_number(&line, "rtt_s", to->tcp.rtt_s);
    json_number(&line, "min_rtt_s", to->tcp.min_rtt_s);
    json_number(&line, "cwnd_bytes", to->tcp.cwnd_bytes);
    json_number(&line, "delivery_rate_bps", to->tcp.delivery_rate_bps);
    print_line(&line);
}

static void print_total(uint64_t number, const struct tcp_flow *flow, const struct tcp_plan *plan)
{
    /* A flow that never connected is a total like any other: nothing sent, and what was not measured is null. */
    struct sample nothing = {
        .at_ns = monotonic_ns(),
        .tcp = {.rtt_s = NAN, .rtt_var_s = NAN, .min_rtt_s = NAN, .cwnd_bytes = NAN, .mss_bytes = NAN,
                .delivery_rate_bps = NAN},
    };
    bool connected = flow->count > 0;
    const struct sample *first = connected ? &flow->samples[0] : &nothing;
    const struct sample *last = connected ? &flow->samples[flow->count - 1] : &nothing;
    uint64_t flow_bytes = bytes_between(first, last);
    double duration_s = (double)(last->at_ns - first->at_ns) / 1e9;

    struct json line;
    json_begin(&line, "total");
    json_integer(&line, "flow", number);
    json_text(&line, "protocol", "tcp");
    if (plan->down)
        json_text(&line, "direction", "down");
    json_local(&line, &flow->local);
    json_moment(&line, "connect_ns", flow->connect_ns);
    json_moment(&line, "connected_ns", connected ? first->at_ns : 0);
    if (plan->finite_bytes)
        json_moment(&line, "sent_ns", flow->sent_ns);
    json_moment(&line, "end_ns", last->at_ns);
    json_number(&line, "duration_s", duration_s);
    if (plan->finite_bytes)
        json_boolean(&line, "complete", flow->complete);
    json_integer(&line, "bytes_written", flow->written);
    json_integer(&line, "flow_bytes", flow_bytes);
    json_number(&line, "throughput_bps", duration_s > 0 ? (double)flow_bytes * 8 / duration_s : NAN);
    json_integer(&line, "retransmits", last->tcp.retransmits - first->tcp.retransmits);
    const int64_t *by_netns = flow->netns_retransmits;
    const bool counted = connected && by_netns[0] >= 0 && by_netns[1] >= 0;
    static const char *const keys[] = {"netns_retransmits_before", "netns_retransmits_after"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (counted)
            json_integer(&line, keys[i], (uint64_t)by_netns[i]);
        else
            json_null(&line, keys[i]);
    }
    json_number(&line, "rtt_s", last->tcp.rtt_s);
    json_number(&line, "rtt_var_s", last->tcp.rtt_var_s);
    json_number(&line, "min_rtt_s", last->tcp.min_rtt_s);
    json_number(&line, "cwnd_bytes", last->tcp.cwnd_bytes);
    json_number(&line, "delivery_rate_bps", last->tcp.delivery_rate_bps);
    if (*flow->congestion)
        json_text(&line, "congestion_control", flow->congestion);
    else
        json_null(&line, "congestion_control");
    json_number(&line, "mss_bytes", last->tcp.mss_bytes);
    if (*flow->error)
        json_text(&line, "error", flow->error);
    print_line(&line);
}

void report_tcp(size_t number, const struct tcp_flow *flow, const struct tcp_plan *plan)
{
    for (size_t i = 1; i < flow->count; i++)
        print_interval(number, flow, i);
    print_total(number, flow, plan);
}

void report_received(size_t number, const struct received_flow *flow)
{
    struct json line;
    json_begin(&line, "received");
    json_integer(&line, "flow", number);
    json_text(&line, "protocol", "tcp");
    json_text(&line, "direction", "down");
    json_moment(&line, "connect_ns", flow->tcp.connect_ns);
    json_moment(&line, "connected_ns", flow->connected_ns);
    json_integer(&line, "flow_bytes", flow->bytes);
    json_moment(&line, "first_ns", flow->first_ns);
    json_moment(&line, "last_ns", flow->last_ns);
    json_boolean(&line, "ended", flow->ended);
    if (*flow->tcp.error)
        json_text(&line, "error", flow->tcp.error);
    print_line(&line);
}

/* From the first sending until sending was over, or until the last came where that was later: what did not come at the
   end lowers the throughput as what did not come before. */
static double udp_duration_s(const struct udp_flow *flow)
{
    uint64_t last_ns = flow->counts.last_ns > flow->end_ns ? flow->counts.last_ns : flow->end_ns;
    return flow->started_ns && last_ns > flow->started_ns ? (double)(last_ns - flow->started_ns) / 1e9 : 0;
}

static void json_counts(struct json *line, const struct udp_flow *flow)
{
    const struct udp_counts *counts = &flow->counts;
    double duration_s = udp_duration_s(flow);
    json_integer(line, "flow_bytes", counts->bytes);
    json_number(line, "throughput_bps", duration_s > 0 ? (double)counts->bytes * 8 / duration_s : NAN);
    json_integer(line, "datagrams_received", counts->received);
    json_integer(line, "datagrams_lost", flow->sent > counts->received ? flow->sent - counts->received : 0);
    json_integer(line, "datagrams_reordered", counts->reordered);
    json_integer(line, "datagrams_duplicated", counts->duplicated);
}

/* Without an answer, what only the server counts is left out. */
static void json_no_counts(struct json *line)
{
    static const char *const keys[] = {
        "flow_bytes", "throughput_bps", "datagrams_received", "datagrams_lost", "datagrams_reordered",
        "datagrams_duplicated",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_null(line, keys[i]);
}

void report_udp(size_t number, const struct udp_flow *flow, const struct udp_plan *plan)
{
    struct json line;
    json_begin(&line, "total");
    json_integer(&line, "flow", number);
    json_text(&line, "protocol", "udp");
    json_local(&line, &flow->local);
    json_moment(&line, "connect_ns", flow->connect_ns);
    json_moment(&line, "connected_ns", flow->started_ns);
    json_moment(&line, "first_ns", flow->counts.first_ns);
    json_moment(&line, "last_ns", flow->counts.last_ns);
    json_moment(&line, "end_ns", flow->end_ns);
    json_number(&line, "duration_s", udp_duration_s(flow));
    json_integer(&line, "bytes_written", flow->sent * plan->datagram_bytes);
    json_integer(&line, "datagram_bytes", plan->datagram_bytes);
    json_integer(&line, "datagrams_sent", flow->sent);
    if (flow->answered)
        json_counts(&line, flow);
    else
        json_no_counts(&line);
    if (*flow->error)
        json_text(&line, "error", flow->error);
    print_line(&line);
}

void report_latencies(size_t number, const struct histogram *histogram)
{
    printf("{\"event\": \"latencies\", \"flow\": %zu, \"buckets\": [", number);
    const char *before = "";
    for (size_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        if (!histogram->counts[bucket])
            continue;
        printf("%s[%llu, %llu]", before, (unsigned long long)histogram_value(bucket),
               (unsigned long long)histogram->counts[bucket]);
        before = ", ";
    }
    printf("]}\n");
}
