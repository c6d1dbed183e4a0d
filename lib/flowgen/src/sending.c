#include "sending.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "errors.h"
#include "monotonic.h"
#include "report.h"

/* A client asks for 1,000 flows at most; its server has no other client. */
enum { MOST_SENDERS = 1000, STACK_BYTES = 256 * 1024, RECEIVE_BYTES = 128 * 1024, MOST_WRITE_BYTES = 64 * 1024 * 1024 };

/* How long a client waits, after the time of its flow, for what the server's kernel still has. */
static const uint64_t DRAIN_NS = 2 * NS_PER_S;

/* Payload of other flows consists of the letter f. */
static const char MAGIC[ORDER_MAGIC_BYTES + 1] = "SENDdown";

struct sender {
    pthread_t thread;
    struct send_order order;
    struct tcp_plan plan;
    struct tcp_flow flow;
    char *data;
};

static struct {
    pthread_mutex_t lock; /* of the sockets: one that is closed may be another's next */
    struct sender *all[MOST_SENDERS];
    size_t count;
    volatile sig_atomic_t stopped;
} senders = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct send_order order_of(const struct tcp_plan *plan, uint32_t number)
{
    struct send_order order = {
        .flow = number,
        .write_bytes = (uint32_t)plan->write_bytes,
        .duration_ns = plan->duration_ns,
        .finite_bytes = plan->finite_bytes,
        .limit_ns = plan->limit_ns,
        .interval_ns = plan->interval_ns,
    };
    memcpy(order.magic, MAGIC, ORDER_MAGIC_BYTES);
    if (plan->congestion)
        snprintf(order.congestion, sizeof order.congestion, "%s", plan->congestion);
    return order;
}

enum ordered ordering_take(struct ordering *ordering, const char *data, size_t length)
{
    size_t left = sizeof ordering->order - ordering->come;
    memcpy((char *)&ordering->order + ordering->come, data, length < left ? length : left);
    ordering->come += length < left ? length : left;
    size_t compared = ordering->come < ORDER_MAGIC_BYTES ? ordering->come : ORDER_MAGIC_BYTES;
    ordering->none = memcmp(ordering->order.magic, MAGIC, compared);
    if (ordering->none)
        return ORDER_NONE;
    return ordering->come == sizeof ordering->order ? ORDER_COMPLETE : ORDER_INCOMPLETE;
}

static bool is_sound(const struct send_order *order)
{
    bool timed = order->duration_ns && !order->finite_bytes, finite = order->finite_bytes && !order->duration_ns;
    return (timed || finite) && order->interval_ns && order->write_bytes && order->write_bytes <= MOST_WRITE_BYTES &&
           memchr(order->congestion, '\0', sizeof order->congestion);
}

/* Whether a flow came to its end, in bytes or in time, before its server was stopped. */
static bool came_to_end(const struct sender *sender)
{
    const struct tcp_flow *flow = &sender->flow;
    if (sender->plan.finite_bytes)
        return flow->complete;
    return flow->count && flow->samples[flow->count - 1].at_ns >= flow->samples[0].at_ns + sender->plan.duration_ns;
}

static void *send_all(void *argument)
{
    struct sender *sender = argument;
    tcp_flow_serve(&sender->flow, &sender->plan, sender->data);
    if (senders.stopped && !came_to_end(sender))
        snprintf(sender->flow.error, sizeof sender->flow.error, "the server was stopped before the flow was done");
    report_tcp(sender->order.flow, &sender->flow, &sender->plan); /* before its client can see the end */
    pthread_mutex_lock(&senders.lock);
    tcp_flow_close(&sender->flow, &sender->plan);
    sender->flow.socket = -1;
    pthread_mutex_unlock(&senders.lock);
    return NULL;
}

static bool start_thread(struct sender *sender)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    bool started = !pthread_create(&sender->thread, &attributes, send_all, sender);
    pthread_attr_destroy(&attributes);
    return started;
}

