/* client: one flow, or several at once: TCP for a given time or a given number of bytes, or UDP for a given time. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "monotonic.h"
#include "options.h"
#include "report.h"
#include "sending.h"
#include "tcpflow.h"
#include "udpflow.h"

enum direction { UP, DOWN, BOTH }; /* who sends: the client, its server, or each on connections of its own */
enum { MAX_FLOWS = 1000, STACK_BYTES = 256 * 1024, TCP_USUAL_BYTES = 128 * 1024, TCP_MOST_BYTES = 64 * 1024 * 1024 };

struct request {
    bool udp;             /* then the plan of udp counts, else that of tcp */
    struct tcp_plan tcp_plan;
    struct udp_plan udp_plan;
    enum direction direction;
    size_t flows;         /* in each direction */
    size_t write_bytes;
    char *data;           /* write_bytes of it */
};

/* One flow and the thread that runs it. */
struct runner {
    pthread_t thread;
    pthread_barrier_t *together; /* NULL: it is alone */
    const struct request *request;
    size_t number;
    struct tcp_flow tcp;
    struct udp_flow udp;
    bool receives;               /* then its flow is the server's */
    struct received_flow received;
    bool whole;
};

static void *run_one(void *argument)
{
    struct runner *runner = argument;
    const struct request *request = runner->request;
    if (runner->together)
        pthread_barrier_wait(runner->together); /* making a thread takes long enough for a short flow to end */
    if (request->udp)
        runner->whole = udp_flow_run(&runner->udp, &request->udp_plan, request->data, (uint16_t)runner->number);
    else if (runner->receives)
        runner->whole = receive_flow(&runner->received, &request->tcp_plan, (uint32_t)runner->number);
    else
        runner->whole = tcp_flow_run(&runner->tcp, &request->tcp_plan, request->data);
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

static const char *error_of(const struct runner *runner)
{
    if (runner->request->udp)
        return runner->udp.error;
    return runner->receives ? runner->received.tcp.error : runner->tcp.error;
}

/* Returns the exit status. */
static int report_all(const struct runner *runners, size_t count, const struct request *request)
{
    size_t failed = 0;
    const struct runner *first_failed = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t number = runners[i].number;
        if (request->udp)
            report_udp(number, &runners[i].udp, &request->udp_plan);
        else if (runners[i].receives)
            report_received(number, &runners[i].received);
        else
            report_tcp(number, &runners[i].tcp, &request->tcp_plan);
        if (!runners[i].whole && failed++ == 0)
            first_failed = &runners[i];
    }
    if (!failed)
        return 0;
    const char *error = error_of(first_failed);
    if (count == 1)
        complain("%s", error);
    else
        complain("%zu of %zu flows failed, the first of them flow %zu: %s", failed, count,
                 first_failed->number, error);
    return STATUS_FAILED;
}

static volatile sig_atomic_t stopped;

static void note_stop(int number)
{
    (void)number;
    stopped = 1;
}

static void stop_at_sigterm(void)
{
    struct sigaction action = {.sa_handler = note_stop}; /* without SA_RESTART: a wait is over then */
    sigaction(SIGTERM, &action, NULL);
}

static uint64_t to_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9 + 0.5);
}

/* Of options that are 0 when not given. */
static void check_protocol(bool udp, double duration_s, long finite_bytes, const char *congestion, long rate_bps,
                           long write_bytes)
{
    if (!udp && rate_bps)
        die_usage("--rate is for --udp: TCP finds its own; leave it out");
    if (udp && finite_bytes)
        die_usage("--bytes is for TCP, where all arrive: give --udp a --duration instead");
    if (udp && congestion)
        die_usage("--congestion is for TCP: UDP has no such control; leave it out");
    if (udp && write_bytes && (write_bytes < UDP_LEAST_BYTES || write_bytes > UDP_MOST_BYTES))
        die_usage("--write-bytes '%ld' is no size of a datagram from %d to %d", write_bytes, UDP_LEAST_BYTES,
                  UDP_MOST_BYTES);
    if (duration_s == 0 && finite_bytes == 0)
        die_usage("--duration is missing%s (see flowgen --help)",
                  udp ? "" : ", or --bytes: one of them says when the flow ends");
}

static enum direction parse_direction(const char *text)
{
    static const char *const names[] = {[UP] = "up", [DOWN] = "down", [BOTH] = "both"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i]))
            return (enum direction)i;
    die_usage("--direction '%s' is none of up, down and both", text);
}

