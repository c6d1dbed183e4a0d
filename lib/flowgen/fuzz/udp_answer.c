/* What a UDP server answers its client: any bytes, any counts. */
#include <string.h>

#include "fuzz.h"

#include "../src/udpflow.c"

#include "../src/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run run;
    struct input input = {data, size};
    uint8_t step = take_byte(&input);
    struct udp_flow flow = {.started_ns = take_number(&input, 4), .end_ns = take_number(&input, 8)};
    struct udp_plan plan = {.datagram_bytes = UDP_LEAST_BYTES};
    struct udp_answer answer = {0};
    flow.sent = take_number(&input, 8);
    size_t length = take_bytes(&input, &answer, sizeof answer);
    if (step & 1)
        answer.header = (struct udp_header){UDP_MAGIC, UDP_ANSWER, 0, flow.sent, flow.started_ns, {0}};
    ssize_t received = step & 2 ? (ssize_t)length : (ssize_t)take_number(&input, 1) - 1;
    flow.answered = is_answer(&flow, &answer, received);
    MUST(!flow.answered || received == (ssize_t)sizeof answer);
    if (flow.answered)
        flow.counts = answer.counts;
    RUN(&run, report_udp(0, &flow, &plan));
    MUST(!run.exited && check_lines(run.out, "total", "datagrams_sent", NULL) == 1);
    return 0;
}
