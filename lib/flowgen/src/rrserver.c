/* rr-server: answers requests by TCP, or by UDP; what it served it prints when it is stopped.

   A thread for each connection, which waits in recv as the client does: asking first which connection is ready would
   cost each request one more system call. All threads without a connection wait in accept, so that one is served by the
   thread that accepted it; there is always one that waits, and a connection for a single request wakes no other thread.

   With a token, it serves only connections that begin with it, and datagrams that have it (token.h). */
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "rrwire.h"

enum { BACKLOG = 4096, STACK_BYTES = 256 * 1024, RECEIVE_BYTES = 64 * 1024, MOST_WORKERS = 4096 };

/* Connections that have not sent the token yet: those of a client, 1,000 at most, and as many of others. */
enum { MOST_UNPROVEN = 2000 };

/* The pause where the kernel has no descriptor for one more connection: peers wait in the backlog meanwhile. */
enum { PAUSE_US = 10000 };

struct worker {
    int socket;                     /* -1: it waits for a connection; this and the next two under the lock */
    bool proven;
    uint64_t accepted_ns;
    _Atomic uint64_t requests, responses; /* written by its thread alone */
};

static struct {
    int listener;                   /* TCP's, or UDP's socket */
    struct token token;
    pthread_mutex_t lock;
    size_t workers, waiting, unproven;
    uint64_t connections, refused;
    struct worker *all[MOST_WORKERS];
    char response[RR_MOST_BYTES];   /* never written after the start */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *work(void *argument);

static void add(_Atomic uint64_t *count, int more)
{
    uint64_t now = atomic_load_explicit(count, memory_order_relaxed) + (uint64_t)more;
    atomic_store_explicit(count, now, memory_order_relaxed);
}

/* Under the lock. Where no thread can be made, those that are there serve what they can. */
static void add_worker(void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct worker *worker = server.workers < MOST_WORKERS ? calloc(1, sizeof *worker) : NULL;
    int error = worker ? pthread_attr_init(&attributes) : ENOMEM;
    if (!error) {
        worker->socket = -1;
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attributes, run, worker);
        pthread_attr_destroy(&attributes);
    }
    if (error && !server.workers)
        die("cannot make a thread: %s; ulimit -u may be too low", strerror(error));
    if (error) {
        free(worker);
        return;
    }
    server.all[server.workers++] = worker;
    server.waiting++;
}

/* Under the lock: ends the connection that has been unproven for longest. */
static void evict(void)
{
    struct worker *oldest = NULL;
    for (size_t i = 0; i < server.workers; i++) {
        struct worker *worker = server.all[i];
        if (worker->socket >= 0 && !worker->proven && (!oldest || worker->accepted_ns < oldest->accepted_ns))
            oldest = worker;
    }
    if (oldest)
        shutdown(oldest->socket, SHUT_RDWR);
}

static void begin(struct worker *worker, int socket)
{
    pthread_mutex_lock(&server.lock);
    worker->socket = socket;
    worker->proven = false;
    worker->accepted_ns = monotonic_ns();
    server.connections++;
    if (++server.unproven > MOST_UNPROVEN)
        evict();
    if (--server.waiting == 0)
        add_worker(work);
    pthread_mutex_unlock(&server.lock);
}

static void prove(struct worker *worker)
{
    pthread_mutex_lock(&server.lock);
    worker->proven = true;
    server.unproven--;
    pthread_mutex_unlock(&server.lock);
}

static void end(struct worker *worker)
{
    pthread_mutex_lock(&server.lock);
    if (!worker->proven) {
        server.unproven--;
        server.connections--;
        server.refused++;
    }
    close(worker->socket);
    worker->socket = -1;
    server.waiting++;
    pthread_mutex_unlock(&server.lock);
}

static bool receive_bytes(int socket, char *into, size_t length)
{
    while (length) {
        ssize_t received = recv(socket, into, length, 0);
        if (received <= 0 && !(received < 0 && errno == EINTR))
            return false;
        if (received > 0) {
            into += received;
            length -= (size_t)received;
        }
    }
    return true;
}

static bool receive_request(int socket, char *buffer, size_t length)
{
    for (size_t part; length; length -= part) {
        part = length < RECEIVE_BYTES ? length : RECEIVE_BYTES;
        if (!receive_bytes(socket, buffer, part))
            return false;
    }
    return true;
}

