/* Requests for flows, in parts of any length: none is lost or taken twice, and what is owed is what was asked for. */
#include "../src/answering.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct answering answering = {0};
    unsigned char request[REQUEST_BYTES];
    uint64_t asked = 0, requests = 0;
    while (input.left) {
        uint64_t flow_bytes = take_number(&input, 1 + take_byte(&input) % 8);
        size_t first = take_byte(&input) % (REQUEST_BYTES + 1);
        request_write(request, flow_bytes);
        bool fits = flow_bytes && flow_bytes <= MOST_ASKED_BYTES && asked <= MOST_ASKED_BYTES;
        bool taken = answering_take(&answering, (const char *)request, first) &&
                     answering_take(&answering, (const char *)request + first, REQUEST_BYTES - first);
        MUST(taken == fits);
        if (!taken)
            break;
        asked += flow_bytes;
        MUST(answering.owed == asked && answering.requests == ++requests && !answering.begun_bytes);
    }
    return 0;
}
