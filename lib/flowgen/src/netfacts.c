#include "netfacts.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "qdiscs.h"

static const char *const settings[] = {
    "tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_timestamps", "tcp_sack", "tcp_ecn",
};

/* The get commands of ethtool's first interface: every kernel and every driver still answers them. */
static const struct offload {
    const char *key;
    uint32_t command;
} offloads[] = {
    {"tx_checksum", ETHTOOL_GTXCSUM}, {"rx_checksum", ETHTOOL_GRXCSUM}, {"scatter_gather", ETHTOOL_GSG},
    {"tso", ETHTOOL_GTSO},            {"gso", ETHTOOL_GGSO},            {"gro", ETHTOOL_GGRO},
};

static void add_setting(struct json *json, const char *name)
{
    char path[128], text[256];
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file)) {
        json_null(json, name);
    } else {
        for (char *c = text; *c; c++)
            if (*c == '\t')
                *c = ' ';
        text[strcspn(text, "\n")] = '\0';
        json_text(json, name, text);
    }
    if (file)
        fclose(file);
}

static void add_offload(struct json *json, int fd, const char *link, const struct offload *offload)
{
    struct ethtool_value value = {.cmd = offload->command};
    struct ifreq request = {.ifr_data = (char *)&value};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", link);
    if (ioctl(fd, SIOCETHTOOL, &request))
        json_null(json, offload->key);
    else
        json_integer(json, offload->key, value.data);
}

static void add_qdiscs(struct json *json, unsigned link_index)
{
    struct qdiscs found = qdiscs_of(link_index);
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, found.options_hash);
    json_text(json, "qdiscs", found.kinds);
    json_text(json, "qdisc_options_hash", hash);
}

bool netfacts_add(struct json *json, const char *link)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", link);
    if (ioctl(fd, SIOCGIFMTU, &request)) {
        int why = errno;
        close(fd);
        errno = why;
        return false;
    }
    json_text(json, "link", link);
    json_integer(json, "mtu_bytes", (uint64_t)request.ifr_mtu);
    for (size_t i = 0; i < sizeof offloads / sizeof *offloads; i++)
        add_offload(json, fd, link, &offloads[i]);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        add_setting(json, settings[i]);
    add_qdiscs(json, if_nametoindex(link));
    close(fd);
    return true;
}
