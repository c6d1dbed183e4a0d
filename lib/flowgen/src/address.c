#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool address_parse(struct sockaddr_in *address, const char *host, long port)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

bool address_parse_pair(struct sockaddr_in *address, const char *text)
{
    const char *colon = strchr(text, ':');
    char host[INET_ADDRSTRLEN];
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';

    const char *digits = colon + 1;
    size_t length = strlen(digits);
    if (length < 1 || length > 5 || strspn(digits, "0123456789") != length)
        return false;
    long port = strtol(digits, NULL, 10);
    return port >= 1 && port <= 65535 && address_parse(address, host, port);
}

void address_format(const struct sockaddr_in *address, char text[ADDRESS_TEXT])
{
    char host[INET_ADDRSTRLEN] = "?";
    inet_ntop(AF_INET, &address->sin_addr, host, sizeof host);
    snprintf(text, ADDRESS_TEXT, "%s:%u", host, (unsigned)ntohs(address->sin_port));
}
