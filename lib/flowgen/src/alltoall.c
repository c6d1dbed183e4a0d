/* all-to-all: a rank of several, of which each sends a message to each other one and receives as many, again and again.

   One round is what MPI_Alltoall does, and is timed as the OSU benchmarks time it: each rank by itself, from its call to
   its return; then a barrier, which is not timed, so that all begin the next round together. Rank 0 says by the barrier
   from when on rounds count, and when the last one was. It counts time from the end of a round, by which all others had
   begun it, to the begin of one, which no other can end before: so the whole time has passed by each rank's clock, also by
   that of one that waited long for a CPU before it looked. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "histogram.h"
#include "json.h"
#include "mesh.h"
#include "monotonic.h"
#include "options.h"
#include "report.h"

enum { MOST_MESSAGE_BYTES = 1024 * 1024 };

/* What rank 0 tells all by the barrier. */
enum { COUNT_FROM_NOW = 1, STOP = 2 };

static const uint64_t CONNECT_NS = 10 * NS_PER_S, STALL_NS = 10 * NS_PER_S, STOPPED_NS = NS_PER_S;

struct rank {
    struct mesh_plan mesh;
    size_t message_bytes;
    uint64_t warmup_ns, duration_ns;
    int sockets[MOST_RANKS];
    char *send_buffer, *receive_buffer;  /* a message for each rank, as MPI_Alltoall has it */
    size_t unsent[MOST_RANKS], unreceived[MOST_RANKS];
    uint64_t connected_ns, counted_ns, end_ns, progress_ns;
    uint64_t rounds;                     /* those that count; and below, of them alone */
    uint64_t least_ns, most_ns;
    double sum_ns;
    uint64_t sent_bytes, received_bytes; /* of all rounds and barriers, and of what began connections */
    struct histogram *histogram;
    char error[ERROR_TEXT];
};

static volatile sig_atomic_t stopped;

static void note_stop(int signal)
{
    (void)signal;
    stopped = 1;
}

