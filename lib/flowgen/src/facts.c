/* facts: what this network namespace looks like to TCP: its settings, and the offloads of one link. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "commands.h"
#include "errors.h"
#include "json.h"
#include "options.h"

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

int facts_main(char **arguments)
{
    const char *link = NULL;
    struct option options[] = {
        {.name = "--link", .kind = OPTION_TEXT, .value = &link, .required = true},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("facts takes no command");
    if (strlen(link) >= IFNAMSIZ)
        die_usage("--link '%s' is too long for the name of a link (%d bytes at most)", link, IFNAMSIZ - 1);

    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("no socket to ask about '%s' with: %s", link, strerror(errno));
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", link);
    if (ioctl(fd, SIOCGIFMTU, &request))
        die("cannot describe link '%s': %s; `ip link` lists those there are", link, strerror(errno));

    struct json json;
    json_begin(&json, "facts");
    json_text(&json, "link", link);
    json_integer(&json, "mtu_bytes", (uint64_t)request.ifr_mtu);
    for (size_t i = 0; i < sizeof offloads / sizeof *offloads; i++)
        add_offload(&json, fd, link, &offloads[i]);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        add_setting(&json, settings[i]);
    close(fd);
    return json_print(&json, stdout) ? 0 : STATUS_FAILED;
}