static bool send_bytes(int socket, size_t length)
{
    while (length) {
        ssize_t sent = send(socket, server.response, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        length -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* All of the token is compared at once, when the whole opening is there: an answer to less of it would let others find
   it byte by byte. */
static bool is_opening(const struct rr_opening *opening)
{
    if (server.token.given && memcmp(opening->token, server.token.bytes, TOKEN_BYTES))
        return false;
    return opening->magic == RR_MAGIC && opening->request_bytes && opening->request_bytes <= RR_MOST_BYTES &&
           opening->response_bytes && opening->response_bytes <= RR_MOST_BYTES;
}

static void serve(struct worker *worker, int socket, char *buffer)
{
    struct rr_opening opening;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (!receive_bytes(socket, (char *)&opening, sizeof opening) || !is_opening(&opening))
        return;
    prove(worker);
    bool one_request = opening.flags & RR_ONE_REQUEST;
    if (!one_request && !send_bytes(socket, 1))
        return;
    do {
        if (!receive_request(socket, buffer, opening.request_bytes))
            return;
        add(&worker->requests, 1);
        add(&worker->responses, 1); /* before it is sent: who has it may have this server stopped at once */
        if (!send_bytes(socket, opening.response_bytes)) {
            add(&worker->responses, -1);
            return;
        }
    } while (!one_request);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    char buffer[RECEIVE_BYTES];
    for (;;) {
        int socket = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                usleep(PAUSE_US);
            continue;
        }
        begin(worker, socket);
        serve(worker, socket, buffer);
        end(worker);
    }
    return NULL;
}

static bool is_request(const struct rr_datagram *header, ssize_t length)
{
    return length >= (ssize_t)sizeof *header && header->magic == RR_MAGIC &&
           header->response_bytes >= RR_LEAST_RESPONSE_DATAGRAM && header->response_bytes <= RR_MOST_DATAGRAM_BYTES;
}

static void answer(struct worker *worker, const char *datagram, ssize_t length, const union address *peer)
{
    struct rr_datagram header = {0};
    if (length >= (ssize_t)sizeof header)
        memcpy(&header, datagram, sizeof header);
    if (!is_request(&header, length))
        return;
    if (server.token.given && memcmp(header.token, server.token.bytes, TOKEN_BYTES)) {
        pthread_mutex_lock(&server.lock);
        server.refused++;
        pthread_mutex_unlock(&server.lock);
        return;
    }
    add(&worker->requests, 1);
    size_t response_bytes = header.response_bytes;
    header.magic = RR_RESPONSE_MAGIC;
    struct iovec parts[] = {
        {.iov_base = &header, .iov_len = RR_LEAST_RESPONSE_DATAGRAM},
        {.iov_base = server.response, .iov_len = response_bytes - RR_LEAST_RESPONSE_DATAGRAM},
    };
    struct msghdr message = {.msg_name = (void *)peer, .msg_namelen = sizeof *peer, .msg_iov = parts, .msg_iovlen = 2};
    add(&worker->responses, 1); /* as above */
    if (sendmsg(server.listener, &message, MSG_NOSIGNAL) <= 0)
        add(&worker->responses, -1);
}

static void *work_udp(void *argument)
{
    struct worker *worker = argument;
    char buffer[RECEIVE_BYTES];
    for (;;) {
        union address peer;
        socklen_t size = sizeof peer;
        ssize_t length = recvfrom(server.listener, buffer, sizeof buffer, 0, &peer.any, &size);
        answer(worker, buffer, length, &peer);
    }
    return NULL;
}

static int listen_on(const union address *address, bool udp)
{
    int listener = socket(address->any.sa_family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    if (listener < 0)
        die("cannot make a socket: %s", strerror(errno));
    if (!udp)
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, &address->any, sizeof *address) < 0 ||
        (!udp && listen(listener, BACKLOG) < 0)) {
        char name[ADDRESS_TEXT];
        int error = errno;
        address_format(address, name);
        die("cannot listen on %s: %s; choose another --port, or an address this network namespace has", name,
            strerror(error));
    }
    return listener;
}

/* Threads go on meanwhile; what they serve now is of nobody who still counts. */
static void report(bool udp)
{
    uint64_t requests = 0, responses = 0;
    pthread_mutex_lock(&server.lock);
    for (size_t i = 0; i < server.workers; i++) {
        requests += atomic_load_explicit(&server.all[i]->requests, memory_order_relaxed);
        responses += atomic_load_explicit(&server.all[i]->responses, memory_order_relaxed);
    }
    struct json line;
    json_begin(&line, "served");
    json_text(&line, "protocol", udp ? "udp" : "tcp");
    json_integer(&line, "connections", server.connections);
    json_integer(&line, "requests", requests);
    json_integer(&line, "responses", responses);
    if (!json_print(&line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
    if (server.refused)
        complain("refused without the token: %llu %s", (unsigned long long)server.refused,
                 udp ? "datagrams" : "connections");
    pthread_mutex_unlock(&server.lock);
}

int rr_server_main(char **arguments)
{
    long port = 0;
    const char *bind_to = "0.0.0.0", *token_file = NULL;
    bool udp = false;
    struct option options[] = {
        {"--port", OPTION_INTEGER, &port, .required = true, .min = 1, .max = 65535},
        {"--bind", OPTION_TEXT, &bind_to, .required = false},
        {"--udp", OPTION_FLAG, &udp, .required = false},
        {"--token-file", OPTION_TEXT, &token_file, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; rr-server runs no command");
    union address address;
    if (!address_parse(&address, bind_to, port))
        die_usage("--bind '%s' is not an address such as 10.77.0.1", bind_to);

    descriptors_allow_many();
    token_read(&server.token, token_file);
    memset(server.response, 'r', sizeof server.response);
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL); /* before any thread is there: only this one takes them */
    server.listener = listen_on(&address, udp);
    pthread_mutex_lock(&server.lock);
    add_worker(udp ? work_udp : work);
    pthread_mutex_unlock(&server.lock);

    int signal;
    sigwait(&stop, &signal);
    report(udp);
    return 0;
}
