#include "netcounters.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024 };

/* "Tcp: RtoAlgorithm RtoMin ..." over "Tcp: 1 200 ...": the number under that name; -1: there is none. */
static int64_t value_under(const char *name, char *names, char *values)
{
    char *names_left, *values_left;
    char *column = strtok_r(names, " \n", &names_left);
    char *value = strtok_r(values, " \n", &values_left);
    while (column && value) {
        if (!strcmp(column, name))
            return strtoll(value, NULL, 10);
        column = strtok_r(NULL, " \n", &names_left);
        value = strtok_r(NULL, " \n", &values_left);
    }
    return -1;
}

struct net_counters net_counters_read(void)
{
    struct net_counters counters = {-1, -1};
    FILE *table = fopen("/proc/self/net/snmp", "re");
    if (!table)
        return counters;
    char names[LINE_BYTES], values[LINE_BYTES];
    while (fgets(names, sizeof names, table) && fgets(values, sizeof values, table)) {
        if (!strncmp(names, "Tcp:", 4))
            counters.tcp_retransmits = value_under("RetransSegs", names, values);
        else if (!strncmp(names, "Udp:", 4))
            counters.udp_receive_errors = value_under("InErrors", names, values); /* has RcvbufErrors in it */
    }
    fclose(table);
    return counters;
}

int64_t net_counters_growth(int64_t earlier, int64_t later)
{
    return earlier < 0 || later < 0 ? -1 : later - earlier;
}
