#include "tcpflow.h"

#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "address.h"
#include "errors.h"
#include "monotonic.h"
#include "netcounters.h"

enum { FIRST_SAMPLES = 64, DISCARDED_BYTES = 4096 };

__attribute__((format(printf, 2, 3))) static bool fail(struct tcp_flow *flow, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(flow->error, sizeof flow->error, format, arguments);
    va_end(arguments);
    return false;
}

static void take_sample(struct tcp_flow *flow)
{
    if (flow->count == flow->capacity) {
        flow->capacity = flow->capacity ? 2 * flow->capacity : FIRST_SAMPLES;
        flow->samples = realloc(flow->samples, flow->capacity * sizeof *flow->samples);
        if (!flow->samples)
            die("out of memory for %zu samples of a flow; choose a longer --interval", flow->capacity);
    }
    struct sample *sample = &flow->samples[flow->count++];
    sample->at_ns = monotonic_ns();
    sample->written = flow->written;
    sample->tcp = tcp_sample(flow->socket);
    uint64_t acked = sample->tcp.bytes_acked - flow->samples[0].tcp.bytes_acked;
    sample->acked = acked < flow->written ? acked : flow->written;
}

/* The kernel sends on what is written, so that its own count is taken on both sides. */
static void take_last_sample(struct tcp_flow *flow)
{
    flow->netns_retransmits[0] = net_counters_tcp_retransmits();
    take_sample(flow);
    flow->netns_retransmits[1] = net_counters_tcp_retransmits();
}

uint64_t bytes_between(const struct sample *from, const struct sample *to)
{
    return to->tcp.counts_acked ? to->acked - from->acked : to->written - from->written;
}

static bool not_in_time(struct tcp_flow *flow, const struct tcp_plan *plan)
{
    return fail(flow, "not complete after %g s", (double)plan->limit_ns / 1e9);
}

static bool choose_congestion_control(struct tcp_flow *flow, const struct tcp_plan *plan)
{
    return !plan->congestion ||
           setsockopt(flow->socket, IPPROTO_TCP, TCP_CONGESTION, plan->congestion,
                      (socklen_t)strlen(plan->congestion)) == 0 ||
           fail(flow, "cannot use congestion control '%s': %s; sysctl %s", plan->congestion, strerror(errno),
                errno == EPERM ? "net.ipv4.tcp_allowed_congestion_control lists what may be used"
                               : "net.ipv4.tcp_available_congestion_control lists what there is");
}

