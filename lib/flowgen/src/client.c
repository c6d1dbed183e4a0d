/* client: one TCP flow at full rate for a given time, sampled at every interval. */
#include <errno.h>
#include <linux/tcp.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "commands.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "tcpsample.h"

enum { MAX_INTERVALS = 1000000, CONGESTION_NAME = 16, ERROR_TEXT = 256 };

struct plan {
    struct sockaddr_in server;
    uint64_t duration_ns, interval_ns;
    const char *congestion; /* NULL: the kernel's default */
    size_t write_bytes;
};

struct sample {
    uint64_t at_ns;
    uint64_t written;
    struct tcp_sample tcp;
};

/* Samples are kept in memory and printed at the end: printing would disturb the flow. */
struct flow {
    int socket;
    uint64_t connect_ns;
    uint64_t written;
    char congestion[CONGESTION_NAME];
    struct sample *samples; /* the first is taken when connected; each later one ends an interval */
    size_t count;           /* 0: never connected */
    char error[ERROR_TEXT]; /* empty: none */
};

static void take_sample(struct flow *flow)
{
    struct sample *sample = &flow->samples[flow->count++];
    sample->at_ns = monotonic_ns();
    sample->written = flow->written;
    sample->tcp = tcp_sample(flow->socket);
}

/* Bytes that the peer acknowledged between two samples. Bytes that were only written have crossed nothing yet: up to
   some megabytes of them lie in the socket buffer, which at short durations is most of what was written. A kernel
   that does not count acknowledged bytes leaves no better measure than the written ones. */
static uint64_t bytes_between(const struct sample *from, const struct sample *to)
{
    if (!to->tcp.counts_acked)
        return to->written - from->written;
    return to->tcp.bytes_acked - from->tcp.bytes_acked;
}

static bool open_connection(struct flow *flow, const struct plan *plan)
{
    char server[ADDRESS_TEXT];
    address_format(&plan->server, server);

    flow->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (flow->socket < 0) {
        snprintf(flow->error, ERROR_TEXT, "cannot make a socket: %s", strerror(errno));
        return false;
    }
    if (plan->congestion && setsockopt(flow->socket, IPPROTO_TCP, TCP_CONGESTION, plan->congestion,
                                       (socklen_t)strlen(plan->congestion)) < 0) {
        snprintf(flow->error, ERROR_TEXT, "cannot use congestion control '%s': %s; sysctl %s", plan->congestion,
                 strerror(errno),
                 errno == EPERM ? "net.ipv4.tcp_allowed_congestion_control lists what may be used"
                                : "net.ipv4.tcp_available_congestion_control lists what there is");
        return false;
    }
    if (connect(flow->socket, (const struct sockaddr *)&plan->server, sizeof plan->server) < 0) {
        snprintf(flow->error, ERROR_TEXT, "cannot connect to %s: %s; a server must listen there first", server,
                 strerror(errno));
        return false;
    }
    return true;
}

/* When the interval that holds `now` ends. After a stall this skips what passed meanwhile: one long interval tells
   the truth, and several empty ones would not. */
static uint64_t interval_end(const struct plan *plan, uint64_t connected_ns, uint64_t now)
{
    uint64_t intervals = (now - connected_ns) / plan->interval_ns + 1;
    uint64_t elapsed = intervals * plan->interval_ns;
    return connected_ns + (elapsed < plan->duration_ns ? elapsed : plan->duration_ns);
}

/* Writes until the time is over. The clock, not the peer, ends intervals: a write never blocks. */
static bool transfer(struct flow *flow, const struct plan *plan, const char *data)
{
    uint64_t connected_ns = flow->samples[0].at_ns;
    uint64_t deadline_ns = connected_ns + plan->duration_ns;
    uint64_t boundary_ns = interval_end(plan, connected_ns, connected_ns);

    for (;;) {
        if (monotonic_ns() >= boundary_ns) {
            take_sample(flow);
            uint64_t sampled_ns = flow->samples[flow->count - 1].at_ns;
            if (sampled_ns >= deadline_ns)
                return true;
            boundary_ns = interval_end(plan, connected_ns, sampled_ns);
        }
        ssize_t sent = send(flow->socket, data, plan->write_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            flow->written += (uint64_t)sent;
        } else if (errno == EAGAIN) {
            struct timespec left = time_until(boundary_ns);
            ppoll(&(struct pollfd){.fd = flow->socket, .events = POLLOUT}, 1, &left, NULL);
        } else if (errno != EINTR) {
            snprintf(flow->error, ERROR_TEXT, "the connection broke: %s", strerror(errno));
            take_sample(flow);
            return false;
        }
    }
}