__attribute__((format(printf, 2, 3))) static bool fail(struct rank *rank, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rank->error, sizeof rank->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool broke(struct rank *rank, size_t peer, int error)
{
    return fail(rank, "the connection to rank %zu broke: %s", peer, error ? strerror(error) : "it closed it");
}

/* After a call that gave nothing: whether to try again. A stopped rank finishes what all others finish, too. */
static bool may_wait(struct rank *rank, size_t peer)
{
    if (errno != EAGAIN && errno != EINTR)
        return broke(rank, peer, errno);
    uint64_t waited_ns = monotonic_ns() - rank->progress_ns;
    if (waited_ns > (stopped ? STOPPED_NS : STALL_NS))
        return fail(rank, "rank %zu sent nothing for %.0f s", peer, (double)waited_ns / 1e9);
    return true;
}

static bool send_all(struct rank *rank, size_t peer, const char *bytes, size_t length)
{
    while (length) {
        ssize_t sent = send(rank->sockets[peer], bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && !may_wait(rank, peer))
            return false;
        if (sent > 0) {
            rank->sent_bytes += (uint64_t)sent;
            bytes += sent;
            length -= (size_t)sent;
        }
    }
    return true;
}

static bool receive_all(struct rank *rank, size_t peer, char *into, size_t length)
{
    while (length) {
        ssize_t received = recv(rank->sockets[peer], into, length, MSG_WAITALL);
        if (!received)
            return broke(rank, peer, 0);
        if (received < 0 && !may_wait(rank, peer))
            return false;
        if (received > 0) {
            rank->received_bytes += (uint64_t)received;
            into += received;
            length -= (size_t)received;
        }
    }
    return true;
}

/* As much of the message to a rank as its socket takes now. */
static bool send_some(struct rank *rank, size_t peer)
{
    const char *message = rank->send_buffer + peer * rank->message_bytes;
    size_t *unsent = &rank->unsent[peer];
    ssize_t sent = send(rank->sockets[peer], message + (rank->message_bytes - *unsent), *unsent,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? true : broke(rank, peer, errno);
    rank->sent_bytes += (uint64_t)sent;
    *unsent -= (size_t)sent;
    return true;
}

static bool receive_some(struct rank *rank, size_t peer)
{
    char *message = rank->receive_buffer + peer * rank->message_bytes;
    size_t *unreceived = &rank->unreceived[peer];
    ssize_t received = recv(rank->sockets[peer], message + (rank->message_bytes - *unreceived), *unreceived,
                            MSG_DONTWAIT);
    if (!received)
        return broke(rank, peer, 0);
    if (received < 0)
        return errno == EAGAIN || errno == EINTR ? true : broke(rank, peer, errno);
    rank->received_bytes += (uint64_t)received;
    *unreceived -= (size_t)received;
    return true;
}

/* Messages that are larger than a socket's buffer: what can be sent, and what comes, whichever is first. */
static bool exchange_in_parts(struct rank *rank)
{
    for (;;) {
        struct pollfd watched[MOST_RANKS];
        size_t peers[MOST_RANKS], count = 0;
        for (size_t peer = 0; peer < rank->mesh.ranks; peer++) {
            short events = (short)((rank->unsent[peer] ? POLLOUT : 0) | (rank->unreceived[peer] ? POLLIN : 0));
            if (!events)
                continue;
            watched[count] = (struct pollfd){.fd = rank->sockets[peer], .events = events};
            peers[count++] = peer;
        }
        if (!count)
            return true;
        int ready = poll(watched, count, 100);
        if (ready <= 0) {
            errno = EAGAIN;
            if (!may_wait(rank, peers[0]))
                return false;
            continue;
        }
        rank->progress_ns = monotonic_ns();
        for (size_t i = 0; i < count; i++) {
            if (watched[i].revents && rank->unreceived[peers[i]] && !receive_some(rank, peers[i]))
                return false;
            if (watched[i].revents & POLLOUT && rank->unsent[peers[i]] && !send_some(rank, peers[i]))
                return false;
        }
    }
}

/* One round. A rank begins with the one after it, so that not all send to the same one at once. Where all was sent at
   once, it waits for one message after the other: all must come, in whatever order, and so nothing needs to be asked. */
static bool exchange(struct rank *rank)
{
    size_t ranks = rank->mesh.ranks, own = rank->mesh.own, length = rank->message_bytes;
    bool all_sent = true;
    memcpy(rank->receive_buffer + own * length, rank->send_buffer + own * length, length);
    for (size_t step = 1; step < ranks; step++) {
        size_t peer = (own + step) % ranks;
        rank->unsent[peer] = rank->unreceived[peer] = length;
        if (!send_some(rank, peer))
            return false;
        all_sent = all_sent && !rank->unsent[peer];
    }
    if (!all_sent)
        return exchange_in_parts(rank);
    for (size_t step = 1; step < ranks; step++) {
        size_t peer = (own + ranks - step) % ranks;
        if (!receive_all(rank, peer, rank->receive_buffer + peer * length, length))
            return false;
    }
    return true;
}

/* Returns when all ranks have called it: in step k each sends a byte to the rank 2^k after it, and receives one from
   that before it (Hensgen, Finkel, Manber 1988). What rank 0 tells has then reached all. */
static bool barrier(struct rank *rank, char *told)
{
    size_t ranks = rank->mesh.ranks, own = rank->mesh.own;
    for (size_t distance = 1; distance < ranks; distance *= 2) {
        char heard;
        size_t before = (own + ranks - distance) % ranks;
        if (!send_all(rank, (own + distance) % ranks, told, 1) || !receive_all(rank, before, &heard, 1))
            return false;
        *told = (char)(*told | heard);
    }
    return true;
}

static void count(struct rank *rank, uint64_t took_ns)
{
    rank->rounds++;
    histogram_record(rank->histogram, took_ns);
    rank->sum_ns += (double)took_ns;
    if (took_ns < rank->least_ns)
        rank->least_ns = took_ns;
    if (took_ns > rank->most_ns)
        rank->most_ns = took_ns;
}

static bool run_rounds(struct rank *rank)
{
    char told = 0;
    rank->progress_ns = monotonic_ns();
    if (!barrier(rank, &told))
        return false;
    rank->connected_ns = rank->counted_ns = monotonic_ns();
    uint64_t count_ns = 0, end_ns = 0; /* rank 0's: known after the first round, and the first one that counts */
    bool counting = !rank->warmup_ns, first = rank->mesh.own == 0;
    while (!(told & STOP)) {
        uint64_t begin_ns = rank->progress_ns = monotonic_ns();
        if (!exchange(rank))
            return false;
        uint64_t now = rank->end_ns = monotonic_ns();
        if (counting)
            count(rank, now - begin_ns);
        told = 0;
        if (!count_ns)
            count_ns = now + rank->warmup_ns;
        if (counting && !end_ns)
            end_ns = now + rank->duration_ns;
        if (first && now >= count_ns && !counting)
            told |= COUNT_FROM_NOW;
        if (first && counting && begin_ns >= end_ns)
            told |= STOP;
        if (!barrier(rank, &told))
            return false;
        if (told & COUNT_FROM_NOW) {
            counting = true;
            rank->counted_ns = monotonic_ns();
        }
    }
    return true;
}

static void report(const struct rank *rank)
{
    bool any = rank->rounds > 0;
    struct json line;
    report_latencies(rank->mesh.own, rank->histogram);
    json_begin(&line, "rank");
    json_integer(&line, "rank", rank->mesh.own);
    json_integer(&line, "ranks", rank->mesh.ranks);
    json_integer(&line, "message_bytes", rank->message_bytes);
    json_moment(&line, "connected_ns", rank->connected_ns);
    json_number(&line, "lasted_s", rank->end_ns ? (double)(rank->end_ns - rank->connected_ns) / 1e9 : 0);
    json_number(&line, "duration_s", rank->end_ns ? (double)(rank->end_ns - rank->counted_ns) / 1e9 : 0);
    json_integer(&line, "rounds", rank->rounds);
    json_number(&line, "min_s", any ? (double)rank->least_ns / 1e9 : NAN);
    json_number(&line, "mean_s", any ? rank->sum_ns / (double)rank->rounds / 1e9 : NAN);
    json_number(&line, "max_s", any ? (double)rank->most_ns / 1e9 : NAN);
    json_integer(&line, "sent_bytes", rank->sent_bytes);
    json_integer(&line, "received_bytes", rank->received_bytes);
    if (*rank->error)
        json_text(&line, "error", rank->error);
    if (!json_print(&line, stdout) || fflush(stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

/* "10.77.0.1:5201,10.77.0.2:5201", as many as there are ranks. */
static void parse_ranks(const char *text, struct mesh_plan *plan)
{
    for (const char *end = text; *end; text = end + 1) {
        char one[ADDRESS_TEXT + 1];
        size_t length = strcspn(text, ",");
        end = text + length;
        if (plan->ranks == MOST_RANKS)
            die_usage("--ranks has more than %d ranks", MOST_RANKS);
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), text);
        if (!address_parse_pair(&plan->rank[plan->ranks++], one))
            die_usage("--ranks: '%s' is not an address and port such as 10.77.0.1:5201", one);
    }
    if (plan->ranks < 2)
        die_usage("--ranks needs at least two, as 10.77.0.1:5201,10.77.0.2:5201");
}

static void prepare(struct rank *rank)
{
    size_t bytes = rank->mesh.ranks * rank->message_bytes;
    rank->histogram = histogram_make(1);
    rank->send_buffer = malloc(bytes);
    rank->receive_buffer = malloc(bytes);
    if (!rank->histogram || !rank->send_buffer || !rank->receive_buffer)
        die("out of memory for %zu messages", rank->mesh.ranks);
    memset(rank->send_buffer, 'a', bytes); /* untouched memory is one shared page: it would copy too fast */
    memset(rank->receive_buffer, 0, bytes);
    rank->least_ns = UINT64_MAX;
    mesh_connect(rank->sockets, &rank->mesh);
    rank->sent_bytes = rank->mesh.own * sizeof(struct mesh_hello);
    rank->received_bytes = (rank->mesh.ranks - 1 - rank->mesh.own) * sizeof(struct mesh_hello);
    for (size_t peer = 0; peer < rank->mesh.ranks; peer++) {
        struct timeval look = {.tv_usec = 100000};
        if (peer == rank->mesh.own)
            continue;
        setsockopt(rank->sockets[peer], SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
        setsockopt(rank->sockets[peer], SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
    }
}

static void wait_until_stopped(void)
{
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    while (!stopped)
        sigsuspend(&before);
}

int all_to_all_main(char **arguments)
{
    static struct rank rank;
    const char *ranks = NULL, *token_file = NULL;
    long own = 0, message_bytes = 1024;
    double duration_s = 0, warmup_s = 0;
    bool wait = false;
    struct option options[] = {
        {"--ranks", OPTION_TEXT, &ranks, .required = true},
        {"--rank", OPTION_INTEGER, &own, .required = true, .min = 0, .max = MOST_RANKS - 1},
        {"--duration", OPTION_SECONDS, &duration_s, .required = true, .min = 0.001, .max = 1e6},
        {"--warmup", OPTION_SECONDS, &warmup_s, .min = 0, .max = 1e6},
        {"--message-bytes", OPTION_INTEGER, &message_bytes, .min = 1, .max = MOST_MESSAGE_BYTES},
        {"--wait", OPTION_FLAG, &wait, .required = false},
        {"--token-file", OPTION_TEXT, &token_file, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; all-to-all runs no command");
    parse_ranks(ranks, &rank.mesh);
    if ((size_t)own >= rank.mesh.ranks)
        die_usage("--rank '%ld' is none of the %zu of --ranks, which are numbered from 0", own, rank.mesh.ranks);
    rank.mesh.own = (size_t)own;
    rank.mesh.within_ns = wait ? 0 : CONNECT_NS;
    rank.mesh.stopped = &stopped;
    rank.message_bytes = (size_t)message_bytes;
    rank.warmup_ns = (uint64_t)(warmup_s * 1e9);
    rank.duration_ns = (uint64_t)(duration_s * 1e9);
    token_read(&rank.mesh.token, token_file);

    struct sigaction on_term = {.sa_handler = note_stop}; /* without SA_RESTART: what waits looks whether to go on */
    if (wait)
        sigaction(SIGTERM, &on_term, NULL);
    descriptors_allow_many();
    prepare(&rank);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    bool whole = run_rounds(&rank);
    report(&rank);
    if (wait)
        wait_until_stopped();
    if (!whole)
        complain("%s", rank.error);
    return whole ? 0 : STATUS_FAILED;
}
