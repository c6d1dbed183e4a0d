#include "mesh.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "errors.h"
#include "monotonic.h"

/* Peers that have not said who they are: all ranks at once, and as many of others. */
enum { MOST_STRANGERS = 2 * MOST_RANKS };

/* The pause before a rank that does not listen yet is tried again. */
static const uint64_t RETRY_NS = 2 * NS_PER_MS;

/* One that has connected, and has not said which rank it is; of too many, the oldest is dropped. */
struct stranger {
    int socket;
    size_t received;
    struct mesh_hello hello;
};

struct mesh {
    const struct mesh_plan *plan;
    int *sockets;                    /* of ranks that are connected */
    int connecting[MOST_RANKS];      /* a socket on its way to that rank; -1: none */
    uint64_t retry_ns[MOST_RANKS];
    int error[MOST_RANKS];           /* why the last attempt failed */
    struct stranger strangers[MOST_STRANGERS];
    size_t strangers_count;
    size_t missing;
};

static void set_blocking(int socket)
{
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static int listen_on(const union address *address)
{
    int listener = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        die("cannot make a socket: %s", strerror(errno));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, &address->any, sizeof *address) < 0 || listen(listener, 4 * MOST_RANKS) < 0) {
        char name[ADDRESS_TEXT];
        int error = errno;
        address_format(address, name);
        die("cannot listen on %s: %s; each rank needs an address and port of its own", name, strerror(error));
    }
    return listener;
}

static void attempt_failed(struct mesh *mesh, size_t rank, int error)
{
    if (mesh->connecting[rank] >= 0)
        close(mesh->connecting[rank]);
    mesh->connecting[rank] = -1;
    mesh->error[rank] = error;
    mesh->retry_ns[rank] = monotonic_ns() + RETRY_NS;
}

static void begin_attempt(struct mesh *mesh, size_t rank)
{
    const union address *address = &mesh->plan->rank[rank];
    int attempt = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (attempt < 0)
        die("cannot make a socket: %s; raise ulimit -n", strerror(errno));
    mesh->connecting[rank] = attempt;
    if (connect(attempt, &address->any, sizeof *address) < 0 && errno != EINPROGRESS)
        attempt_failed(mesh, rank, errno);
}

static void is_connected(struct mesh *mesh, size_t rank, int socket)
{
    set_blocking(socket);
    mesh->sockets[rank] = socket;
    mesh->missing--;
}

