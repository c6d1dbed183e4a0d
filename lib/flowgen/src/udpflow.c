#include "udpflow.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "address.h"
#include "monotonic.h"

static const uint64_t ANSWER_NS = NS_PER_S, RETRY_NS = 20 * NS_PER_MS;

__attribute__((format(printf, 2, 3))) static bool fail(struct udp_flow *flow, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(flow->error, sizeof flow->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool fail_to_send(struct udp_flow *flow, const struct udp_plan *plan)
{
    char server[ADDRESS_TEXT];
    int error = errno;
    address_format(&plan->server, server);
    return fail(flow, "cannot send to %s: %s; a server must be there first, with --udp", server, strerror(error));
}

static struct udp_header header_of(const struct udp_plan *plan, enum udp_kind kind, uint16_t number, uint64_t sequence,
                                   uint64_t at_ns)
{
    struct udp_header header = {UDP_MAGIC, (uint16_t)kind, number, sequence, at_ns, {0}};
    memcpy(header.token, plan->token.bytes, sizeof header.token);
    return header;
}

/* Returns 1, 0 for "not now", or -1 with errno. */
static int send_one(int socket, const struct udp_header *header, const char *data, size_t length)
{
    struct iovec parts[] = {
        {.iov_base = (void *)header, .iov_len = sizeof *header},
        {.iov_base = (void *)data, .iov_len = length - sizeof *header},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return 1;
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -1;
}

/* When a datagram is due: by the clock, and not so long after the one before, so that the rate is kept after a stall. */
static uint64_t due_ns(const struct udp_flow *flow, const struct udp_plan *plan)
{
    if (!plan->rate_bps)
        return 0;
    double bits = (double)flow->sent * (double)plan->datagram_bytes * 8;
    return flow->started_ns + (uint64_t)(bits / (double)plan->rate_bps * 1e9);
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static bool send_all(struct udp_flow *flow, const struct udp_plan *plan, const char *data, uint16_t number, int socket)
{
    uint64_t deadline_ns = flow->started_ns + plan->duration_ns;
    for (uint64_t now; (now = monotonic_ns()) < deadline_ns;) {
        uint64_t due = due_ns(flow, plan);
        if (due >= deadline_ns) {
            sleep_until(deadline_ns);
            break;
        }
        if (due > now) {
            sleep_until(due);
            continue;
        }
        struct udp_header header = header_of(plan, UDP_DATA, number, flow->sent, now);
        int sent = send_one(socket, &header, data, plan->datagram_bytes);
        if (sent < 0)
            return fail_to_send(flow, plan);
        if (sent) {
            flow->sent++;
        } else {
            struct timespec left = time_until(deadline_ns);
            ppoll(&(struct pollfd){.fd = socket, .events = POLLOUT}, 1, &left, NULL);
        }
    }
    return true;
}

static bool is_answer(const struct udp_flow *flow, const struct udp_answer *answer, ssize_t length)
{
    return length == (ssize_t)sizeof *answer && answer->header.magic == UDP_MAGIC &&
           answer->header.kind == UDP_ANSWER && answer->header.at_ns == flow->started_ns;
}

/* End marks may be lost as any datagram, and so may answers. */
static bool ask_for_counts(struct udp_flow *flow, const struct udp_plan *plan, uint16_t number, int socket)
{
    struct udp_header mark = header_of(plan, UDP_END, number, flow->sent, flow->started_ns);
    uint64_t give_up_ns = monotonic_ns() + ANSWER_NS, ask_ns = 0;
    for (uint64_t now; (now = monotonic_ns()) < give_up_ns;) {
        if (now >= ask_ns) {
            if (send_one(socket, &mark, NULL, sizeof mark) < 0)
                return fail_to_send(flow, plan);
            ask_ns = now + RETRY_NS;
        }
        struct timespec left = time_until(ask_ns);
        if (ppoll(&(struct pollfd){.fd = socket, .events = POLLIN}, 1, &left, NULL) <= 0)
            continue;
        struct udp_answer answer;
        ssize_t received = recv(socket, &answer, sizeof answer, MSG_DONTWAIT);
        if (received < 0 && errno != EAGAIN && errno != EINTR)
            return fail_to_send(flow, plan);
        if (is_answer(flow, &answer, received)) {
            flow->counts = answer.counts;
            flow->answered = true;
            return true;
        }
    }
    return fail(flow, "the server did not say within %g s what it had received", (double)ANSWER_NS / 1e9);
}

static bool run(struct udp_flow *flow, const struct udp_plan *plan, const char *data, uint16_t number, int socket)
{
    socklen_t length = sizeof flow->local;
    if (connect(socket, &plan->server.any, sizeof plan->server) < 0)
        return fail_to_send(flow, plan);
    if (getsockname(socket, &flow->local.any, &length) < 0)
        flow->local.v4.sin_port = 0;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* the usual 50 us would send datagrams in clusters */
    flow->started_ns = monotonic_ns();
    bool sent = send_all(flow, plan, data, number, socket);
    flow->end_ns = monotonic_ns();
    return sent && ask_for_counts(flow, plan, number, socket);
}

bool udp_flow_run(struct udp_flow *flow, const struct udp_plan *plan, const char *data, uint16_t number)
{
    flow->connect_ns = flow->end_ns = monotonic_ns();
    int datagrams = socket(plan->server.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (datagrams < 0)
        return fail(flow, "cannot make a socket: %s", strerror(errno));
    bool whole = run(flow, plan, data, number, datagrams);
    close(datagrams);
    return whole;
}
