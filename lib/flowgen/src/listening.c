#include "listening.h"

#include <errno.h>
#include <stdio.h>

/* As in /proc/net/tcp; the kernel's TCP_LISTEN. */
enum { STATE_ANY = 0, STATE_LISTEN = 0x0a };

static int table_lists(const char *path, unsigned port, unsigned wanted_state)
{
    FILE *table = fopen(path, "re");
    if (!table)
        return -1;
    char line[256];
    int found = 0;
    while (!found && fgets(line, sizeof line, table)) {
        unsigned local_port, state;
        /* "   0: 0100007F:1389 00000000:0000 0A ..."; the heading does not match */
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local_port, &state) == 2)
            found = local_port == port && (wanted_state == STATE_ANY || state == wanted_state);
    }
    fclose(table);
    return found;
}

/* /proc/net is a link to the one of the *calling* process, so this follows setns(). */
static int tables_list(const char *ipv4, const char *ipv6, unsigned port, unsigned state)
{
    int found = table_lists(ipv4, port, state);
    if (found)
        return found;
    found = table_lists(ipv6, port, state);
    return found < 0 && errno == ENOENT ? 0 : found; /* a kernel without IPv6 has no such table */
}

int tcp_port_is_listened_on(unsigned port)
{
    return tables_list("/proc/self/net/tcp", "/proc/self/net/tcp6", port, STATE_LISTEN);
}

int udp_port_is_bound(unsigned port)
{
    return tables_list("/proc/self/net/udp", "/proc/self/net/udp6", port, STATE_ANY);
}
