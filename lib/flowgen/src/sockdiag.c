#include "sockdiag.h"

#include <dirent.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monotonic.h"

/* Those of the kernel that a connection is in between its handshake and its end: who has sent all there was to send,
   and shut that side down, waits in FIN_WAIT1. */
enum { ESTABLISHED = 1, FIN_WAIT1 = 4, FIN_WAIT2 = 5, CLOSE_WAIT = 8, LAST_ACK = 9, CLOSING = 11 };

enum { DEPTH = 16, REPLY_BYTES = 64 * 1024, PATH_BYTES = 128, PATIENCE_MS = 50 };

static const uint64_t LONGEST_NS = NS_PER_S; /* others' connections may end all the time */

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
            .idiag_ext = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1),
            .idiag_states = 1 << ESTABLISHED | 1 << FIN_WAIT1 | 1 << FIN_WAIT2 | 1 << CLOSE_WAIT | 1 << LAST_ACK |
                            1 << CLOSING,
        },
    };
    return send(diag, &message, sizeof message, 0) == sizeof message;
}

/* What the kernel says of one connection. Fields of TCP_INFO that it lacks are zero. */
struct state {
    struct tcp_info info;
    char congestion[SOCKDIAG_NAME_BYTES]; /* empty: not said */
};

/* Reads a message about one connection; false: it has no TCP_INFO. */
static bool read_state(const struct nlmsghdr *message, struct state *state)
{
    bool known = false;
    *state = (struct state){0};
    const struct inet_diag_msg *connection = NLMSG_DATA(message);
    int left = (int)message->nlmsg_len - (int)NLMSG_LENGTH(sizeof *connection);
    const struct rtattr *attribute = (const void *)((const char *)connection + NLMSG_ALIGN(sizeof *connection));
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        size_t length = RTA_PAYLOAD(attribute);
        if (attribute->rta_type == INET_DIAG_INFO) {
            memcpy(&state->info, RTA_DATA(attribute), length < sizeof state->info ? length : sizeof state->info);
            known = true;
        } else if (attribute->rta_type == INET_DIAG_CONG && length < sizeof state->congestion) {
            memcpy(state->congestion, RTA_DATA(attribute), length);
        }
    }
    return known;
}

static bool has_sent(const struct tcp_info *info)
{
    return info->tcpi_bytes_sent > 0 || info->tcpi_bytes_acked > 1; /* the SYN counts as one acknowledged */
}

/* One connection, and its last known state. */
struct connection {
    uint32_t cookie[2]; /* the kernel's id of it: its inode goes with its process */
    uint32_t retransmits;
    bool seen_again; /* since the process has ended */
};

struct sockdiag {
    int ends; /* where the kernel reports ended connections; -1: it does not */
    struct inodes inodes;
    struct connection *list;
    size_t count, capacity;
    char *congestion; /* as sockdiag_begin was given it; NULL: it has returned */
};

static struct connection *find(const struct sockdiag *diag, const uint32_t *cookie)
{
    for (size_t i = 0; i < diag->count; i++)
        if (!memcmp(diag->list[i].cookie, cookie, sizeof diag->list[i].cookie))
            return &diag->list[i];
    return NULL;
}

static void note_connection(struct sockdiag *diag, const struct inet_diag_msg *message, const struct state *state)
{
    if (!has(&diag->inodes, message->idiag_inode) || !has_sent(&state->info))
        return;
    if (!*diag->congestion)
        strcpy(diag->congestion, state->congestion);
    else if (strcmp(diag->congestion, state->congestion) != 0)
        strcpy(diag->congestion, SOCKDIAG_SEVERAL);
    if (diag->count == diag->capacity) {
        size_t capacity = diag->capacity ? 2 * diag->capacity : 16;
        struct connection *list = realloc(diag->list, capacity * sizeof *list);
        if (!list)
            return;
        diag->list = list;
        diag->capacity = capacity;
    }
    struct connection *connection = &diag->list[diag->count++];
    *connection = (struct connection){.retransmits = state->info.tcpi_total_retrans};
    memcpy(connection->cookie, message->id.idiag_cookie, sizeof connection->cookie);
}

