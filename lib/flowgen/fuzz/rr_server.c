/* What begins a connection of rr, and its datagrams, from anybody: only what has the token and sensible sizes is served. */
#include "fuzz.h"

#include "../src/rrserver.c"

static const char token[TOKEN_BYTES] = "the token of all";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char datagram[RECEIVE_BYTES];
    static struct worker worker;
    struct input input = {data, size};
    union address peer = {.any = {.sa_family = AF_INET}};
    server.listener = -1; /* nothing leaves this process */
    memcpy(server.token.bytes, token, TOKEN_BYTES);
    while (input.left) {
        uint8_t step = take_byte(&input);
        server.token.given = step & 1;
        struct rr_opening opening = {.magic = RR_MAGIC};
        memcpy(opening.token, token, TOKEN_BYTES);
        opening.token[0] ^= step & 2;
        opening.request_bytes = (uint32_t)take_number(&input, 4) >> step % 32;
        opening.response_bytes = (uint32_t)take_number(&input, 4) >> step % 32;
        if (is_opening(&opening)) {
            MUST(!(step & 1) || !(step & 2));
            MUST(opening.request_bytes >= 1 && opening.request_bytes <= RR_MOST_BYTES);
            MUST(opening.response_bytes >= 1 && opening.response_bytes <= RR_MOST_BYTES);
        }
        struct rr_datagram header = {.magic = step & 4 ? RR_MAGIC : RR_RESPONSE_MAGIC};
        header.response_bytes = opening.response_bytes;
        memcpy(header.token, opening.token, TOKEN_BYTES);
        memcpy(datagram, &header, sizeof header);
        size_t length = take_number(&input, 2) % sizeof datagram;
        uint64_t before = worker.requests;
        answer(&worker, datagram, (ssize_t)length, &peer);
        if (worker.requests != before) {
            MUST((step & 4) && length >= sizeof header && (!(step & 1) || !(step & 2)));
            MUST(header.response_bytes >= RR_LEAST_RESPONSE_DATAGRAM);
            MUST(header.response_bytes <= RR_MOST_DATAGRAM_BYTES);
        }
        MUST(!worker.responses);
    }
    return 0;
}
