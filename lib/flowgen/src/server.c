/* server: takes any number of TCP connections, and UDP where that is asked for; reads all they send, and reports each
   flow when it ends. With --answer, it takes what is sent for requests, and sends flows of the sizes asked for; with
   --sends, it sends on a connection that begins with an order (sending.h).

   With a token, it reports only what begins with that. All of the token is compared at once: an answer to less of it,
   such as a connection that is closed at the first wrong byte, would let others find it byte by byte. */
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "answering.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "sending.h"
#include "token.h"
#include "udpserver.h"

enum { BACKLOG = 4096, RECEIVE_BYTES = 128 * 1024, EVENTS = 64 };

/* Connections that have not sent the token yet: those of a client, 1,000 at most, and as many of others. */
enum { MOST_UNPROVEN = 2000 };

static const uint64_t DRAIN_NS = 100 * NS_PER_MS;

struct connection {
    int socket;
    union address peer;
    uint64_t flow_bytes;
    uint64_t accept_ns, first_ns, last_ns; /* first and last: of data; 0 before any */
    char opening[TOKEN_BYTES];             /* as far as it has come */
    bool proven;                           /* it began with the token, or there is none */
    struct answering answering;            /* with --answer */
    struct ordering ordering;              /* with --sends */
    bool awaits_room;                      /* watched for room to send */
    struct connection *previous, *next;    /* of the same list */
};

/* The newest is the first. */
struct list {
    struct connection *first, *last;
    size_t count;
};

struct server {
    int epoll, listener, signals;
    bool accepting, answers, sends;
    struct token token;
    struct udp_server *udp; /* NULL: TCP only */
    struct list proven, unproven;
    uint64_t refused;       /* connections */
    char buffer[RECEIVE_BYTES];
};

static void list_add(struct list *list, struct connection *connection)
{
    connection->previous = NULL;
    connection->next = list->first;
    *(list->first ? &list->first->previous : &list->last) = connection;
    list->first = connection;
    list->count++;
}

static void list_remove(struct list *list, struct connection *connection)
{
    *(connection->previous ? &connection->previous->next : &list->first) = connection->next;
    *(connection->next ? &connection->next->previous : &list->last) = connection->previous;
    list->count--;
}