static void finish_attempt(struct mesh *mesh, size_t rank)
{
    const struct mesh_plan *plan = mesh->plan;
    int attempt = mesh->connecting[rank], error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(attempt, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    struct mesh_hello hello = {.magic = MESH_MAGIC, .rank = (uint32_t)plan->own};
    memcpy(hello.token, plan->token.bytes, TOKEN_BYTES);
    if (!error && send(attempt, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        error = errno ? errno : EIO;
    if (error) {
        attempt_failed(mesh, rank, error);
        return;
    }
    mesh->connecting[rank] = -1;
    is_connected(mesh, rank, attempt);
}

int mesh_rank_of(const struct mesh_hello *hello, const struct mesh_plan *plan, const int *connected)
{
    if (plan->token.given && memcmp(hello->token, plan->token.bytes, TOKEN_BYTES))
        return -1;
    bool expected = hello->magic == MESH_MAGIC && hello->rank > plan->own && hello->rank < plan->ranks;
    return expected && connected[hello->rank] < 0 ? (int)hello->rank : -1;
}

static void drop_stranger(struct mesh *mesh, size_t place)
{
    memmove(&mesh->strangers[place], &mesh->strangers[place + 1],
            (--mesh->strangers_count - place) * sizeof *mesh->strangers);
}

static void accept_all(struct mesh *mesh, int listener)
{
    int socket;
    while ((socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (mesh->strangers_count == MOST_STRANGERS) {
            close(mesh->strangers[0].socket);
            drop_stranger(mesh, 0);
        }
        mesh->strangers[mesh->strangers_count++] = (struct stranger){.socket = socket};
    }
}

/* False: it is no stranger any more. */
static bool hear(struct mesh *mesh, size_t place)
{
    struct stranger *stranger = &mesh->strangers[place];
    char *into = (char *)&stranger->hello + stranger->received;
    ssize_t received = recv(stranger->socket, into, sizeof stranger->hello - stranger->received, 0);
    if (received < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (received > 0 && (stranger->received += (size_t)received) < sizeof stranger->hello)
        return true;
    int rank = received > 0 ? mesh_rank_of(&stranger->hello, mesh->plan, mesh->sockets) : -1;
    if (rank < 0)
        close(stranger->socket);
    else
        is_connected(mesh, (size_t)rank, stranger->socket);
    drop_stranger(mesh, place);
    return false;
}

static _Noreturn void give_up(const struct mesh *mesh)
{
    const struct mesh_plan *plan = mesh->plan;
    char name[ADDRESS_TEXT];
    size_t first = 0;
    while (first == plan->own || mesh->sockets[first] >= 0)
        first++;
    address_format(&plan->rank[first], name);
    if (first < plan->own)
        die("cannot connect to rank %zu at %s: %s; all ranks must run", first, name,
            strerror(mesh->error[first] ? mesh->error[first] : ETIMEDOUT));
    die("%zu of %zu ranks are not connected, the first of them rank %zu at %s; all ranks must run, with the same"
        " --token-file", mesh->missing, plan->ranks, first, name);
}

static void look(struct mesh *mesh, int listener)
{
    static struct pollfd watched[1 + MOST_RANKS + MOST_STRANGERS];
    static size_t rank_of[1 + MOST_RANKS];
    const struct mesh_plan *plan = mesh->plan;
    size_t count = 0, strangers = mesh->strangers_count;
    watched[count++] = (struct pollfd){.fd = listener, .events = POLLIN};
    bool retries = false;
    for (size_t rank = 0; rank < plan->own; rank++) {
        if (mesh->sockets[rank] >= 0)
            continue;
        if (mesh->connecting[rank] < 0 && monotonic_ns() >= mesh->retry_ns[rank])
            begin_attempt(mesh, rank);
        retries |= mesh->connecting[rank] < 0;
        if (mesh->connecting[rank] >= 0) {
            rank_of[count] = rank;
            watched[count++] = (struct pollfd){.fd = mesh->connecting[rank], .events = POLLOUT};
        }
    }
    size_t first_stranger = count;
    for (size_t i = 0; i < strangers; i++)
        watched[count++] = (struct pollfd){.fd = mesh->strangers[i].socket, .events = POLLIN};
    if (poll(watched, count, retries ? (int)(RETRY_NS / NS_PER_MS) : 100) <= 0)
        return;
    for (size_t i = 1; i < first_stranger; i++)
        if (watched[i].revents)
            finish_attempt(mesh, rank_of[i]);
    for (size_t i = 0, place = 0; i < strangers; i++)
        place += !watched[first_stranger + i].revents || hear(mesh, place);
    if (watched[0].revents)
        accept_all(mesh, listener);
}

void mesh_connect(int *sockets, const struct mesh_plan *plan)
{
    static struct mesh mesh;
    mesh = (struct mesh){.plan = plan, .sockets = sockets, .missing = plan->ranks - 1};
    uint64_t begun_ns = monotonic_ns();
    for (size_t rank = 0; rank < plan->ranks; rank++)
        sockets[rank] = mesh.connecting[rank] = -1;
    int listener = listen_on(&plan->rank[plan->own]);
    while (mesh.missing) {
        look(&mesh, listener);
        bool late = plan->within_ns && monotonic_ns() - begun_ns > plan->within_ns;
        if (mesh.missing && (late || *plan->stopped))
            give_up(&mesh);
    }
    for (size_t i = 0; i < mesh.strangers_count; i++)
        close(mesh.strangers[i].socket);
    close(listener);
}
