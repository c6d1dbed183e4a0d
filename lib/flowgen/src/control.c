#include "control.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "errors.h"

int control_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        die_usage("--control '%s' is too long for a socket's path: at most %zu bytes", path,
                  sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);

    int control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (control < 0 || connect(control, (const struct sockaddr *)&address, sizeof address) < 0)
        die("cannot reach the controller at '%s': %s; it must listen there (SOCK_SEQPACKET) first", path,
            strerror(errno));
    return control;
}

enum control_message control_receive(int control)
{
    char packet[64];
    ssize_t length = recv(control, packet, sizeof packet, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return CONTROL_NOTHING;
    if (length <= 0)
        return CONTROL_GONE;
    if (length == 4 && !memcmp(packet, "term", 4))
        return CONTROL_TERM;
    complain("ignored an unknown packet from the controller; the only one is 'term'");
    return CONTROL_NOTHING;
}

bool control_send(int control, struct json *event)
{
    json_end(event);
    return send(control, event->text, event->length, MSG_NOSIGNAL) == (ssize_t)event->length;
}

bool control_has_hung_up(int control)
{
    struct pollfd hangup = {.fd = control, .events = POLLRDHUP};
    return poll(&hangup, 1, 0) != 0; /* POLLHUP and POLLERR are always watched for */
}