bool sending_start(int socket, const struct send_order *order, uint64_t accept_ns)
{
    if (!is_sound(order) || senders.count == MOST_SENDERS)
        return false;
    struct sender *sender = calloc(1, sizeof *sender);
    char *data = malloc(order->write_bytes);
    if (!sender || !data)
        die("out of memory for one more flow");
    memset(data, 'f', order->write_bytes); /* untouched memory is one shared page: it would copy too fast */
    sender->order = *order;
    sender->data = data;
    sender->flow.socket = socket;
    sender->flow.connect_ns = accept_ns;
    sender->plan = (struct tcp_plan){
        .duration_ns = order->duration_ns,
        .finite_bytes = order->finite_bytes,
        .limit_ns = order->limit_ns,
        .interval_ns = order->interval_ns,
        .congestion = *order->congestion ? sender->order.congestion : NULL,
        .write_bytes = order->write_bytes,
        .stopped = &senders.stopped,
        .down = true,
    };
    if (start_thread(sender)) {
        senders.all[senders.count++] = sender;
        return true;
    }
    free(data);
    free(sender);
    return false;
}

void sending_stop(void)
{
    pthread_mutex_lock(&senders.lock);
    for (size_t i = 0; i < senders.count; i++) {
        if (senders.all[i]->flow.socket < 0)
            continue;
        senders.stopped = 1;
        shutdown(senders.all[i]->flow.socket, SHUT_RDWR); /* one that waits for room wakes up */
    }
    pthread_mutex_unlock(&senders.lock);
    for (size_t i = 0; i < senders.count; i++) {
        pthread_join(senders.all[i]->thread, NULL);
        tcp_flow_free(&senders.all[i]->flow);
        free(senders.all[i]->data);
        free(senders.all[i]);
    }
    senders.count = 0;
}

static bool fail(struct received_flow *flow, const char *what, const char *why)
{
    snprintf(flow->tcp.error, sizeof flow->tcp.error, "%s: %s", what, why);
    return false;
}

/* In one piece, so that it takes one packet; a connection that is new has room for it. */
static bool send_order(struct received_flow *flow, const struct tcp_plan *plan, uint32_t number)
{
    char opening[TOKEN_BYTES + sizeof(struct send_order)];
    struct send_order order = order_of(plan, number);
    size_t token = plan->token.given ? TOKEN_BYTES : 0;
    memcpy(opening, plan->token.bytes, token);
    memcpy(opening + token, &order, sizeof order);
    ssize_t sent = send(flow->tcp.socket, opening, token + sizeof order, MSG_NOSIGNAL);
    return sent == (ssize_t)(token + sizeof order) || fail(flow, "cannot ask for the flow", strerror(errno));
}

static bool receive_all(struct received_flow *flow, uint64_t give_up_ns, char *buffer)
{
    for (;;) {
        ssize_t received = recv(flow->tcp.socket, buffer, RECEIVE_BYTES, MSG_DONTWAIT);
        uint64_t now = monotonic_ns();
        if (received > 0) {
            flow->last_ns = now;
            if (!flow->bytes)
                flow->first_ns = now;
            flow->bytes += (uint64_t)received;
        } else if (!received) {
            flow->ended = true;
            return true;
        } else if (errno == EAGAIN) {
            struct timespec left = time_until(give_up_ns);
            ppoll(&(struct pollfd){.fd = flow->tcp.socket, .events = POLLIN}, 1, &left, NULL);
        } else if (errno != EINTR) {
            return fail(flow, "the connection broke", strerror(errno));
        }
        if (now >= give_up_ns)
            return true; /* what the server reports of it counts */
    }
}

bool receive_flow(struct received_flow *flow, const struct tcp_plan *plan, uint32_t number)
{
    char *buffer = malloc(RECEIVE_BYTES);
    if (!buffer)
        die("out of memory for what is received");
    flow->tcp.connect_ns = monotonic_ns();
    bool whole = tcp_flow_open(&flow->tcp, plan);
    if (whole) {
        flow->connected_ns = monotonic_ns();
        uint64_t give_up_ns = flow->connected_ns + plan->duration_ns + DRAIN_NS;
        if (plan->finite_bytes)
            give_up_ns = plan->limit_ns ? flow->tcp.connect_ns + plan->limit_ns : UINT64_MAX;
        whole = send_order(flow, plan, number) && receive_all(flow, give_up_ns, buffer);
    }
    if (flow->tcp.socket >= 0)
        close(flow->tcp.socket);
    free(buffer);
    return whole;
}
