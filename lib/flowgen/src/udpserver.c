#include "udpserver.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "errors.h"
#include "json.h"
#include "monotonic.h"
#include "udpwire.h"

/* A client has up to 1,000 flows, and its pair's server no other; each takes 8 KiB. */
enum { BUCKETS = 1024, BATCH = 32, DATAGRAM_BYTES = 65536, MOST_STREAMS = 4096 };

/* How far back duplicates are distinguished from late datagrams: many times what a receive buffer holds. */
enum { WINDOW = 65536, WORD_BITS = 64 };

struct stream {
    union address peer;
    uint16_t flow;
    struct udp_counts counts;
    uint64_t next_expected;               /* as in RFC 4737, section 3: one more than the greatest number so far */
    uint64_t seen[WINDOW / WORD_BITS];    /* of the numbers below it, by number modulo WINDOW */
    uint64_t ended_ns;                    /* 0: not ended */
    struct stream *next;                  /* of the same bucket */
};

struct udp_server {
    int socket;
    struct token token;
    uint64_t refused;
    size_t streams;
    struct stream *buckets[BUCKETS];
    union address peers[BATCH];
    char datagrams[BATCH][DATAGRAM_BYTES];
};

static struct stream **bucket_of(struct udp_server *server, const union address *peer)
{
    uint32_t host = address_host(peer);
    uint32_t hash = (host ^ ntohs(peer->v4.sin_port)) * UINT32_C(2654435761); /* Knuth's */
    return &server->buckets[hash >> 22];
}

/* The flow of that peer, made where there is none; NULL: there are too many. */
static struct stream *stream_of(struct udp_server *server, const union address *peer)
{
    struct stream **bucket = bucket_of(server, peer);
    for (struct stream *stream = *bucket; stream; stream = stream->next)
        if (address_equal(&stream->peer, peer))
            return stream;
    if (server->streams == MOST_STREAMS)
        return NULL;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        die("out of memory for one more flow");
    stream->peer = *peer;
    stream->next = *bucket;
    *bucket = stream;
    server->streams++;
    return stream;
}

/* A client may get the port of one that has ended; what was sent before that end is late, and no new flow. Returns
   whether this belongs to a flow that has not ended. */
static bool goes_on(struct stream *stream, uint64_t sent_ns)
{
    if (!stream->ended_ns)
        return true;
    if (sent_ns <= stream->ended_ns)
        return false;
    *stream = (struct stream){.peer = stream->peer, .next = stream->next};
    return true;
}

static uint64_t *word_of(struct stream *stream, uint64_t sequence)
{
    return &stream->seen[sequence % WINDOW / WORD_BITS];
}

static uint64_t bit_of(uint64_t sequence)
{
    return UINT64_C(1) << sequence % WORD_BITS;
}

static void advance(struct stream *stream, uint64_t next_expected)
{
    if (next_expected - stream->next_expected >= WINDOW)
        memset(stream->seen, 0, sizeof stream->seen);
    else
        for (uint64_t sequence = stream->next_expected; sequence < next_expected; sequence++)
            *word_of(stream, sequence) &= ~bit_of(sequence);
    stream->next_expected = next_expected;
}

static void count(struct stream *stream, uint64_t sequence, size_t length, uint64_t now)
{
    struct udp_counts *counts = &stream->counts;
    if (sequence >= stream->next_expected) {
        advance(stream, sequence + 1);
    } else if (stream->next_expected - sequence <= WINDOW && *word_of(stream, sequence) & bit_of(sequence)) {
        counts->duplicated++;
        return;
    } else {
        counts->reordered++;
    }
    if (stream->next_expected - sequence <= WINDOW)
        *word_of(stream, sequence) |= bit_of(sequence);
    if (!counts->received++)
        counts->first_ns = now;
    counts->last_ns = now;
    counts->bytes += length;
}

