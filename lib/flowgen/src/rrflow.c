#include "rrflow.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "address.h"
#include "monotonic.h"
#include "rrwire.h"

/* How long after the end a response still counts: a stall at the end must not be left out. */
static const uint64_t GRACE_NS = NS_PER_S;
/* How often a call that waits looks at the clock, and the pause after a connection that failed. */
static const uint64_t LOOK_NS = 100 * NS_PER_MS, PAUSE_NS = NS_PER_MS;

enum { RECEIVE_BYTES = 64 * 1024 };

enum outcome { ANSWERED, LOST, FAILED, BROKEN };

/* What one connection needs while it runs. */
struct run {
    struct rr_flow *flow;
    const struct rr_plan *plan;
    const char *request;
    int socket;                /* -1: none, as between the connections for one request each */
    uint64_t give_up_ns;
    uint64_t sequence;         /* UDP: of the last request */
    char received[RECEIVE_BYTES];
};

__attribute__((format(printf, 2, 3))) static bool fail(struct rr_flow *flow, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(flow->error, sizeof flow->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool fail_with_server(struct run *run, const char *what, const char *next)
{
    char server[ADDRESS_TEXT];
    int error = errno;
    address_format(&run->plan->server, server);
    return fail(run->flow, "cannot %s %s: %s; %s", what, server, strerror(error), next);
}

static struct timeval timeval_of(uint64_t ns)
{
    return (struct timeval){.tv_sec = (time_t)(ns / NS_PER_S), .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};
}

static bool open_socket(struct run *run)
{
    const struct rr_plan *plan = run->plan;
    run->socket = socket(plan->server.any.sa_family, (plan->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    if (run->socket < 0)
        return fail(run->flow, "cannot make a socket: %s", strerror(errno));
    struct timeval look = timeval_of(plan->udp && plan->timeout_ns < LOOK_NS ? plan->timeout_ns : LOOK_NS);
    setsockopt(run->socket, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    setsockopt(run->socket, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
    if (!plan->udp)
        setsockopt(run->socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return true;
}

static void close_socket(struct run *run)
{
    if (run->socket >= 0)
        close(run->socket);
    run->socket = -1;
}

static bool may_wait(const struct run *run)
{
    return (errno == EINTR || errno == EAGAIN || errno == EINPROGRESS) && monotonic_ns() < run->give_up_ns;
}

/* SO_SNDTIMEO ends a connect that takes long; it goes on, and may be called again. */
static bool connect_socket(const struct run *run)
{
    const struct sockaddr *server = &run->plan->server.any;
    while (connect(run->socket, server, sizeof run->plan->server) < 0) {
        if (errno == EISCONN)
            return true;
        if (errno == EALREADY)
            errno = EINPROGRESS;
        if (!may_wait(run))
            return false;
    }
    return true;
}

static bool send_parts(const struct run *run, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(run->socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && !may_wait(run))
            return false;
        for (size_t left = sent < 0 ? 0 : (size_t)sent; message.msg_iovlen;) {
            size_t taken = left < message.msg_iov->iov_len ? left : message.msg_iov->iov_len;
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + taken;
            message.msg_iov->iov_len -= taken;
            left -= taken;
            if (message.msg_iov->iov_len)
                break;
            message.msg_iov++;
            message.msg_iovlen--;
        }
    }
    return true;
}

/* False with errno, which is 0 where the server has closed, and EAGAIN where the time to wait is over. */
static bool receive_bytes(struct run *run, size_t length)
{
    while (length) {
        size_t most = length < sizeof run->received ? length : sizeof run->received;
        ssize_t received = recv(run->socket, run->received, most, 0);
        if (received > 0) {
            length -= (size_t)received;
        } else if (!received) {
            errno = 0;
            return false;
        } else if (!may_wait(run)) {
            return false;
        }
    }
    return true;
}

static struct rr_opening opening_of(const struct rr_plan *plan)
{
    struct rr_opening opening = {
        .magic = RR_MAGIC,
        .request_bytes = (uint32_t)plan->request_bytes,
        .response_bytes = (uint32_t)plan->response_bytes,
        .flags = plan->one_request ? RR_ONE_REQUEST : 0,
    };
    memcpy(opening.token, plan->token.bytes, sizeof opening.token);
    return opening;
}

/* Of a connection for all requests: from here on the server is ready for the first. */
static bool introduce(struct run *run)
{
    struct rr_opening opening = opening_of(run->plan);
    struct iovec part = {.iov_base = &opening, .iov_len = sizeof opening};
    if (!send_parts(run, &part, 1))
        return fail_with_server(run, "send to", "a server (flowgen rr-server) must be there");
    if (receive_bytes(run, 1))
        return true;
    if (!errno)
        return fail(run->flow, "the server closed the connection at once: it must be flowgen rr-server, with the same"
                               " --token-file");
    return fail_with_server(run, "receive from", "a server (flowgen rr-server) must be there");
}

static bool open_flow(struct run *run)
{
    run->flow->connect_ns = monotonic_ns();
    run->give_up_ns = run->flow->connect_ns + run->plan->warmup_ns + run->plan->duration_ns + GRACE_NS;
    if (run->plan->one_request)
        return true;
    if (!open_socket(run))
        return false;
    if (!connect_socket(run))
        return fail_with_server(run, "connect to", "a server (flowgen rr-server) must listen there first");
    socklen_t length = sizeof run->flow->local;
    if (getsockname(run->socket, &run->flow->local.any, &length) < 0)
        run->flow->local.v4.sin_port = 0;
    return run->plan->udp || introduce(run);
}

static enum outcome outcome_of_error(void)
{
    return errno == EAGAIN || errno == EINTR || errno == EINPROGRESS ? LOST : BROKEN;
}

/* In one plain call, as a rule: it takes less than sendmsg. */
static bool send_request(const struct run *run)
{
    size_t length = run->plan->request_bytes;
    ssize_t sent = send(run->socket, run->request, length, MSG_NOSIGNAL);
    if (sent == (ssize_t)length)
        return true;
    if (sent < 0 && !may_wait(run))
        return false;
    size_t done = sent < 0 ? 0 : (size_t)sent;
    struct iovec rest = {.iov_base = (void *)(run->request + done), .iov_len = length - done};
    return send_parts(run, &rest, 1);
}

static enum outcome transact_tcp(struct run *run)
{
    run->flow->requests++;
    if (send_request(run) && receive_bytes(run, run->plan->response_bytes))
        return ANSWERED;
    enum outcome outcome = outcome_of_error();
    if (outcome == BROKEN)
        fail(run->flow, "the connection broke: %s", errno ? strerror(errno) : "the server closed it");
    return outcome;
}

static enum outcome transact_once(struct run *run)
{
    struct rr_opening opening = opening_of(run->plan);
    struct iovec parts[] = {
        {.iov_base = &opening, .iov_len = sizeof opening},
        {.iov_base = (void *)run->request, .iov_len = run->plan->request_bytes},
    };
    run->flow->requests++;
    if (!open_socket(run))
        return BROKEN;
    if (connect_socket(run) && send_parts(run, parts, 2) && receive_bytes(run, run->plan->response_bytes))
        return ANSWERED;
    if (outcome_of_error() == LOST)
        return LOST;
    fail(run->flow, "the last of the connections that failed: %s", errno ? strerror(errno) : "the server closed it");
    return FAILED;
}

static bool is_response(const struct run *run, ssize_t length)
{
    struct rr_datagram header;
    if (length < RR_LEAST_RESPONSE_DATAGRAM)
        return false;
    memcpy(&header, run->received, RR_LEAST_RESPONSE_DATAGRAM);
    return header.magic == RR_RESPONSE_MAGIC && header.sequence == run->sequence;
}

/* Responses to requests that were given up are passed over. */
static enum outcome transact_udp(struct run *run)
{
    const struct rr_plan *plan = run->plan;
    struct rr_datagram header = {RR_MAGIC, (uint32_t)plan->response_bytes, ++run->sequence, {0}};
    memcpy(header.token, plan->token.bytes, sizeof header.token);
    struct iovec parts[] = {
        {.iov_base = &header, .iov_len = sizeof header},
        {.iov_base = (void *)run->request, .iov_len = plan->request_bytes - sizeof header},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    uint64_t give_up_ns = monotonic_ns() + plan->timeout_ns;
    run->flow->requests++;
    if (sendmsg(run->socket, &message, MSG_NOSIGNAL) < 0)
        return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? LOST : FAILED;
    for (;;) {
        ssize_t received = recv(run->socket, run->received, sizeof run->received, 0);
        if (is_response(run, received))
            return ANSWERED;
        if (received < 0 && errno != EAGAIN && errno != EINTR)
            return FAILED;
        if (monotonic_ns() >= give_up_ns)
            return LOST;
    }
}

static enum outcome transact(struct run *run)
{
    if (run->plan->udp)
        return transact_udp(run);
    return run->plan->one_request ? transact_once(run) : transact_tcp(run);
}

/* The server's end of the connection comes first, so that it has the address in use after it, and not the client. */
static void end_transaction(struct run *run, enum outcome outcome)
{
    if (run->plan->one_request) {
        if (outcome == ANSWERED)
            receive_bytes(run, 1);
        close_socket(run);
    }
    if (outcome == FAILED) {
        struct timespec pause = timespec_of(PAUSE_NS);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
}

static void count(struct rr_flow *flow, enum outcome outcome, uint64_t latency_ns)
{
    if (outcome != ANSWERED) {
        *(outcome == LOST ? &flow->counts.lost : &flow->counts.failed) += 1;
        return;
    }
    flow->counts.transactions++;
    histogram_record(flow->histogram, latency_ns);
    flow->sum_ns += (double)latency_ns;
    if (latency_ns < flow->least_ns)
        flow->least_ns = latency_ns;
    if (latency_ns > flow->most_ns)
        flow->most_ns = latency_ns;
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = timespec_of(at_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* When a request is due, from the first moment and not from the one before it: so nothing is rounded up, and a late one
   delays no other's moment. */
static uint64_t due_ns(const struct run *run, uint64_t number, double phase)
{
    return run->flow->connected_ns + (uint64_t)(((double)number + phase) * run->plan->period_ns);
}

/* How many requests are due before that moment. */
static uint64_t due_before(const struct run *run, double phase, uint64_t at_ns)
{
    double periods = (double)(at_ns - run->flow->connected_ns) / run->plan->period_ns - phase;
    uint64_t whole = periods > 0 ? (uint64_t)periods : 0;
    return whole + ((double)whole < periods);
}

/* Those to be counted, from that number on, that were not sent, as the ones before them took too long. */
static uint64_t unsent(const struct run *run, uint64_t number, double phase, uint64_t count_ns, uint64_t end_ns)
{
    uint64_t due = due_before(run, phase, end_ns), uncounted = due_before(run, phase, count_ns);
    uint64_t first = number > uncounted ? number : uncounted;
    return due > first ? due - first : 0;
}

static bool exchange(struct run *run, double phase)
{
    struct rr_flow *flow = run->flow;
    const struct rr_plan *plan = run->plan;
    uint64_t count_ns = flow->connected_ns + plan->warmup_ns, end_ns = count_ns + plan->duration_ns;
    bool paced = plan->period_ns > 0, whole = true;
    run->give_up_ns = end_ns + GRACE_NS;
    for (uint64_t number = 0; whole; number++) {
        uint64_t begin_ns = paced ? due_ns(run, number, phase) : monotonic_ns();
        if (begin_ns >= end_ns) {
            sleep_until(end_ns);
            break;
        }
        if (paced) {
            uint64_t now = monotonic_ns();
            if (now >= end_ns) {
                flow->counts.lost += unsent(run, number, phase, count_ns, end_ns);
                break;
            }
            if (begin_ns > now)
                sleep_until(begin_ns);
        }
        enum outcome outcome = transact(run);
        uint64_t took_ns = monotonic_ns() - begin_ns;
        flow->responses += outcome == ANSWERED;
        if (begin_ns >= count_ns)
            count(flow, outcome, took_ns);
        whole = outcome != BROKEN;
        end_transaction(run, outcome);
    }
    if (whole && !flow->requests)
        return fail(flow, "no request was due in this time; choose a higher --rate");
    if (whole && !flow->responses)
        return *flow->error ? false : fail(flow, "not one response came; a server (flowgen rr-server) must be there");
    return whole;
}

bool rr_flow_run(struct rr_flow *flow, const struct rr_plan *plan, const char *request, double phase,
                 rr_together *together, void *argument)
{
    struct run run = {.flow = flow, .plan = plan, .request = request, .socket = -1};
    flow->least_ns = UINT64_MAX;
    bool whole = open_flow(&run);
    together(argument);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* the usual 50 us would be in each latency */
    if (whole) {
        flow->connected_ns = monotonic_ns();
        whole = exchange(&run, phase);
        if (whole)
            flow->error[0] = '\0'; /* of single connections, which are counted */
    }
    flow->end_ns = monotonic_ns();
    close_socket(&run);
    return whole;
}
