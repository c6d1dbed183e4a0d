/* The control socket of a launcher: any packets. Only "term" ends it, and an end of the connection. */
#include "../src/control.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

enum { PACKET_BYTES = 300 };

/* Half of them begin as the one that is known does. */
static size_t take_packet(struct input *input, char packet[PACKET_BYTES])
{
    uint8_t step = take_byte(input);
    size_t known = step & 0x80 ? 4 : 0;
    memcpy(packet, "term", known);
    size_t length = step % 8 == 7 ? take_number(input, 2) % (PACKET_BYTES - 4) : step % 8;
    return known + take_bytes(input, packet + known, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run run;
    struct input input = {data, size};
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    while (input.left) {
        char packet[PACKET_BYTES];
        const size_t length = take_packet(&input, packet);
        if (!length)
            continue; /* an empty packet is the same as the end of the connection */
        MUST(send(ends[0], packet, length, MSG_NOSIGNAL) == (ssize_t)length);
        volatile enum control_message message = CONTROL_GONE;
        RUN(&run, message = control_receive(ends[1]));
        bool term = length == 4 && !memcmp(packet, "term", 4);
        MUST(!run.exited && message == (term ? CONTROL_TERM : CONTROL_NOTHING));
        MUST(control_receive(ends[1]) == CONTROL_NOTHING && !control_has_hung_up(ends[1]));
    }
    close(ends[0]);
    MUST(control_has_hung_up(ends[1]) && control_receive(ends[1]) == CONTROL_GONE);
    close(ends[1]);
    return 0;
}