static void report(const struct connection *connection, const char *error)
{
    char peer[ADDRESS_TEXT];
    address_format(&connection->peer, peer);

    struct json line;
    json_begin(&line, "received");
    json_text(&line, "protocol", "tcp");
    json_text(&line, "peer", peer);
    json_integer(&line, "flow_bytes", connection->flow_bytes);
    json_moment(&line, "accept_ns", connection->accept_ns);
    json_moment(&line, "first_ns", connection->first_ns);
    json_moment(&line, "last_ns", connection->last_ns);
    if (connection->answering.requests) {
        json_integer(&line, "requests", connection->answering.requests);
        json_integer(&line, "sent_bytes", connection->answering.sent);
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
    if (connection->proven)
        report(connection, error);
    else
        server->refused++;
    list_remove(connection->proven ? &server->proven : &server->unproven, connection);
    free(connection);
    set_accepting(server, true); /* there is a free descriptor again */
}

static void prove(struct server *server, struct connection *connection)
{
    connection->proven = true;
    list_remove(&server->unproven, connection);
    list_add(&server->proven, connection);
}

/* Whether it begins with the token, or is shorter and all of it. */
static bool begins_with_token(const struct server *server, const struct connection *connection)
{
    size_t length = connection->flow_bytes < TOKEN_BYTES ? connection->flow_bytes : TOKEN_BYTES;
    return length && !memcmp(connection->opening, server->token.bytes, length);
}

/* What came now is at the beginning of the buffer; false: it cannot be proven any more. */
static bool take_opening(struct server *server, struct connection *connection, size_t received)
{
    size_t before = connection->flow_bytes - received, length = TOKEN_BYTES - before;
    memcpy(connection->opening + before, server->buffer, received < length ? received : length);
    if (connection->flow_bytes < TOKEN_BYTES)
        return true;
    if (!begins_with_token(server, connection))
        return false;
    prove(server, connection);
    return true;
}

/* False: the connection has ended. */
static bool send_answers(struct server *server, struct connection *connection)
{
    if (connection->answering.owed && !answering_send(&connection->answering, connection->socket)) {
        end_connection(server, connection, strerror(errno));
        return false;
    }
    bool waits = connection->answering.owed;
    if (waits != connection->awaits_room) {
        struct epoll_event event = {.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = connection};
        epoll_ctl(server->epoll, EPOLL_CTL_MOD, connection->socket, &event);
        connection->awaits_room = waits;
    }
    return true;
}

/* What came now is at the beginning of the buffer. False: the connection has ended. */
static bool answer(struct server *server, struct connection *connection, size_t received)
{
    uint64_t before = connection->flow_bytes - received;
    size_t opening = server->token.given && before < TOKEN_BYTES ? (size_t)(TOKEN_BYTES - before) : 0;
    if (received > opening &&
        !answering_take(&connection->answering, server->buffer + opening, received - opening)) {
        end_connection(server, connection, "the peer asked for a flow of a size that none has");
        return false;
    }
    return connection->awaits_room || send_answers(server, connection);
}

/* What came now is at the beginning of the buffer. True: the connection is the sender's, or has ended. */
static bool take_order(struct server *server, struct connection *connection, size_t received)
{
    uint64_t before = connection->flow_bytes - received;
    size_t opening = server->token.given && before < TOKEN_BYTES ? (size_t)(TOKEN_BYTES - before) : 0;
    if (received <= opening ||
        ordering_take(&connection->ordering, server->buffer + opening, received - opening) != ORDER_COMPLETE)
        return false;
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, connection->socket, NULL);
    if (!sending_start(connection->socket, &connection->ordering.order, connection->accept_ns)) {
        end_connection(server, connection, "the peer asked for a flow that cannot be sent");
        return true;
    }
    list_remove(&server->proven, connection);
    free(connection);
    return true;
}

/* One read per turn, however much there is: epoll comes back for the rest after all others had their turn.
   Returns whether there was data; else the connection may have ended. */
static bool receive(struct server *server, struct connection *connection)
{
    ssize_t received = recv(connection->socket, server->buffer, sizeof server->buffer, 0);
    if (received > 0) {
        connection->last_ns = monotonic_ns();
        if (!connection->flow_bytes)
            connection->first_ns = connection->last_ns;
        connection->flow_bytes += (uint64_t)received;
        if (connection->proven || take_opening(server, connection, (size_t)received)) {
            bool may_order = server->sends && connection->proven && !connection->ordering.none;
            if (may_order && take_order(server, connection, (size_t)received))
                return false;
            return !server->answers || !connection->proven || answer(server, connection, (size_t)received);
        }
        end_connection(server, connection, NULL);
        return false;
    }
    if (received < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    const char *error = received < 0 ? strerror(errno) : NULL;
    if (!connection->proven && begins_with_token(server, connection))
        prove(server, connection);
    end_connection(server, connection, error);
    return false;
}

/* Ends the connection that has been unproven for longest, unless it is proven by what it has sent meanwhile. False:
   there is none. */
static bool evict(struct server *server)
{
    struct connection *oldest = server->unproven.last;
    if (!oldest)
        return false;
    size_t before = server->unproven.count;
    receive(server, oldest);
    if (server->unproven.count == before)
        end_connection(server, oldest, NULL);
    return true;
}

static void accept_all(struct server *server)
{
    for (;;) {
        union address peer;
        socklen_t length = sizeof peer;
        int socket = accept4(server->listener, &peer.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
            if (evict(server))
                continue;
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
        connection->proven = !server->token.given;
        if (server->answers) /* the end of a flow waits for no acknowledgement */
            setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        list_add(connection->proven ? &server->proven : &server->unproven, connection);
        watch(server, socket, connection);
        if (server->unproven.count > MOST_UNPROVEN)
            evict(server);
    }
}

/* What has come by now, or the first that comes within that time. False: a signal says to stop. */
static bool take_turn(struct server *server, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(server->epoll, events, EVENTS, timeout_ms);
    if (count < 0 && errno != EINTR)
        die("cannot wait for connections: %s", strerror(errno));
    bool stopped = false, more = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &server->signals)
            stopped = true;
        else if (events[i].data.ptr == &server->listener)
            more = true;
        else if (events[i].data.ptr == server->udp)
            udp_server_receive(server->udp);
        else if (!(events[i].events & EPOLLOUT) || send_answers(server, events[i].data.ptr))
            if (events[i].events & ~(uint32_t)EPOLLOUT)
                receive(server, events[i].data.ptr);
    }
    if (more) /* last, as it may end connections that are among these events */
        accept_all(server);
    return !stopped;
}