/* sent: how many the client says it sent; NULL: it did not come to that, which is an error. */
static void report(const struct stream *stream, const uint64_t *sent)
{
    const struct udp_counts *counts = &stream->counts;
    char peer[ADDRESS_TEXT];
    address_format(&stream->peer, peer);

    struct json line;
    json_begin(&line, "received");
    json_text(&line, "protocol", "udp");
    json_text(&line, "peer", peer);
    json_integer(&line, "flow", stream->flow);
    json_integer(&line, "flow_bytes", counts->bytes);
    json_null(&line, "accept_ns");
    json_moment(&line, "first_ns", counts->first_ns);
    json_moment(&line, "last_ns", counts->last_ns);
    if (sent) {
        json_integer(&line, "datagrams_sent", *sent);
        json_integer(&line, "datagrams_lost", *sent > counts->received ? *sent - counts->received : 0);
    } else {
        json_null(&line, "datagrams_sent");
        json_null(&line, "datagrams_lost");
    }
    json_integer(&line, "datagrams_received", counts->received);
    json_integer(&line, "datagrams_reordered", counts->reordered);
    json_integer(&line, "datagrams_duplicated", counts->duplicated);
    if (!sent)
        json_text(&line, "error", "the server was stopped before the peer was done");
    if (!json_print(&line, stdout))
        die("cannot write to stdout: %s", strerror(errno));
}

static void end_stream(const struct udp_server *server, struct stream *stream, const struct udp_header *mark,
                       uint64_t now)
{
    struct udp_answer answer = {.header = *mark, .counts = stream->counts};
    answer.header.kind = UDP_ANSWER;
    sendto(server->socket, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL,
           &stream->peer.any, sizeof stream->peer); /* if it is lost, we are asked again */
    if (stream->ended_ns)
        return;
    stream->ended_ns = now;
    report(stream, &mark->sequence);
}

static void take(struct udp_server *server, const union address *peer, const char *datagram, size_t length,
                 uint64_t now)
{
    struct udp_header header;
    if (length < sizeof header)
        return;
    memcpy(&header, datagram, sizeof header);
    if (header.magic != UDP_MAGIC || (header.kind != UDP_DATA && header.kind != UDP_END))
        return;
    if (memcmp(header.token, server->token.bytes, sizeof header.token)) {
        server->refused++;
        return;
    }
    struct stream *stream = stream_of(server, peer);
    if (!stream)
        return;
    bool new_or_going_on = goes_on(stream, header.at_ns);
    stream->flow = header.flow;
    if (header.kind == UDP_END)
        end_stream(server, stream, &header, now);
    else if (new_or_going_on)
        count(stream, header.sequence, length, now);
}

struct udp_server *udp_server_open(const union address *address, const struct token *token)
{
    struct udp_server *server = calloc(1, sizeof *server);
    if (!server)
        die("out of memory for %d datagrams", BATCH);
    server->token = *token;
    server->socket = socket(address->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->socket < 0)
        die("cannot make a socket: %s", strerror(errno));
    if (bind(server->socket, &address->any, sizeof *address) < 0) {
        char name[ADDRESS_TEXT];
        int error = errno;
        address_format(address, name);
        die("cannot receive UDP on %s: %s; choose another --port, or an address this network namespace has", name,
            strerror(error));
    }
    return server;
}

int udp_server_socket(const struct udp_server *server)
{
    return server->socket;
}

void udp_server_receive(struct udp_server *server)
{
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH] = {0};
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){.iov_base = server->datagrams[i], .iov_len = DATAGRAM_BYTES};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = &server->peers[i];
        messages[i].msg_hdr.msg_namelen = sizeof server->peers[i];
    }
    int received = recvmmsg(server->socket, messages, BATCH, MSG_DONTWAIT, NULL);
    uint64_t now = monotonic_ns();
    for (int i = 0; i < received; i++)
        take(server, &server->peers[i], server->datagrams[i], messages[i].msg_len, now);
}

uint64_t udp_server_close(struct udp_server *server)
{
    uint64_t refused = server->refused;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct stream *stream = server->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            if (!stream->ended_ns)
                report(stream, NULL);
            free(stream);
        }
    }
    close(server->socket);
    free(server);
    return refused;
}
