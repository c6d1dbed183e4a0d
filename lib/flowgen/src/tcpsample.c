#include "tcpsample.h"

/* The kernel's header, not <netinet/tcp.h>: that of musl and of older glibc ends before the fields wanted here. */
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

/* A kernel returns the part of the struct that it has: whether this field is in it. */
#define HAS(field) (length >= offsetof(struct tcp_info, field) + sizeof info.field)

struct tcp_sample tcp_sample(int socket)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    struct tcp_sample sample = {
        .rtt_s = NAN, .rtt_var_s = NAN, .min_rtt_s = NAN, .cwnd_bytes = NAN, .mss_bytes = NAN,
        .delivery_rate_bps = NAN,
    };
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
        return sample;

    if (HAS(tcpi_snd_cwnd)) {
        sample.rtt_s = info.tcpi_rtt / 1e6;
        sample.rtt_var_s = info.tcpi_rttvar / 1e6;
        sample.mss_bytes = info.tcpi_snd_mss;
        sample.cwnd_bytes = (double)info.tcpi_snd_cwnd * info.tcpi_snd_mss;
    }
    if (HAS(tcpi_total_retrans))
        sample.retransmits = info.tcpi_total_retrans;
    if (HAS(tcpi_bytes_acked)) {
        sample.counts_acked = true;
        sample.bytes_acked = info.tcpi_bytes_acked;
    }
    /* All ones, and a rate of zero, are how the kernel says it has not measured yet. */
    if (HAS(tcpi_min_rtt) && info.tcpi_min_rtt != UINT32_MAX)
        sample.min_rtt_s = info.tcpi_min_rtt / 1e6;
    if (HAS(tcpi_delivery_rate) && info.tcpi_delivery_rate)
        sample.delivery_rate_bps = (double)info.tcpi_delivery_rate * 8;
    return sample;
}
