/* server: takes any number of TCP connections, and UDP where that is asked for; reads all they send, and reports each
   flow when it ends. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "udpserver.h"

enum { BACKLOG = 4096, RECEIVE_BYTES = 128 * 1024, EVENTS = 64 };

static const uint64_t DRAIN_NS = 100 * NS_PER_MS;

struct connection {
    int socket;
    struct sockaddr_in peer;
    uint64_t flow_bytes;
    uint64_t accept_ns, first_ns, last_ns; /* first and last: of data; 0 before any */
    struct connection *previous, *next;
};

struct server {
    int epoll, listener, signals;
    bool accepting;
    struct udp_server *udp; /* NULL: TCP only */
    struct connection *connections;
    char buffer[RECEIVE_BYTES];
};

static void report(const struct connection *connection, const char *error)
{
    char peer[ADDRESS_TEXT];
    address_format(&connection->peer, peer);

    struct json line;
    json_begin(&line, "received");
    json_text(&line, "protocol", "tcp");
    json_text(&line, "peer", peer);
    json_integer(&line, "flow_bytes", connection->flow_bytes);
    json_integer(&line, "accept_ns", connection->accept_ns);
    if (connection->flow_bytes) {
        json_integer(&line, "first_ns", connection->first_ns);
        json_integer(&line, "last_ns", connection->last_ns);
    } else {
        json_null(&line, "first_ns");
        json_null(&line, "last_ns");
    }
    if (error)
        json_text(&line, "error", error);
    if (!json_print(&line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

static void watch(const struct server *server, int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("cannot watch a socket: %s", strerror(errno));
}

static void set_accepting(struct server *server, bool accepting)
{
    if (server->accepting == accepting)
        return;
    server->accepting = accepting;
    if (accepting)
        watch(server, server->listener, &server->listener);
    else
        epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->listener, NULL);
}

static void end_connection(struct server *server, struct connection *connection, const char *error)
{
    close(connection->socket); /* first of all: a finite flow ends with it */
    report(connection, error);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    free(connection);
    set_accepting(server, true); /* there is a free descriptor again */
}

static void accept_all(struct server *server)
{
    for (;;) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        int socket = accept4(server->listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
            /* The listener stays readable, so watching it now would spin; peers wait in the backlog instead. */
            complain("out of file descriptors: new connections wait until one ends; raise ulimit -n");
            set_accepting(server, false);
            return;
        }
        if (socket < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (socket < 0)
            return;

        struct connection *connection = calloc(1, sizeof *connection);
        if (!connection)
            die("out of memory for one more connection");
        connection->socket = socket;
        connection->peer = peer;
        connection->accept_ns = monotonic_ns();
        connection->next = server->connections;
        if (connection->next)
            connection->next->previous = connection;
        server->connections = connection;
        watch(server, socket, connection);
    }
}

/* One read per turn, however much there is: epoll comes back for the rest after all others had their turn.
   Returns whether there was data. */
static bool receive(struct server *server, struct connection *connection)
{
    ssize_t received = recv(connection->socket, server->buffer, sizeof server->buffer, 0);
    if (received > 0) {
        connection->last_ns = monotonic_ns();
        if (!connection->flow_bytes)
            connection->first_ns = connection->last_ns;
        connection->flow_bytes += (uint64_t)received;
        return true;
    }
    if (received == 0)
        end_connection(server, connection, NULL);
    else if (errno != EAGAIN && errno != EINTR)
        end_connection(server, connection, strerror(errno));
    return false;
}

/* What has come by now, or the first that comes within that time. False: a signal says to stop. */
static bool take_turn(struct server *server, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(server->epoll, events, EVENTS, timeout_ms);
    if (count < 0 && errno != EINTR)
        die("cannot wait for connections: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &server->signals)
            return false;
        if (events[i].data.ptr == &server->listener)
            accept_all(server);
        else if (events[i].data.ptr == server->udp)
            udp_server_receive(server->udp);
        else
            receive(server, events[i].data.ptr);
    }
    return true;
}

/* The peers count as delivered what the kernel has acknowledged on our behalf, so that is read too; but a peer at
   full rate would never let us come to an end. */
static void drain(struct server *server)
{
    uint64_t give_up_ns = monotonic_ns() + DRAIN_NS;
    struct connection *next;
    for (struct connection *connection = server->connections; connection; connection = next) {
        next = connection->next;
        while (receive(server, connection) && monotonic_ns() < give_up_ns)
            ;
    }
}

static void end_all(struct server *server)
{
    while (server->connections)
        end_connection(server, server->connections, "the server was stopped before the peer was done");
}

static int listen_on(const struct sockaddr_in *address)
{
    char name[ADDRESS_TEXT];
    address_format(address, name);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        die("cannot make a socket: %s", strerror(errno));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, (const struct sockaddr *)address, sizeof *address) < 0 || listen(listener, BACKLOG) < 0)
        die("cannot listen on %s: %s; choose another --port, or an address this network namespace has", name,
            strerror(errno));
    return listener;
}

static int stop_signals(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    return signalfd(-1, &stop, SFD_CLOEXEC);
}

int server_main(char **arguments)
{
    long port = 0;
    const char *bind_to = "0.0.0.0";
    bool udp = false;
    struct option options[] = {
        {"--port", OPTION_INTEGER, &port, .required = true, .min = 1, .max = 65535},
        {"--bind", OPTION_TEXT, &bind_to, .required = false},
        {"--udp", OPTION_FLAG, &udp, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; server runs no command");
    struct sockaddr_in address;
    if (!address_parse(&address, bind_to, port))
        die_usage("--bind '%s' is not an IPv4 address such as 10.77.0.1", bind_to);

    descriptors_allow_many();
    static struct server server;
    server.signals = stop_signals();
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server.signals < 0 || server.epoll < 0)
        die("cannot set up the event loop: %s", strerror(errno));
    server.listener = listen_on(&address);
    watch(&server, server.signals, &server.signals);
    set_accepting(&server, true);
    if (udp) {
        server.udp = udp_server_open(&address);
        watch(&server, udp_server_socket(server.udp), server.udp);
    }

    while (take_turn(&server, -1))
        ;
    drain(&server);
    end_all(&server);
    if (server.udp)
        udp_server_close(server.udp);
    return 0;
}
