#include "exchange.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "address.h"
#include "answering.h"
#include "errors.h"
#include "monotonic.h"

enum { EVENTS = 256, READ_BYTES = 256 * 1024 };

static const uint64_t CONNECT_NS = 10 * NS_PER_S;

/* Of a request, until its last flow has ended. */
struct request {
    size_t flows_left;
};

struct flow {
    struct flow_record record;
    struct request *request;
    struct flow *next;        /* that waits for the same server, or is free */
};

struct connection {
    int socket;               /* -1: it broke */
    unsigned server;
    struct flow *flow;        /* under way; NULL: it is idle */
    struct connection *next;  /* that is idle */
};

struct server {
    struct connection *idle;   /* the one that had a flow last first */
    struct flow *first, *last; /* waiting */
    size_t connections;        /* that have not broken */
};

struct exchange {
    const struct exchange_plan *plan;
    struct exchanged *result;
    struct schedule *schedule;
    struct flow_records *records;
    int epoll, timer;
    uint64_t timer_ns;         /* what the timer is set to */
    struct connection *connections;
    struct server servers[MOST_SERVERS];
    size_t servers_left;
    struct asked next;
    bool has_next;
    uint64_t next_ns;
    uint64_t requests_under_way, flows_under_way, last_due_ns;
    struct flow *free_flows;
    char buffer[READ_BYTES];
};

static _Noreturn void no_connection(const union address *server, int error)
{
    char name[ADDRESS_TEXT];
    address_format(server, name);
    die("cannot connect to %s: %s; a server with --answer must listen there first", name, strerror(error));
}

static void begin_connecting(struct exchange *exchange, struct connection *connection)
{
    const union address *address = &exchange->plan->server[connection->server];
    connection->socket = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->socket < 0)
        die("cannot make a socket: %s; choose fewer --connections, or raise ulimit -n", strerror(errno));
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(connection->socket, &address->any, sizeof *address) < 0 && errno != EINPROGRESS)
        no_connection(address, errno);
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = connection};
    if (epoll_ctl(exchange->epoll, EPOLL_CTL_ADD, connection->socket, &event) < 0)
        die("cannot watch a socket: %s", strerror(errno));
}

static void is_idle(struct exchange *exchange, struct connection *connection)
{
    struct server *server = &exchange->servers[connection->server];
    connection->next = server->idle;
    server->idle = connection;
}

static void finish_connecting(struct exchange *exchange, struct connection *connection)
{
    const struct exchange_plan *plan = exchange->plan;
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(connection->socket, SOL_SOCKET, SO_ERROR, &error, &length) < 0 || error)
        no_connection(&plan->server[connection->server], error ? error : errno);
    if (plan->token.given &&
        send(connection->socket, plan->token.bytes, TOKEN_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) != TOKEN_BYTES)
        no_connection(&plan->server[connection->server], errno);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(exchange->epoll, EPOLL_CTL_MOD, connection->socket, &event);
    exchange->servers[connection->server].connections++;
    is_idle(exchange, connection);
}

static void connect_all(struct exchange *exchange)
{
    const struct exchange_plan *plan = exchange->plan;
    size_t count = plan->servers * plan->connections, connected = 0;
    exchange->connections = calloc(count, sizeof *exchange->connections);
    if (!exchange->connections)
        die("out of memory for %zu connections", count);
    for (size_t i = 0; i < count; i++) {
        exchange->connections[i].server = (unsigned)(i % plan->servers);
        begin_connecting(exchange, &exchange->connections[i]);
    }
    uint64_t give_up_ns = monotonic_ns() + CONNECT_NS;
    while (connected < count) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(exchange->epoll, events, EVENTS, 100);
        for (int i = 0; i < ready; i++, connected++)
            finish_connecting(exchange, events[i].data.ptr);
        if (connected < count && monotonic_ns() > give_up_ns)
            die("%zu of %zu connections were not established within 10 s", count - connected, count);
    }
    exchange->servers_left = plan->servers;
}

static struct flow *new_flow(struct exchange *exchange)
{
    struct flow *flow = exchange->free_flows;
    if (flow)
        exchange->free_flows = flow->next;
    else
        flow = malloc(sizeof *flow);
    if (!flow)
        die("out of memory for one more flow; choose a lower --load");
    return flow;
}

/* error: errno where it failed, else 0. */
static void end_flow(struct exchange *exchange, struct flow *flow, int error)
{
    struct exchanged *result = exchange->result;
    flow->record.error = (uint16_t)error;
    flow_records_add(exchange->records, &flow->record);
    result->flows++;
    if (error) {
        if (!result->failed_flows++) {
            result->first_error = error;
            result->first_error_server = flow->record.server;
        }
    } else {
        result->flow_bytes += flow->record.flow_bytes;
        result->end_ns = flow->record.completed_ns;
    }
    if (!--flow->request->flows_left) {
        free(flow->request);
        exchange->requests_under_way--;
    }
    flow->next = exchange->free_flows;
    exchange->free_flows = flow;
}

