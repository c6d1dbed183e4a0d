/* rr: sends requests, awaits their responses, and says how long each took: over one connection or several at once. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "report.h"
#include "rrflow.h"
#include "rrwire.h"

enum { MAX_CONNECTIONS = 1000, STACK_BYTES = 256 * 1024 };

struct asked {
    struct rr_plan plan;
    size_t connections;
    char *request;
};

/* One connection and the thread that runs it. */
struct runner {
    pthread_t thread;
    pthread_barrier_t *together; /* NULL: it is alone */
    const struct asked *asked;
    size_t number;
    struct rr_flow flow;
    bool whole;
};

/* Making a thread and a connection takes long enough for others to have sent many requests. */
static void wait_for_all(void *argument)
{
    struct runner *runner = argument;
    if (runner->together)
        pthread_barrier_wait(runner->together);
}

static void *run_one(void *argument)
{
    struct runner *runner = argument;
    const struct asked *asked = runner->asked;
    double phase = (double)runner->number / (double)asked->connections;
    runner->whole = rr_flow_run(&runner->flow, &asked->plan, asked->request, phase, wait_for_all, runner);
    return NULL;
}

static void run_all(struct runner *runners, size_t connections)
{
    if (connections == 1) { /* without a thread, each call costs a little less */
        run_one(&runners[0]);
        return;
    }
    pthread_barrier_t together;
    pthread_attr_t attributes;
    int error = pthread_barrier_init(&together, NULL, (unsigned)connections);
    if (!error)
        error = pthread_attr_init(&attributes);
    if (!error)
        error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (size_t i = 0; !error && i < connections; i++) {
        runners[i].together = &together;
        error = pthread_create(&runners[i].thread, &attributes, run_one, &runners[i]);
    }
    if (error)
        die("cannot make a thread for each of %zu connections: %s; ulimit -u may be too low", connections,
            strerror(error));
    for (size_t i = 0; i < connections; i++)
        pthread_join(runners[i].thread, NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&together);
}

