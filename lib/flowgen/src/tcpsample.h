/* A TCP connection's state from the kernel (TCP_INFO), in base units. */
#ifndef FLOWGEN_TCPSAMPLE_H
#define FLOWGEN_TCPSAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct tcp_sample {
    bool counts_acked;     /* Linux 4.1 and later */
    uint64_t bytes_acked;  /* since the connection was made, and the SYN counts as one */
    uint32_t retransmits;  /* segments, since the connection was made */
    double rtt_s, rtt_var_s, min_rtt_s, cwnd_bytes, mss_bytes, delivery_rate_bps; /* NAN: unknown */
};

struct tcp_sample tcp_sample(int socket);

#endif
