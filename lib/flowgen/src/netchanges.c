#include "netchanges.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENT_BYTES = 32 * 1024 };

int netchanges_begin(void)
{
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl groups = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_TC | RTMGRP_IPV4_IFADDR,
    };
    if (netlink >= 0 && bind(netlink, (const struct sockaddr *)&groups, sizeof groups)) {
        close(netlink);
        return -1;
    }
    return netlink;
}

static bool is_of(const struct nlmsghdr *message, size_t bytes, int link_index, int its_index)
{
    return message->nlmsg_len >= NLMSG_LENGTH(bytes) && its_index == link_index;
}

/* Other news of a link, such as that somebody captures its packets, are no change. */
static bool is_change(const struct nlmsghdr *message, int link_index)
{
    const void *data = NLMSG_DATA(message);
    const struct ifinfomsg *link = data;
    const struct ifaddrmsg *address = data;
    const struct tcmsg *queue = data;
    switch (message->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        return is_of(message, sizeof *link, link_index, link->ifi_index) &&
               (message->nlmsg_type == RTM_DELLINK || !(link->ifi_flags & IFF_UP));
    case RTM_DELADDR: /* one that is there already is announced again where its lease is renewed */
        return is_of(message, sizeof *address, link_index, (int)address->ifa_index);
    case RTM_NEWQDISC:
    case RTM_DELQDISC:
    case RTM_NEWTCLASS:
    case RTM_DELTCLASS:
    case RTM_NEWTFILTER:
    case RTM_DELTFILTER:
        return is_of(message, sizeof *queue, link_index, queue->tcm_ifindex);
    default:
        return false;
    }
}

int64_t netchanges_end(int netlink, unsigned link_index)
{
    if (netlink < 0)
        return -1;
    int64_t changes = 0;
    _Alignas(struct nlmsghdr) char events[EVENT_BYTES];
    ssize_t received;
    while ((received = recv(netlink, events, sizeof events, 0)) > 0 || errno == ENOBUFS || errno == EINTR) {
        if (received <= 0) {
            changes += errno == ENOBUFS; /* so many that the kernel had no room for them */
            continue;
        }
        unsigned left = (unsigned)received;
        const struct nlmsghdr *message = (const void *)events;
        for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
            changes += is_change(message, (int)link_index);
    }
    close(netlink);
    return changes;
}