static void drain_list(struct server *server, struct list *list, uint64_t give_up_ns)
{
    struct connection *next;
    for (struct connection *connection = list->first; connection; connection = next) {
        next = connection->next;
        while (receive(server, connection) && monotonic_ns() < give_up_ns)
            ;
    }
}

/* The peers count as delivered what the kernel has acknowledged on our behalf, so that is read too; but a peer at
   full rate would never let us come to an end. */
static void drain(struct server *server)
{
    uint64_t give_up_ns = monotonic_ns() + DRAIN_NS;
    server->answers = server->sends = false;
    drain_list(server, &server->proven, give_up_ns);
    drain_list(server, &server->unproven, give_up_ns);
}

static void end_all(struct server *server)
{
    struct list *const lists[] = {&server->proven, &server->unproven};
    for (int i = 0; i < 2; i++)
        while (lists[i]->first)
            end_connection(server, lists[i]->first, "the server was stopped before the peer was done");
}

static int listen_on(const union address *address)
{
    char name[ADDRESS_TEXT];
    address_format(address, name);
    int listener = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        die("cannot make a socket: %s", strerror(errno));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, &address->any, sizeof *address) < 0 || listen(listener, BACKLOG) < 0)
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
    const char *bind_to = "0.0.0.0", *token_file = NULL;
    bool udp = false, answers = false, sends = false;
    struct option options[] = {
        {"--port", OPTION_INTEGER, &port, .required = true, .min = 1, .max = 65535},
        {"--bind", OPTION_TEXT, &bind_to, .required = false},
        {"--udp", OPTION_FLAG, &udp, .required = false},
        {"--answer", OPTION_FLAG, &answers, .required = false},
        {"--sends", OPTION_FLAG, &sends, .required = false},
        {"--token-file", OPTION_TEXT, &token_file, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; server runs no command");
    if (answers && sends)
        die_usage("--answer and --sends exclude each other: both are about what a connection begins with");
    union address address;
    if (!address_parse(&address, bind_to, port))
        die_usage("--bind '%s' is not an address such as 10.77.0.1", bind_to);

    descriptors_allow_many();
    static struct server server;
    token_read(&server.token, token_file);
    server.answers = answers;
    server.sends = sends;
    server.signals = stop_signals();
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server.signals < 0 || server.epoll < 0)
        die("cannot set up the event loop: %s", strerror(errno));
    server.listener = listen_on(&address);
    watch(&server, server.signals, &server.signals);
    set_accepting(&server, true);
    if (udp) {
        server.udp = udp_server_open(&address, &server.token);
        watch(&server, udp_server_socket(server.udp), server.udp);
    }

    while (take_turn(&server, -1))
        ;
    sending_stop();
    drain(&server);
    end_all(&server);
    uint64_t datagrams = server.udp ? udp_server_close(server.udp) : 0;
    if (server.refused || datagrams)
        complain("refused without the token: %llu connections, %llu datagrams", (unsigned long long)server.refused,
                 (unsigned long long)datagrams);
    return 0;
}
