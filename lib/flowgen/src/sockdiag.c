#include "sockdiag.h"

#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Those of the kernel that a connection is in between its handshake and its end: who has sent all there was to send,
   and shut that side down, waits in FIN_WAIT1. */
enum { ESTABLISHED = 1, FIN_WAIT1 = 4, FIN_WAIT2 = 5, CLOSE_WAIT = 8, LAST_ACK = 9, CLOSING = 11 };

enum { DEPTH = 16, REPLY_BYTES = 64 * 1024, PATH_BYTES = 128 };

/* Socket inodes: how a process's descriptors and the kernel's table of connections are brought together. */
struct inodes {
    unsigned *list;
    size_t count, capacity;
};

static bool add(struct inodes *inodes, unsigned inode)
{
    if (inodes->count == inodes->capacity) {
        size_t capacity = inodes->capacity ? 2 * inodes->capacity : 64;
        unsigned *list = realloc(inodes->list, capacity * sizeof *list);
        if (!list)
            return false;
        inodes->list = list;
        inodes->capacity = capacity;
    }
    inodes->list[inodes->count++] = inode;
    return true;
}

static bool has(const struct inodes *inodes, unsigned inode)
{
    for (size_t i = 0; i < inodes->count; i++)
        if (inodes->list[i] == inode)
            return true;
    return false;
}

static void add_sockets_of(struct inodes *inodes, pid_t process)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)process);
    DIR *descriptors = opendir(folder);
    if (!descriptors)
        return;
    for (struct dirent *entry; (entry = readdir(descriptors));) {
        char target[PATH_BYTES];
        ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1);
        unsigned inode;
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (sscanf(target, "socket:[%u]", &inode) == 1 && !add(inodes, inode))
            break;
    }
    closedir(descriptors);
}

/* A workload may be a script that runs the program. A kernel without lists of children leaves the process alone. */
static void add_sockets_of_family(struct inodes *inodes, pid_t process, int depth)
{
    add_sockets_of(inodes, process);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *children = depth ? fopen(path, "re") : NULL;
    if (!children)
        return;
    for (int child; fscanf(children, "%d", &child) == 1;)
        add_sockets_of_family(inodes, child, depth - 1);
    fclose(children);
}

static bool ask(int diag, int family)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } message = {
        .header = {
            .nlmsg_len = sizeof message,
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
        },
        .request = {
            .sdiag_family = (uint8_t)family,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_ext = 1 << (INET_DIAG_INFO - 1),
            .idiag_states = 1 << ESTABLISHED | 1 << FIN_WAIT1 | 1 << FIN_WAIT2 | 1 << CLOSE_WAIT | 1 << LAST_ACK |
                            1 << CLOSING,
        },
    };
    return send(diag, &message, sizeof message, 0) == sizeof message;
}

/* The TCP_INFO in a message about one connection; false: it has none. Fields that this kernel lacks are zero. */
static bool find_info(const struct nlmsghdr *message, struct tcp_info *info)
{
    const struct inet_diag_msg *connection = NLMSG_DATA(message);
    int left = (int)message->nlmsg_len - (int)NLMSG_LENGTH(sizeof *connection);
    const struct rtattr *attribute = (const void *)((const char *)connection + NLMSG_ALIGN(sizeof *connection));
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        if (attribute->rta_type != INET_DIAG_INFO)
            continue;
        size_t length = RTA_PAYLOAD(attribute);
        *info = (struct tcp_info){0};
        memcpy(info, RTA_DATA(attribute), length < sizeof *info ? length : sizeof *info);
        return true;
    }
    return false;
}

static bool has_sent(const struct tcp_info *info)
{
    return info->tcpi_bytes_sent > 0 || info->tcpi_bytes_acked > 1; /* the SYN counts as one acknowledged */
}

/* Takes in the answer; adds to *sum, which is -1 before the first connection. */
static void take_answer(int diag, const struct inodes *inodes, int64_t *sum)
{
    static _Alignas(struct nlmsghdr) char reply[REPLY_BYTES];
    for (;;) {
        ssize_t received = recv(diag, reply, sizeof reply, 0);
        if (received <= 0)
            return;
        unsigned left = (unsigned)received;
        for (struct nlmsghdr *message = (void *)reply; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
            struct tcp_info info;
            if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
                return;
            if (!has(inodes, ((struct inet_diag_msg *)NLMSG_DATA(message))->idiag_inode))
                continue;
            if (find_info(message, &info) && has_sent(&info))
                *sum = (*sum < 0 ? 0 : *sum) + info.tcpi_total_retrans;
        }
    }
}

int64_t sockdiag_retransmits(pid_t process)
{
    struct inodes inodes = {0};
    add_sockets_of_family(&inodes, process, DEPTH);
    int64_t sum = -1;
    int diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (diag >= 0) {
        const int families[] = {AF_INET, AF_INET6};
        for (size_t i = 0; i < sizeof families / sizeof *families; i++)
            if (ask(diag, families[i]))
                take_answer(diag, &inodes, &sum);
        close(diag);
    }
    free(inodes.list);
    return sum;
}
