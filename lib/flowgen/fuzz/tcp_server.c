/* The TCP server: peers that come, send, half-close and go in any order, and a kernel that has no descriptors left.
   Every byte that was sent is reported, whatever the order; with a token, of those peers only that have it. The peers
   are Unix sockets: to the server they look the same, and no port is taken. */
#include <string.h>
#include <sys/un.h>

#include "fuzz.h"

#include "../src/server.c"

enum { PEERS = 12, CALM_TURNS = 64 };

static int refused; /* errno of the next accept; 0: none */

int __real_accept4(int listener, struct sockaddr *peer, socklen_t *length, int flags);
int __wrap_accept4(int listener, struct sockaddr *peer, socklen_t *length, int flags)
{
    if (refused) {
        errno = refused;
        refused = 0;
        return -1;
    }
    return __real_accept4(listener, peer, length, flags);
}

static int connect_peer(int listener)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(peer >= 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    MUST(connect(peer, (const struct sockaddr *)&address, length) == 0);
    return peer;
}

static void turns(struct run *run, struct server *server, int count, uint64_t *lines, uint64_t *reported)
{
    RUN(run, for (int i = 0; i < count; i++) take_turn(server, 0));
    MUST(!run->exited);
    *lines += check_lines(run->out, "received", "flow_bytes", reported);
}

static void check_list(const struct list *list, bool proven)
{
    const struct connection *before = NULL;
    size_t count = 0;
    for (const struct connection *each = list->first; each; before = each, each = each->next, count++)
        MUST(each->previous == before && each->socket >= 0 && each->proven == proven);
    MUST(list->last == before && list->count == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct server server;
    static struct run run;
    static const char payload[1 << 16];
    struct input input = {data, size};
    int peers[PEERS];
    memset(peers, -1, sizeof peers);
    uint64_t connected = 0, sent = 0, lines = 0, reported = 0;

    struct sockaddr_un any = {.sun_family = AF_UNIX};
    memset(&server, 0, sizeof server - sizeof server.buffer);
    const enum { NO_TOKEN, THEIRS, ANOTHER, TOKENS } token = take_byte(&input) % TOKENS; /* theirs is all zeros */
    server.token.given = token != NO_TOKEN;
    server.token.bytes[TOKEN_BYTES - 1] = token == ANOTHER;
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    server.signals = -1;
    MUST(server.epoll >= 0 && server.listener >= 0);
    MUST(bind(server.listener, (struct sockaddr *)&any, sizeof any.sun_family) == 0 && listen(server.listener, 64) == 0);
    set_accepting(&server, true);

    while (input.left) {
        uint8_t step = take_byte(&input);
        int *peer = &peers[step / 8 % PEERS];
        switch (step % 8) {
        case 0:
        case 1:
            if (*peer < 0) {
                *peer = connect_peer(server.listener);
                connected++;
            }
            break;
        case 2:
        case 3: {
            ssize_t written = *peer < 0 ? 0 : send(*peer, payload, take_number(&input, 2), MSG_NOSIGNAL);
            sent += written > 0 ? (uint64_t)written : 0;
            break;
        }
        case 4:
            if (*peer >= 0)
                shutdown(*peer, SHUT_WR);
            break;
        case 5:
            if (*peer >= 0)
                close(*peer);
            *peer = -1;
            break;
        case 6:
            refused = (int[]){EMFILE, ENFILE, EINTR, ECONNABORTED}[step / 8 % 4];
            break;
        case 7:
            turns(&run, &server, 1 + step / 64, &lines, &reported);
            break;
        }
        check_list(&server.proven, true);
        check_list(&server.unproven, false);
    }
    /* A listener that is no longer watched is watched again when a connection ends: all do, so that all are seen. */
    refused = 0;
    for (int i = 0; i < PEERS; i++)
        if (peers[i] >= 0)
            close(peers[i]);
    for (int i = 0; i < CALM_TURNS; i++)
        turns(&run, &server, 4, &lines, &reported);
    if (server.accepting) {
        MUST(lines + server.refused == connected && reported <= sent);
        MUST(!server.proven.count && !server.unproven.count);
        MUST(token != NO_TOKEN || (!server.refused && reported == sent));
    } else { /* the first accept found no descriptor, and nobody was there to end */
        MUST(lines < connected && reported <= sent);
    }
    RUN(&run, drain(&server); end_all(&server));
    MUST(!run.exited && !server.proven.count && !server.unproven.count);
    close(server.listener);
    close(server.epoll);
    return 0;
}
