/* What the kernel has counted in this network namespace since it was made. */
#ifndef FLOWGEN_NETCOUNTERS_H
#define FLOWGEN_NETCOUNTERS_H

#include <stdint.h>

/* -1: the kernel does not say. */
struct net_counters {
    int64_t tcp_retransmits;     /* segments, of all connections */
    int64_t udp_receive_errors;  /* datagrams that came and were not delivered; a full receive buffer is one reason */
};

/* Reads /proc/self/net/snmp (proc_net_snmp(5)); follows setns(). */
struct net_counters net_counters_read(void);

/* later - earlier, or -1 where either is not known. */
int64_t net_counters_growth(int64_t earlier, int64_t later);

#endif