static struct request parse_request(char **arguments)
{
    const char *server_text = NULL, *congestion = NULL, *token_file = NULL, *direction_text = "up";
    double duration_s = 0, limit_s = 0, interval_s = 0.5;
    long finite_bytes = 0, write_bytes = 0, flows = 1, rate_bps = 0;
    bool udp = false, stoppable = false;
    struct option options[] = {
        {"--connect", OPTION_TEXT, &server_text, .required = true},
        {"--duration", OPTION_SECONDS, &duration_s, .min = 0.001, .max = 1e6},
        {"--bytes", OPTION_INTEGER, &finite_bytes, .min = 1, .max = 1e15},
        {"--limit", OPTION_SECONDS, &limit_s, .min = 0.001, .max = 1e6},
        {"--interval", OPTION_SECONDS, &interval_s, .min = 0.001, .max = 1e6},
        {"--congestion", OPTION_TEXT, &congestion, .required = false},
        {"--write-bytes", OPTION_INTEGER, &write_bytes, .min = 1, .max = TCP_MOST_BYTES},
        {"--flows", OPTION_INTEGER, &flows, .min = 1, .max = MAX_FLOWS},
        {"--direction", OPTION_TEXT, &direction_text, .required = false},
        {"--udp", OPTION_FLAG, &udp, .required = false},
        {"--rate", OPTION_INTEGER, &rate_bps, .min = 0, .max = 1e15},
        {"--stoppable", OPTION_FLAG, &stoppable, .required = false},
        {"--token-file", OPTION_TEXT, &token_file, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; client runs no command");
    check_protocol(udp, duration_s, finite_bytes, congestion, rate_bps, write_bytes);
    if (duration_s > 0 && finite_bytes > 0)
        die_usage("--duration and --bytes exclude each other: a flow ends by time or by bytes; leave one out");
    if (limit_s > 0 && duration_s > 0)
        die_usage("--limit is for --bytes: a flow of a given --duration ends by itself; leave it out");
    enum direction direction = parse_direction(direction_text);
    if (udp && direction != UP)
        die_usage("--direction is for TCP: UDP goes up; leave it out");
    if (stoppable && (udp || finite_bytes || flows > 1 || direction != UP))
        die_usage("--stoppable is for one flow up by TCP with a --duration: leave it out");
    if (stoppable)
        stop_at_sigterm();
    if (!write_bytes)
        write_bytes = udp ? UDP_USUAL_BYTES : TCP_USUAL_BYTES;

    union address server;
    if (!address_parse_pair(&server, server_text))
        die_usage("--connect '%s' is not an address and port such as 10.77.0.1:5001", server_text);
    if (congestion && strlen(congestion) >= CONGESTION_NAME)
        die_usage("--congestion '%s' is longer than any name the kernel has (%d bytes)", congestion,
                  CONGESTION_NAME - 1);
    double longest_s = duration_s + limit_s;
    if (longest_s > 0 && (to_ns(longest_s) - 1) / to_ns(interval_s) >= MAX_INTERVALS)
        die_usage("%s %g with --interval %g makes more than %d intervals; choose a longer --interval",
                  limit_s > 0 ? "--limit" : "--duration", longest_s, interval_s, MAX_INTERVALS);
    struct token token;
    token_read(&token, token_file);
    return (struct request){
        .udp = udp,
        .tcp_plan = {
            .server = server,
            .token = token,
            .duration_ns = to_ns(duration_s),
            .finite_bytes = (uint64_t)finite_bytes,
            .limit_ns = to_ns(limit_s),
            .interval_ns = to_ns(interval_s),
            .congestion = congestion,
            .write_bytes = (size_t)write_bytes,
            .stopped = &stopped,
        },
        .udp_plan = {
            .server = server,
            .token = token,
            .duration_ns = to_ns(duration_s),
            .rate_bps = (uint64_t)rate_bps,
            .datagram_bytes = (size_t)write_bytes,
        },
        .direction = direction,
        .flows = (size_t)flows,
        .write_bytes = (size_t)write_bytes,
    };
}

int client_main(char **arguments)
{
    struct request request = parse_request(arguments);
    size_t count = request.direction == BOTH ? 2 * request.flows : request.flows;
    struct runner *runners = calloc(count, sizeof *runners);
    request.data = malloc(request.write_bytes);
    if (!runners || !request.data)
        die("out of memory for %zu flows and writes of %zu bytes", count, request.write_bytes);
    memset(request.data, 'f', request.write_bytes); /* untouched memory is one shared page: it would copy too fast */
    for (size_t i = 0; i < count; i++) {
        runners[i].request = &request;
        runners[i].number = i % request.flows;
        runners[i].receives = request.direction == DOWN || i >= request.flows;
    }

    descriptors_allow_many();
    run_all(runners, count);
    int status = report_all(runners, count, &request);
    for (size_t i = 0; i < count; i++)
        tcp_flow_free(&runners[i].tcp);
    free(runners);
    free(request.data);
    return status;
}