static bool run(struct flow *flow, const struct plan *plan, const char *data)
{
    flow->connect_ns = monotonic_ns();
    if (!open_connection(flow, plan))
        return false;
    take_sample(flow);
    socklen_t length = sizeof flow->congestion;
    if (getsockopt(flow->socket, IPPROTO_TCP, TCP_CONGESTION, flow->congestion, &length) < 0)
        flow->congestion[0] = '\0';
    flow->congestion[CONGESTION_NAME - 1] = '\0';
    return transfer(flow, plan, data);
}

static void print_line(struct json *line)
{
    if (!json_print(line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

static void print_interval(const struct flow *flow, size_t index)
{
    const struct sample *first = &flow->samples[0];
    const struct sample *from = &flow->samples[index - 1];
    const struct sample *to = &flow->samples[index];

    struct json line;
    json_begin(&line, "interval");
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

static void print_total(const struct flow *flow)
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
    json_integer(&line, "connect_ns", flow->connect_ns);
    if (connected)
        json_integer(&line, "connected_ns", first->at_ns);
    else
        json_null(&line, "connected_ns");
    json_integer(&line, "end_ns", last->at_ns);
    json_number(&line, "duration_s", duration_s);
    json_integer(&line, "bytes_written", flow->written);
    json_integer(&line, "flow_bytes", flow_bytes);
    json_number(&line, "throughput_bps", duration_s > 0 ? (double)flow_bytes * 8 / duration_s : NAN);
    json_integer(&line, "retransmits", last->tcp.retransmits - first->tcp.retransmits);
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

static struct plan parse_plan(char **arguments)
{
    const char *server = NULL, *congestion = NULL;
    double duration_s = 0, interval_s = 0.5;
    long write_bytes = 128 * 1024;
    struct option options[] = {
        {"--connect", OPTION_TEXT, &server, .required = true},
        {"--duration", OPTION_SECONDS, &duration_s, .required = true, .min = 0.001, .max = 1e6},
        {"--interval", OPTION_SECONDS, &interval_s, .min = 0.001, .max = 1e6},
        {"--congestion", OPTION_TEXT, &congestion, .required = false},
        {"--write-bytes", OPTION_INTEGER, &write_bytes, .min = 1, .max = 64 * 1024 * 1024},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; client runs no command");

    struct plan plan = {
        .duration_ns = (uint64_t)(duration_s * 1e9 + 0.5),
        .interval_ns = (uint64_t)(interval_s * 1e9 + 0.5),
        .congestion = congestion,
        .write_bytes = (size_t)write_bytes,
    };
    if (!address_parse_pair(&plan.server, server))
        die_usage("--connect '%s' is not an IPv4 address and port such as 10.77.0.1:5001", server);
    if (congestion && strlen(congestion) >= CONGESTION_NAME)
        die_usage("--congestion '%s' is longer than any name the kernel has (%d bytes)", congestion,
                  CONGESTION_NAME - 1);
    if ((plan.duration_ns - 1) / plan.interval_ns >= MAX_INTERVALS)
        die_usage("--duration %g with --interval %g makes more than %d intervals; choose a longer --interval",
                  duration_s, interval_s, MAX_INTERVALS);
    return plan;
}

int client_main(char **arguments)
{
    struct plan plan = parse_plan(arguments);
    size_t intervals = (size_t)((plan.duration_ns - 1) / plan.interval_ns) + 1;
    struct flow flow = {.socket = -1, .samples = calloc(intervals + 1, sizeof *flow.samples)};
    char *data = malloc(plan.write_bytes);
    if (!flow.samples || !data)
        die("out of memory for %zu intervals and writes of %zu bytes", intervals, plan.write_bytes);
    memset(data, 'f', plan.write_bytes); /* untouched memory is one shared page of zeros: it would copy too fast */

    bool whole = run(&flow, &plan, data);
    if (flow.socket >= 0) {
        shutdown(flow.socket, SHUT_WR);
        close(flow.socket);
    }
    for (size_t i = 1; i < flow.count; i++)
        print_interval(&flow, i);
    print_total(&flow);
    if (!whole)
        complain("%s", flow.error);
    free(flow.samples);
    free(data);
    return whole ? 0 : STATUS_FAILED;
}
