#include "gate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

int gate_enter(const char *path)
{
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

bool gate_is_held(int gate)
{
    struct stat status;
    if (fstat(gate, &status) < 0 || !S_ISFIFO(status.st_mode))
        return false;
    ssize_t length = read(gate, &(char){0}, 1); /* nothing to read is an end without a writer, and EAGAIN with one */
    return length > 0 || (length < 0 && errno == EAGAIN);
}

bool gate_has_opened(short revents)
{
    return revents & POLLHUP;
}

bool gate_wait(int gate)
{
    struct pollfd source = {.fd = gate, .events = 0};
    while (!gate_has_opened(source.revents))
        if (poll(&source, 1, -1) < 0 && errno != EINTR)
            return false;
    return true;
}
