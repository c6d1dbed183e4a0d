/* What the kernel has counted in this network namespace since it was made. */
#ifndef FLOWGEN_NETCOUNTERS_H
#define FLOWGEN_NETCOUNTERS_H

#include <stdint.h>

/* -1: the kernel does not say. */
struct net_counters {
    int64_t tcp_retransmits;     /* segments, of all connections */
    int64_t syn_retransmits;     /* those of them that were to open one: SYN, and a server's SYN and ACK */
    int64_t udp_receive_errors;  /* datagrams that came and were not delivered; a full receive buffer is one reason */
    int64_t rx_bytes, rx_packets, tx_bytes, tx_packets; /* of one link, with its link-layer headers */
};

/* All unknown. */
extern const struct net_counters NET_COUNTERS_UNKNOWN;

/* Reads /proc/self/net/snmp and netstat (proc_pid_net(5)), and dev for this link (NULL: none); follows setns(). */
struct net_counters net_counters_read(const char *link);

/* The first of these alone, from snmp alone; -1: unknown. */
int64_t net_counters_tcp_retransmits(void);

/* later - earlier, or -1 where either is unknown. */
int64_t net_counters_growth(int64_t earlier, int64_t later);

#endif
