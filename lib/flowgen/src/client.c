/* client: one TCP flow, or several at once, at full rate, for a given time or a given number of bytes. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "tcpflow.h"

enum { MAX_FLOWS = 1000, STACK_BYTES = 256 * 1024 };

/* One flow and the thread that runs it. */
struct runner {
    pthread_t thread;
    pthread_barrier_t *together;
    const struct tcp_plan *plan;
    const char *data;
    struct tcp_flow flow;
    bool whole;
};

static void print_line(struct json *line)
{
    if (!json_print(line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

static void json_moment(struct json *line, const char *key, uint64_t at_ns)
{
    if (at_ns)
        json_integer(line, key, at_ns);
    else
        json_null(line, key);
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
    if (flow->local.sin_port) {
        char local[ADDRESS_TEXT];
        address_format(&flow->local, local);
        json_text(&line, "local", local);
    } else {
        json_null(&line, "local");
    }
    json_integer(&line, "connect_ns", flow->connect_ns);
    json_moment(&line, "connected_ns", connected ? first->at_ns : 0);
    if (plan->finite_bytes)
        json_moment(&line, "sent_ns", flow->sent_ns);
    json_integer(&line, "end_ns", last->at_ns);
    json_number(&line, "duration_s", duration_s);
    if (plan->finite_bytes)
        json_boolean(&line, "complete", flow->complete);
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

static void *run_one(void *argument)
{
    struct runner *runner = argument;
    if (runner->together)
        pthread_barrier_wait(runner->together); /* making a thread takes long enough for a short flow to end */
    runner->whole = tcp_flow_run(&runner->flow, runner->plan, runner->data);
    return NULL;
}

static void run_all(struct runner *runners, size_t flows)
{
    if (flows == 1) {
        run_one(&runners[0]);
        return;
    }
    pthread_barrier_t together;
    pthread_attr_t attributes;
    int error = pthread_barrier_init(&together, NULL, (unsigned)flows);
    if (!error)
        error = pthread_attr_init(&attributes);
    if (!error)
        error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (size_t i = 0; !error && i < flows; i++) {
        runners[i].together = &together;
        error = pthread_create(&runners[i].thread, &attributes, run_one, &runners[i]);
    }
    if (error)
        die("cannot make a thread for each of %zu flows: %s; ulimit -u may be too low", flows, strerror(error));
    for (size_t i = 0; i < flows; i++)
        pthread_join(runners[i].thread, NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&together);
}

/* Returns the exit status. */
static int report(const struct runner *runners, size_t flows)
{
    size_t failed = 0, first_failed = 0;
    for (size_t i = 0; i < flows; i++) {
        for (size_t k = 1; k < runners[i].flow.count; k++)
            print_interval(i, &runners[i].flow, k);
        print_total(i, &runners[i].flow, runners[i].plan);
        if (!runners[i].whole && failed++ == 0)
            first_failed = i;
    }
    if (!failed)
        return 0;
    if (flows == 1)
        complain("%s", runners[0].flow.error);
    else
        complain("%zu of %zu flows failed, the first of them flow %zu: %s", failed, flows, first_failed,
                 runners[first_failed].flow.error);
    return STATUS_FAILED;
}

struct request {
    struct tcp_plan plan;
    size_t flows;
};

static uint64_t to_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9 + 0.5);
}

static struct request parse_request(char **arguments)
{
    const char *server = NULL, *congestion = NULL;
    double duration_s = 0, limit_s = 0, interval_s = 0.5;
    long finite_bytes = 0, write_bytes = 128 * 1024, flows = 1;
    struct option options[] = {
        {"--connect", OPTION_TEXT, &server, .required = true},
        {"--duration", OPTION_SECONDS, &duration_s, .min = 0.001, .max = 1e6},
        {"--bytes", OPTION_INTEGER, &finite_bytes, .min = 1, .max = 1e15},
        {"--limit", OPTION_SECONDS, &limit_s, .min = 0.001, .max = 1e6},
        {"--interval", OPTION_SECONDS, &interval_s, .min = 0.001, .max = 1e6},
        {"--congestion", OPTION_TEXT, &congestion, .required = false},
        {"--write-bytes", OPTION_INTEGER, &write_bytes, .min = 1, .max = 64 * 1024 * 1024},
        {"--flows", OPTION_INTEGER, &flows, .min = 1, .max = MAX_FLOWS},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; client runs no command");
    if (duration_s == 0 && finite_bytes == 0)
        die_usage("--duration is missing, or --bytes: one of them says when the flow ends (see flowgen --help)");
    if (duration_s > 0 && finite_bytes > 0)
        die_usage("--duration and --bytes exclude each other: a flow ends by time or by bytes; leave one out");
    if (limit_s > 0 && duration_s > 0)
        die_usage("--limit is for --bytes: a flow of a given --duration ends by itself; leave it out");

    struct request request = {
        .plan = {
            .duration_ns = to_ns(duration_s),
            .finite_bytes = (uint64_t)finite_bytes,
            .limit_ns = to_ns(limit_s),
            .interval_ns = to_ns(interval_s),
            .congestion = congestion,
            .write_bytes = (size_t)write_bytes,
        },
        .flows = (size_t)flows,
    };
    if (!address_parse_pair(&request.plan.server, server))
        die_usage("--connect '%s' is not an IPv4 address and port such as 10.77.0.1:5001", server);
    if (congestion && strlen(congestion) >= CONGESTION_NAME)
        die_usage("--congestion '%s' is longer than any name the kernel has (%d bytes)", congestion,
                  CONGESTION_NAME - 1);
    if ((to_ns(duration_s + limit_s) - 1) / request.plan.interval_ns >= MAX_INTERVALS && duration_s + limit_s > 0)
        die_usage("%s %g with --interval %g makes more than %d intervals; choose a longer --interval",
                  limit_s > 0 ? "--limit" : "--duration", duration_s + limit_s, interval_s, MAX_INTERVALS);
    return request;
}

int client_main(char **arguments)
{
    struct request request = parse_request(arguments);
    struct runner *runners = calloc(request.flows, sizeof *runners);
    char *data = malloc(request.plan.write_bytes);
    if (!runners || !data)
        die("out of memory for %zu flows and writes of %zu bytes", request.flows, request.plan.write_bytes);
    memset(data, 'f', request.plan.write_bytes); /* untouched memory is one shared page of zeros: it copies too fast */
    for (size_t i = 0; i < request.flows; i++) {
        runners[i].plan = &request.plan;
        runners[i].data = data;
    }

    descriptors_allow_many();
    run_all(runners, request.flows);
    int status = report(runners, request.flows);
    for (size_t i = 0; i < request.flows; i++)
        tcp_flow_free(&runners[i].flow);
    free(runners);
    free(data);
    return status;
}
