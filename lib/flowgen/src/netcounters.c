#include "netcounters.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024 };

const struct net_counters NET_COUNTERS_UNKNOWN = {-1, -1, -1, -1, -1, -1, -1};

/* A number to be read from a table, and where to put it. */
struct wanted {
    const char *table; /* NULL: the end of the list */
    const char *name;
    int64_t *count;
};

/* "Tcp: RtoAlgorithm RtoMin ..." over "Tcp: 1 200 ...": the number under that name; -1: there is none. */
static int64_t value_under(const char *name, const char *names, const char *values)
{
    const size_t length = strlen(name);
    for (;;) {
        names += strspn(names, " \n");
        values += strspn(values, " \n");
        const size_t name_length = strcspn(names, " \n"), value_length = strcspn(values, " \n");
        if (!name_length || !value_length)
            return -1;
        if (name_length == length && !memcmp(names, name, length))
            return *values >= '0' && *values <= '9' ? strtoll(values, NULL, 10) : -1;
        names += name_length;
        values += value_length;
    }
}

/* Tables of two lines each, of names and of numbers; which there are, and in which order, is each kernel's affair. */
static void read_tables(FILE *tables, const struct wanted *wanted)
{
    char *names = NULL, *values = NULL; /* of any length: netstat's have thousands of bytes, and grow */
    size_t names_room = 0, values_room = 0;
    while (getline(&names, &names_room, tables) > 0 && getline(&values, &values_room, tables) > 0) {
        for (const struct wanted *each = wanted; each->table; each++) {
            const size_t length = strlen(each->table);
            if (!strncmp(names, each->table, length) && !strncmp(values, each->table, length))
                *each->count = value_under(each->name, names, values);
        }
    }
    free(names);
    free(values);
}

static void read_file(const char *path, const struct wanted *wanted)
{
    FILE *tables = fopen(path, "re");
    if (!tables)
        return;
    read_tables(tables, wanted);
    fclose(tables);
}

/* "eth0: 1514 1 0 ..." (proc_pid_net(5)): received bytes and packets come first, sent ones after six more. */
static void read_link(struct net_counters *counters, const char *link)
{
    FILE *table = fopen("/proc/self/net/dev", "re");
    if (!table)
        return;
    char line[LINE_BYTES];
    size_t length = strlen(link);
    while (fgets(line, sizeof line, table)) {
        const char *name = line + strspn(line, " ");
        if (strncmp(name, link, length) || name[length] != ':')
            continue;
        int64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
        if (sscanf(name + length + 1, "%" SCNd64 " %" SCNd64 " %*s %*s %*s %*s %*s %*s %" SCNd64 " %" SCNd64, &rx_bytes,
                   &rx_packets, &tx_bytes, &tx_packets) == 4) {
            counters->rx_bytes = rx_bytes;
            counters->rx_packets = rx_packets;
            counters->tx_bytes = tx_bytes;
            counters->tx_packets = tx_packets;
        }
        break;
    }
    fclose(table);
}

/* "Udp6InErrors    3": a line a count. */
static void add_ipv6(struct net_counters *counters)
{
    FILE *table = fopen("/proc/self/net/snmp6", "re");
    if (!table)
        return;
    char line[LINE_BYTES];
    int64_t errors;
    while (fgets(line, sizeof line, table))
        if (counters->udp_receive_errors >= 0 && sscanf(line, "Udp6InErrors %" SCNd64, &errors) == 1)
            counters->udp_receive_errors += errors;
    fclose(table);
}

struct net_counters net_counters_read(const char *link)
{
    struct net_counters counters = NET_COUNTERS_UNKNOWN;
    const struct wanted wanted[] = {
        {"Tcp:", "RetransSegs", &counters.tcp_retransmits},
        {"TcpExt:", "TCPSynRetrans", &counters.syn_retransmits},
        {"Udp:", "InErrors", &counters.udp_receive_errors}, /* has RcvbufErrors in it */
        {0},
    };
    if (link)
        read_link(&counters, link);
    read_file("/proc/self/net/snmp", wanted);
    read_file("/proc/self/net/netstat", wanted);
    add_ipv6(&counters);
    return counters;
}

int64_t net_counters_tcp_retransmits(void)
{
    int64_t count = -1;
    read_file("/proc/self/net/snmp", (const struct wanted[]){{"Tcp:", "RetransSegs", &count}, {0}});
    return count;
}

int64_t net_counters_growth(int64_t earlier, int64_t later)
{
    return earlier < 0 || later < 0 ? -1 : later - earlier;
}
