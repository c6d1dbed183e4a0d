#include "qdiscs.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY_BYTES = 32 * 1024 };

/* FNV-1a. */
static uint64_t hash(uint64_t before, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        before = (before ^ bytes[i]) * 0x100000001b3;
    return before;
}

static void add(struct qdiscs *found, const struct nlmsghdr *message, unsigned link_index)
{
    const struct tcmsg *qdisc = NLMSG_DATA(message);
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *qdisc) || qdisc->tcm_ifindex != (int)link_index)
        return;
    int left = (int)(message->nlmsg_len - NLMSG_LENGTH(sizeof *qdisc));
    const struct rtattr *attribute = TCA_RTA(qdisc);
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        size_t length = RTA_PAYLOAD(attribute), known = strlen(found->kinds);
        if (attribute->rta_type == TCA_KIND && known + length + 2 <= sizeof found->kinds) {
            if (known)
                found->kinds[known++] = ' ';
            memcpy(found->kinds + known, RTA_DATA(attribute), length);
            found->kinds[known + length] = '\0';
        }
        if (attribute->rta_type == TCA_OPTIONS)
            found->options_hash = hash(found->options_hash, RTA_DATA(attribute), length);
    }
}

/* Takes in one datagram of the kernel's answer; false: it was the last. */
static bool read_part(int netlink, struct qdiscs *found, unsigned link_index)
{
    _Alignas(struct nlmsghdr) char reply[REPLY_BYTES];
    ssize_t received = recv(netlink, reply, sizeof reply, 0);
    if (received <= 0)
        return false;
    unsigned left = (unsigned)received;
    const struct nlmsghdr *message = (const void *)reply;
    for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
        if (message->nlmsg_type != RTM_NEWQDISC)
            return false;
        add(found, message, link_index);
    }
    return true;
}

struct qdiscs qdiscs_of(unsigned link_index)
{
    struct qdiscs found = {.options_hash = 0xcbf29ce484222325};
    struct {
        struct nlmsghdr header;
        struct tcmsg qdisc;
    } message = {
        .header = {.nlmsg_len = sizeof message, .nlmsg_type = RTM_GETQDISC, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .qdisc = {.tcm_family = AF_UNSPEC, .tcm_ifindex = (int)link_index},
    };
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0)
        return found;
    if (send(netlink, &message, sizeof message, 0) == sizeof message)
        while (read_part(netlink, &found, link_index))
            ;
    close(netlink);
    return found;
}
