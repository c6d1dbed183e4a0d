/* The UDP server: any datagrams from any peers, ours or another's. What it counts stays possible. */
#include <string.h>

#include "fuzz.h"

#include "../src/udpserver.c"

enum { PEERS = 5 };

static void check_counts(const struct udp_server *server)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct stream *stream = server->buckets[i]; stream; stream = stream->next) {
            const struct udp_counts *counts = &stream->counts;
            MUST(counts->reordered <= counts->received);
            MUST(counts->bytes >= counts->received * sizeof(struct udp_header));
            MUST(!counts->received == !counts->first_ns && counts->first_ns <= counts->last_ns);
        }
    }
}

static void forget(struct udp_server *server)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct stream *stream = server->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            free(stream);
        }
        server->buckets[i] = NULL;
    }
}

static size_t take_length(struct input *input)
{
    size_t length = take_byte(input);
    return length == 255 ? take_number(input, 2) : length;
}

static void give(struct udp_server *server, const union address *peer, const char *datagram, size_t length,
                 uint64_t now)
{
    static struct run run;
    char *const exact = malloc(length ? length : 1); /* so that a sanitizer sees a step beyond its end */
    memcpy(exact, datagram, length);
    RUN(&run, take(server, peer, exact, length, now));
    MUST(!run.exited && check_lines(run.out, "received", "datagrams_received", NULL) <= 1);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct udp_server server;
    struct input input = {data, size};
    uint64_t now = 1;
    while (input.left) {
        uint8_t step = take_byte(&input);
        union address peer = {.v4 = {.sin_family = AF_INET, .sin_port = htons(step % PEERS), .sin_addr.s_addr = 1}};
        struct udp_header header = {UDP_MAGIC, UDP_DATA, 0, 0, 0, {0}};
        now += take_byte(&input);
        const size_t length = take_length(&input);
        char *datagram = calloc(1, length + 1); /* a byte more: no allocation is empty */
        MUST(datagram != NULL);
        if (step & 0x80) { /* one of ours, as far as it goes; in half of them with a number near the one before */
            header.kind = step & 0x40 ? UDP_END : UDP_DATA;
            header.sequence = take_number(&input, step & 0x20 ? 1 : 8);
            header.at_ns = step & 0x10 ? now : take_number(&input, 8);
            memcpy(datagram, &header, length < sizeof header ? length : sizeof header);
        } else {
            take_bytes(&input, datagram, length);
        }
        give(&server, &peer, datagram, length, now);
        free(datagram);
        check_counts(&server);
    }
    forget(&server);
    return 0;
}