static void fail_waiting(struct exchange *exchange, struct server *server, int error)
{
    while (server->first) {
        struct flow *flow = server->first;
        server->first = flow->next;
        end_flow(exchange, flow, error);
    }
}

static void break_connection(struct exchange *exchange, struct connection *connection, int error)
{
    struct server *server = &exchange->servers[connection->server];
    for (struct connection **idle = &server->idle; *idle; idle = &(*idle)->next) {
        if (*idle == connection) {
            *idle = connection->next;
            break;
        }
    }
    close(connection->socket);
    connection->socket = -1;
    if (connection->flow) {
        exchange->flows_under_way--;
        end_flow(exchange, connection->flow, error);
        connection->flow = NULL;
    }
    if (!--server->connections) {
        exchange->servers_left--;
        fail_waiting(exchange, server, error);
    }
}

/* On the first connection of a server that is idle. */
static void ask(struct exchange *exchange, struct server *server, struct flow *flow)
{
    struct exchanged *result = exchange->result;
    struct connection *connection = server->idle;
    server->idle = connection->next;
    connection->flow = flow;
    if (++exchange->flows_under_way > result->most_at_once)
        result->most_at_once = exchange->flows_under_way;
    uint64_t now = flow->record.start_ns = monotonic_ns();
    if (now > flow->record.intended_ns && now - flow->record.intended_ns > result->late_ns)
        result->late_ns = now - flow->record.intended_ns;
    unsigned char request[REQUEST_BYTES];
    request_write(request, flow->record.flow_bytes);
    /* Its buffer has room for so few bytes, as they follow what was answered, or little else. */
    ssize_t sent = send(connection->socket, request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != sizeof request)
        break_connection(exchange, connection, sent < 0 ? errno : EIO);
}

static void begin_flow(struct exchange *exchange, struct flow *flow)
{
    struct server *server = &exchange->servers[flow->record.server];
    if (!server->connections) {
        end_flow(exchange, flow, ENOTCONN);
        return;
    }
    if (server->idle) {
        ask(exchange, server, flow);
        return;
    }
    exchange->result->waited_flows++;
    flow->next = NULL;
    if (server->first)
        server->last->next = flow;
    else
        server->first = flow;
    server->last = flow;
}

static void begin_request(struct exchange *exchange, const struct asked *asked, uint64_t due_ns)
{
    struct request *request = malloc(sizeof *request);
    if (!request)
        die("out of memory for one more request; choose a lower --load");
    request->flows_left = asked->flows;
    exchange->requests_under_way++;
    exchange->result->requests++;
    exchange->last_due_ns = due_ns;
    for (size_t i = 0; i < asked->flows; i++) {
        struct flow *flow = new_flow(exchange);
        *flow = (struct flow){
            .record = {.flow_bytes = asked->flow_bytes,
                       .intended_ns = due_ns,
                       .request = (uint32_t)asked->number,
                       .server = (uint16_t)asked->server[i]},
            .request = request,
        };
        begin_flow(exchange, flow);
    }
}

static void flow_is_complete(struct exchange *exchange, struct connection *connection)
{
    struct server *server = &exchange->servers[connection->server];
    exchange->flows_under_way--;
    end_flow(exchange, connection->flow, 0);
    connection->flow = NULL;
    is_idle(exchange, connection);
    if (!server->first)
        return;
    struct flow *flow = server->first;
    server->first = flow->next;
    ask(exchange, server, flow);
}

