#include "answering.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { WRITE_BYTES = 256 * 1024 };

void request_write(unsigned char request[REQUEST_BYTES], uint64_t flow_bytes)
{
    uint64_t wire = htobe64(flow_bytes);
    memcpy(request, &wire, REQUEST_BYTES);
}

bool answering_take(struct answering *answering, const char *data, size_t length)
{
    while (length) {
        size_t part = REQUEST_BYTES - answering->begun_bytes < length ? REQUEST_BYTES - answering->begun_bytes : length;
        memcpy(answering->begun + answering->begun_bytes, data, part);
        data += part;
        length -= part;
        answering->begun_bytes += part;
        if (answering->begun_bytes < REQUEST_BYTES)
            return true;
        uint64_t wire;
        memcpy(&wire, answering->begun, REQUEST_BYTES);
        uint64_t asked = be64toh(wire);
        if (!asked || asked > MOST_ASKED_BYTES || answering->owed > MOST_ASKED_BYTES)
            return false;
        answering->begun_bytes = 0;
        answering->owed += asked;
        answering->requests++;
    }
    return true;
}

bool answering_send(struct answering *answering, int socket)
{
    static char data[WRITE_BYTES];
    if (!data[0])
        memset(data, 'f', sizeof data); /* untouched memory is one shared page: it would copy too fast */
    size_t length = answering->owed < sizeof data ? (size_t)answering->owed : sizeof data;
    ssize_t sent = send(socket, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    answering->owed -= (uint64_t)sent;
    answering->sent += (uint64_t)sent;
    return true;
}