static void report_total(size_t number, const struct rr_flow *flow, const struct rr_plan *plan)
{
    uint64_t transactions = flow->counts.transactions;
    double least_s = transactions ? (double)flow->least_ns / 1e9 : NAN;
    double most_s = transactions ? (double)flow->most_ns / 1e9 : NAN;
    double lasted_s = flow->connected_ns ? (double)(flow->end_ns - flow->connected_ns) / 1e9 : 0;
    struct json line;
    json_begin(&line, "total");
    json_integer(&line, "flow", number);
    json_text(&line, "protocol", plan->udp ? "udp" : "tcp");
    if (flow->local.v4.sin_port) {
        char local[ADDRESS_TEXT];
        address_format(&flow->local, local);
        json_text(&line, "local", local);
    } else {
        json_null(&line, "local");
    }
    json_moment(&line, "connect_ns", flow->connect_ns);
    json_moment(&line, "connected_ns", flow->connected_ns);
    json_moment(&line, "end_ns", flow->end_ns);
    json_number(&line, "lasted_s", lasted_s);
    json_number(&line, "duration_s", (double)plan->duration_ns / 1e9);
    json_integer(&line, "request_bytes", plan->request_bytes);
    json_integer(&line, "response_bytes", plan->response_bytes);
    json_integer(&line, "requests", flow->requests);
    json_integer(&line, "responses", flow->responses);
    json_integer(&line, "transactions", transactions);
    json_integer(&line, "lost", flow->counts.lost);
    json_integer(&line, "failed", flow->counts.failed);
    json_number(&line, "min_s", least_s);
    json_number(&line, "mean_s", transactions ? flow->sum_ns / (double)transactions / 1e9 : NAN);
    json_number(&line, "max_s", most_s);
    if (*flow->error)
        json_text(&line, "error", flow->error);
    if (!json_print(&line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

/* Returns the exit status. */
static int report_all(const struct runner *runners, const struct asked *asked)
{
    size_t failed = 0;
    const struct runner *first_failed = NULL;
    for (size_t i = 0; i < asked->connections; i++) {
        report_latencies(i, runners[i].flow.histogram);
        report_total(i, &runners[i].flow, &asked->plan);
        if (!runners[i].whole && failed++ == 0)
            first_failed = &runners[i];
    }
    if (!failed)
        return 0;
    if (asked->connections == 1)
        complain("%s", first_failed->flow.error);
    else
        complain("%zu of %zu connections failed, the first of them number %zu: %s", failed, asked->connections,
                 first_failed->number, first_failed->flow.error);
    return STATUS_FAILED;
}

static uint64_t to_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9 + 0.5);
}

static void check_sizes(const struct rr_plan *plan)
{
    if (!plan->udp)
        return;
    if (plan->request_bytes < RR_LEAST_REQUEST_DATAGRAM || plan->request_bytes > RR_MOST_DATAGRAM_BYTES)
        die_usage("--request-bytes '%zu' is no size of a datagram from %d to %d", plan->request_bytes,
                  RR_LEAST_REQUEST_DATAGRAM, RR_MOST_DATAGRAM_BYTES);
    if (plan->response_bytes < RR_LEAST_RESPONSE_DATAGRAM || plan->response_bytes > RR_MOST_DATAGRAM_BYTES)
        die_usage("--response-bytes '%zu' is no size of a datagram from %d to %d", plan->response_bytes,
                  RR_LEAST_RESPONSE_DATAGRAM, RR_MOST_DATAGRAM_BYTES);
    if (plan->one_request)
        die_usage("--connect-per-request is for TCP: UDP has no connections; leave it out");
}

static struct asked parse_asked(char **arguments)
{
    const char *server_text = NULL, *token_file = NULL;
    double duration_s = 0, warmup_s = 0, timeout_s = 0, rate_hz = 0;
    long request_bytes = 0, response_bytes = 0, connections = 1;
    bool udp = false, one_request = false;
    struct option options[] = {
        {"--connect", OPTION_TEXT, &server_text, .required = true},
        {"--duration", OPTION_SECONDS, &duration_s, .required = true, .min = 0.001, .max = 1e6},
        {"--warmup", OPTION_SECONDS, &warmup_s, .min = 0, .max = 1e6},
        {"--request-bytes", OPTION_INTEGER, &request_bytes, .min = 1, .max = RR_MOST_BYTES},
        {"--response-bytes", OPTION_INTEGER, &response_bytes, .min = 1, .max = RR_MOST_BYTES},
        {"--rate", OPTION_NUMBER, &rate_hz, .min = 0.001, .max = 1e9},
        {"--connections", OPTION_INTEGER, &connections, .min = 1, .max = MAX_CONNECTIONS},
        {"--connect-per-request", OPTION_FLAG, &one_request, .required = false},
        {"--udp", OPTION_FLAG, &udp, .required = false},
        {"--timeout", OPTION_SECONDS, &timeout_s, .min = 0.001, .max = 3600},
        {"--token-file", OPTION_TEXT, &token_file, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; rr runs no command");
    if (timeout_s > 0 && !udp)
        die_usage("--timeout is for --udp: TCP sends again by itself; leave it out");
    union address server;
    if (!address_parse_pair(&server, server_text))
        die_usage("--connect '%s' is not an address and port such as 10.77.0.1:5001", server_text);
    if (!request_bytes)
        request_bytes = udp ? RR_LEAST_REQUEST_DATAGRAM : 1;
    if (!response_bytes)
        response_bytes = udp ? RR_LEAST_RESPONSE_DATAGRAM : 1;
    struct rr_plan plan = {
        .server = server,
        .udp = udp,
        .one_request = one_request,
        .request_bytes = (size_t)request_bytes,
        .response_bytes = (size_t)response_bytes,
        .period_ns = rate_hz > 0 ? 1e9 / rate_hz * (double)connections : 0,
        .warmup_ns = to_ns(warmup_s),
        .duration_ns = to_ns(duration_s),
        .timeout_ns = to_ns(timeout_s > 0 ? timeout_s : 1),
    };
    check_sizes(&plan);
    token_read(&plan.token, token_file);
    return (struct asked){.plan = plan, .connections = (size_t)connections};
}

int rr_main(char **arguments)
{
    struct asked asked = parse_asked(arguments);
    struct runner *runners = calloc(asked.connections, sizeof *runners);
    struct histogram *histograms = histogram_make(asked.connections);
    asked.request = malloc(asked.plan.request_bytes);
    if (!runners || !histograms || !asked.request)
        die("out of memory for %zu connections", asked.connections);
    memset(asked.request, 'r', asked.plan.request_bytes); /* untouched memory is one shared page: it would copy too fast */
    for (size_t i = 0; i < asked.connections; i++) {
        runners[i].asked = &asked;
        runners[i].number = i;
        runners[i].flow.histogram = &histograms[i];
    }

    descriptors_allow_many();
    run_all(runners, asked.connections);
    int status = report_all(runners, &asked);
    free(runners);
    free(asked.request);
    return status;
}