/* One read per turn, however much there is: epoll comes back for the rest after all others had their turn. */
static void receive(struct exchange *exchange, struct connection *connection)
{
    ssize_t received = recv(connection->socket, exchange->buffer, sizeof exchange->buffer, 0);
    if (received < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (received <= 0) {
        break_connection(exchange, connection, received ? errno : ECONNRESET);
        return;
    }
    uint64_t now = monotonic_ns(), left = (uint64_t)received;
    if (connection->flow) {
        struct flow_record *record = &connection->flow->record;
        uint64_t missing = record->flow_bytes - record->received_bytes, mine = left < missing ? left : missing;
        if (!record->received_bytes)
            record->first_byte_ns = now;
        record->received_bytes += mine;
        left -= mine;
        if (mine == missing) {
            record->completed_ns = now;
            flow_is_complete(exchange, connection);
        }
    }
    if (left && connection->socket >= 0)
        break_connection(exchange, connection, EPROTO); /* more than was asked for */
}

static void look_ahead(struct exchange *exchange)
{
    exchange->has_next = schedule_next(exchange->schedule, &exchange->next);
    if (exchange->has_next)
        exchange->next_ns = exchange->result->begin_ns + (uint64_t)(exchange->next.at_s * 1e9);
}

/* Begins what is due. Returns when to come back, if no flow ends before: where all have begun, or a closed loop waits
   for one, that is when to give up. */
static uint64_t begin_due(struct exchange *exchange)
{
    const struct exchange_plan *plan = exchange->plan;
    while (exchange->has_next && exchange->servers_left) {
        uint64_t now = monotonic_ns();
        if (plan->closed_loop && plan->duration_ns && now >= exchange->result->begin_ns + plan->duration_ns) {
            exchange->has_next = false;
            break;
        }
        if (plan->closed_loop && exchange->requests_under_way >= plan->requests_at_once)
            break;
        if (!plan->closed_loop && now < exchange->next_ns)
            return exchange->next_ns;
        begin_request(exchange, &exchange->next, plan->closed_loop ? now : exchange->next_ns);
        look_ahead(exchange);
    }
    return exchange->last_due_ns + plan->limit_ns;
}

static void set_timer(struct exchange *exchange, uint64_t at_ns)
{
    if (at_ns == exchange->timer_ns)
        return;
    exchange->timer_ns = at_ns;
    struct itimerspec when = {.it_value = at_ns == UINT64_MAX ? (struct timespec){0} : timespec_of(at_ns)};
    timerfd_settime(exchange->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void take_turn(struct exchange *exchange)
{
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(exchange->epoll, events, EVENTS, -1);
    if (ready < 0 && errno != EINTR)
        die("cannot wait for the servers: %s", strerror(errno));
    for (int i = 0; i < ready; i++) {
        struct connection *connection = events[i].data.ptr;
        if (!connection) {
            uint64_t expirations;
            if (read(exchange->timer, &expirations, sizeof expirations) > 0)
                exchange->timer_ns = UINT64_MAX;
        } else if (connection->socket >= 0) {
            receive(exchange, connection);
        }
    }
}

static void give_up(struct exchange *exchange)
{
    const struct exchange_plan *plan = exchange->plan;
    for (size_t i = 0; i < plan->servers; i++)
        fail_waiting(exchange, &exchange->servers[i], ETIMEDOUT);
    for (size_t i = 0; i < plan->servers * plan->connections; i++)
        if (exchange->connections[i].socket >= 0)
            break_connection(exchange, &exchange->connections[i], ETIMEDOUT);
}

void exchange_run(struct exchanged *result, const struct exchange_plan *plan, struct schedule *schedule,
                  struct flow_records *records)
{
    static struct exchange exchange;
    memset(&exchange, 0, sizeof exchange - sizeof exchange.buffer);
    exchange.plan = plan;
    exchange.result = result;
    exchange.schedule = schedule;
    exchange.records = records;
    exchange.epoll = epoll_create1(EPOLL_CLOEXEC);
    exchange.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    exchange.timer_ns = UINT64_MAX;
    if (exchange.epoll < 0 || exchange.timer < 0)
        die("cannot set up the event loop: %s", strerror(errno));
    connect_all(&exchange);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(exchange.epoll, EPOLL_CTL_ADD, exchange.timer, &event) < 0)
        die("cannot watch the timer: %s", strerror(errno));

    result->connected_ns = result->begin_ns = monotonic_ns();
    look_ahead(&exchange);
    for (;;) {
        uint64_t more_ns = begin_due(&exchange);
        if (!exchange.requests_under_way && (!exchange.has_next || !exchange.servers_left))
            break;
        bool only_waits = plan->closed_loop || !exchange.has_next;
        uint64_t end_ns = plan->within_ns ? result->begin_ns + plan->within_ns : UINT64_MAX;
        uint64_t give_up_ns = only_waits && more_ns < end_ns ? more_ns : end_ns;
        if (give_up_ns != UINT64_MAX && monotonic_ns() >= give_up_ns) {
            give_up(&exchange);
            break;
        }
        set_timer(&exchange, more_ns < end_ns ? more_ns : end_ns);
        take_turn(&exchange);
    }
    result->all_servers_gone = exchange.has_next && !exchange.servers_left;
    for (size_t i = 0; i < plan->servers * plan->connections; i++)
        if (exchange.connections[i].socket >= 0)
            close(exchange.connections[i].socket);
    close(exchange.epoll);
    close(exchange.timer);
    free(exchange.connections);
    for (struct flow *next; exchange.free_flows; exchange.free_flows = next) {
        next = exchange.free_flows->next;
        free(exchange.free_flows);
    }
}