bool tcp_flow_open(struct tcp_flow *flow, const struct tcp_plan *plan)
{
    flow->socket = socket(plan->server.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (flow->socket < 0)
        return fail(flow, "cannot make a socket: %s", strerror(errno));
    if (!choose_congestion_control(flow, plan))
        return false;
    if (plan->limit_ns) { /* of all calls here only connect heeds it (socket(7)): no write ever waits */
        struct timespec left = time_until(flow->connect_ns + plan->limit_ns);
        struct timeval limit = {.tv_sec = left.tv_sec, .tv_usec = left.tv_nsec / 1000 + 1}; /* zero were no limit */
        setsockopt(flow->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    if (connect(flow->socket, &plan->server.any, sizeof plan->server) < 0) {
        char server[ADDRESS_TEXT];
        address_format(&plan->server, server);
        if (plan->limit_ns && errno == EINPROGRESS)
            return not_in_time(flow, plan);
        return fail(flow, "cannot connect to %s: %s; a server must listen there first", server, strerror(errno));
    }
    return true;
}

/* What was settled with the connection. */
static void describe_connection(struct tcp_flow *flow)
{
    socklen_t length = sizeof flow->local;
    if (getsockname(flow->socket, &flow->local.any, &length) < 0)
        flow->local.v4.sin_port = 0;
    length = sizeof flow->congestion;
    if (getsockopt(flow->socket, IPPROTO_TCP, TCP_CONGESTION, flow->congestion, &length) < 0)
        flow->congestion[0] = '\0';
    flow->congestion[CONGESTION_NAME - 1] = '\0';
}

/* When the interval that holds `now` ends. After a stall this skips what passed meanwhile: one long interval tells
   the truth, and several empty ones would not. A flow without a limit can outlast what we keep of it: then its last
   interval is a long one. */
static uint64_t interval_end(const struct tcp_flow *flow, const struct tcp_plan *plan, uint64_t deadline_ns,
                             uint64_t now)
{
    if (flow->count > MAX_INTERVALS)
        return deadline_ns;
    uint64_t connected_ns = flow->samples[0].at_ns;
    uint64_t intervals = (now - connected_ns) / plan->interval_ns + 1;
    uint64_t end_ns = connected_ns + intervals * plan->interval_ns;
    return end_ns < deadline_ns ? end_ns : deadline_ns;
}

enum step { STEP_MOVED, STEP_BLOCKED, STEP_ENDED, STEP_BROKEN };

static enum step step_failed(void)
{
    if (errno == EINTR)
        return STEP_MOVED;
    return errno == EAGAIN ? STEP_BLOCKED : STEP_BROKEN;
}

/* What is left of the token, in place of the first data: in the same segments, so that Nagle's algorithm holds nothing
   back, and flows have as many as without it. */
static ssize_t send_opening(const struct tcp_flow *flow, const struct token *token, const char *data, size_t length)
{
    size_t left = TOKEN_BYTES - flow->written;
    if (left > length)
        left = length;
    struct iovec parts[] = {
        {.iov_base = (void *)(token->bytes + flow->written), .iov_len = left},
        {.iov_base = (void *)data, .iov_len = length - left},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(flow->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static enum step send_more(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data)
{
    size_t length = plan->write_bytes;
    if (plan->finite_bytes && plan->finite_bytes - flow->written < length)
        length = plan->finite_bytes - flow->written;
    ssize_t sent = plan->token.given && flow->written < TOKEN_BYTES
                       ? send_opening(flow, &plan->token, data, length)
                       : send(flow->socket, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return step_failed();
    flow->written += (uint64_t)sent;
    if (flow->written == plan->finite_bytes) {
        flow->sent_ns = monotonic_ns();
        if (shutdown(flow->socket, SHUT_WR) < 0)
            return STEP_BROKEN;
    }
    return STEP_MOVED;
}

/* The server closes when it has read all there was: with what it may have to say before we have nothing to do. */
static enum step await_end(const struct tcp_flow *flow)
{
    char discarded[DISCARDED_BYTES];
    ssize_t received = recv(flow->socket, discarded, sizeof discarded, MSG_DONTWAIT);
    if (received < 0)
        return step_failed();
    return received ? STEP_MOVED : STEP_ENDED;
}

static bool has_come_to_end(struct tcp_flow *flow)
{
    const struct sample *last = &flow->samples[flow->count - 1];
    uint64_t arrived = bytes_between(&flow->samples[0], last);
    flow->complete = arrived == flow->written;
    return flow->complete || fail(flow, "the server closed the connection after %llu of %llu bytes",
                                  (unsigned long long)arrived, (unsigned long long)flow->written);
}

/* The clock, not the peer, ends intervals: a write never blocks. */
static bool transfer(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data)
{
    bool finite = plan->finite_bytes;
    uint64_t deadline_ns = flow->samples[0].at_ns + plan->duration_ns;
    if (finite)
        deadline_ns = plan->limit_ns ? flow->connect_ns + plan->limit_ns : UINT64_MAX;
    uint64_t boundary_ns = interval_end(flow, plan, deadline_ns, flow->samples[0].at_ns);

    for (;;) {
        bool all_written = finite && flow->written == plan->finite_bytes;
        if (plan->stopped && *plan->stopped && !all_written) /* else what has arrived decides */
            deadline_ns = boundary_ns = 0;
        if (monotonic_ns() >= boundary_ns) {
            if (monotonic_ns() >= deadline_ns)
                take_last_sample(flow);
            else
                take_sample(flow);
            uint64_t sampled_ns = flow->samples[flow->count - 1].at_ns;
            if (sampled_ns >= deadline_ns)
                return !finite || not_in_time(flow, plan);
            boundary_ns = interval_end(flow, plan, deadline_ns, sampled_ns);
        }
        switch (all_written ? await_end(flow) : send_more(flow, plan, data)) {
        case STEP_MOVED:
            break;
        case STEP_BLOCKED: {
            struct timespec left = time_until(boundary_ns);
            ppoll(&(struct pollfd){.fd = flow->socket, .events = all_written ? POLLIN : POLLOUT}, 1, &left, NULL);
            break;
        }
        case STEP_ENDED:
            take_last_sample(flow);
            return has_come_to_end(flow);
        case STEP_BROKEN:
            fail(flow, "the connection broke: %s", strerror(errno));
            take_last_sample(flow);
            return false;
        }
    }
}

/* A finite flow that gave up is taken off the network at once: what it left behind would disturb others. */
void tcp_flow_close(struct tcp_flow *flow, const struct tcp_plan *plan)
{
    if (flow->socket < 0)
        return;
    if (plan->finite_bytes && !flow->complete)
        setsockopt(flow->socket, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    else
        shutdown(flow->socket, SHUT_WR);
    close(flow->socket);
}

static bool run(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data)
{
    take_sample(flow);
    describe_connection(flow);
    return transfer(flow, plan, data);
}

bool tcp_flow_serve(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data)
{
    flow->netns_retransmits[0] = flow->netns_retransmits[1] = -1;
    return choose_congestion_control(flow, plan) && run(flow, plan, data);
}

bool tcp_flow_run(struct tcp_flow *flow, const struct tcp_plan *plan, const char *data)
{
    flow->netns_retransmits[0] = flow->netns_retransmits[1] = -1;
    flow->connect_ns = monotonic_ns();
    bool whole = tcp_flow_open(flow, plan) && run(flow, plan, data);
    tcp_flow_close(flow, plan);
    return whole;
}

void tcp_flow_free(struct tcp_flow *flow)
{
    free(flow->samples);
}