static void update_connection(struct sockdiag *diag, const struct inet_diag_msg *message, const struct state *state)
{
    struct connection *connection = find(diag, message->id.idiag_cookie);
    if (!connection)
        return;
    connection->retransmits = state->info.tcpi_total_retrans;
    connection->seen_again = true;
}

typedef void take(struct sockdiag *diag, const struct inet_diag_msg *message, const struct state *state);

/* Takes what is in one packet; false: it was the last of an answer, or there is none. */
static bool take_packet(struct sockdiag *diag, int from, int flags, take *take)
{
    static _Alignas(struct nlmsghdr) char packet[REPLY_BYTES];
    ssize_t received = recv(from, packet, sizeof packet, flags);
    if (received <= 0)
        return false;
    unsigned left = (unsigned)received;
    for (struct nlmsghdr *message = (void *)packet; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
        struct state state;
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
            return false;
        if (message->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)) && read_state(message, &state))
            take(diag, NLMSG_DATA(message), &state);
    }
    return true;
}

static int diag_socket(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

static void take_connections(struct sockdiag *diag, take *take)
{
    const int families[] = {AF_INET, AF_INET6};
    int table = diag_socket();
    if (table < 0)
        return;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (ask(table, families[i]))
            while (take_packet(diag, table, 0, take)) {
            }
    close(table);
}

/* Where the kernel reports each connection of this namespace that ends, with its last TCP_INFO; or -1. */
static int listen_to_ends(void)
{
    const int group = SKNLGRP_INET_TCP_DESTROY, much = 8 << 20;
    int ends = diag_socket();
    if (ends < 0)
        return -1;
    if (setsockopt(ends, SOL_SOCKET, SO_RCVBUFFORCE, &much, sizeof much) < 0) /* root's only */
        setsockopt(ends, SOL_SOCKET, SO_RCVBUF, &much, sizeof much);
    struct sockaddr_nl here = {.nl_family = AF_NETLINK};
    if (bind(ends, (struct sockaddr *)&here, sizeof here) == 0 &&
        setsockopt(ends, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0)
        return ends;
    close(ends);
    return -1;
}

static bool all_seen_again(const struct sockdiag *diag)
{
    for (size_t i = 0; i < diag->count; i++)
        if (!diag->list[i].seen_again)
            return false;
    return true;
}

struct sockdiag *sockdiag_begin(pid_t process, char congestion[SOCKDIAG_NAME_BYTES])
{
    *congestion = '\0';
    struct sockdiag *diag = calloc(1, sizeof *diag);
    if (!diag)
        return NULL;
    diag->ends = listen_to_ends(); /* before looking, so that none ends unseen between the two */
    add_sockets_of_family(&diag->inodes, process, DEPTH);
    diag->congestion = congestion;
    take_connections(diag, note_connection);
    diag->congestion = NULL;
    return diag;
}

int64_t sockdiag_end(struct sockdiag *diag)
{
    /* Connections that still deliver data are in the table. Ended ones the kernel reports a moment later. */
    take_connections(diag, update_connection);
    struct pollfd source = {.fd = diag->ends, .events = POLLIN};
    uint64_t give_up_ns = monotonic_ns() + LONGEST_NS;
    while (diag->ends >= 0 && !all_seen_again(diag) && monotonic_ns() < give_up_ns && poll(&source, 1, PATIENCE_MS) > 0)
        if (!take_packet(diag, diag->ends, MSG_DONTWAIT, update_connection) && errno != ENOBUFS)
            break;
    int64_t sum = diag->count ? 0 : -1;
    for (size_t i = 0; i < diag->count; i++)
        sum += diag->list[i].retransmits;
    if (diag->ends >= 0)
        close(diag->ends);
    free(diag->inodes.list);
    free(diag->list);
    free(diag);
    return sum;
}
