#include "address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port), "one place of ports");

bool address_parse(union address *address, const char *host, long port)
{
    bool v6 = strchr(host, ':');
    memset(address, 0, sizeof *address);
    address->any.sa_family = v6 ? AF_INET6 : AF_INET;
    address->v4.sin_port = htons((uint16_t)port);
    return inet_pton(address->any.sa_family, host, v6 ? (void *)&address->v6.sin6_addr : &address->v4.sin_addr) == 1;
}

bool address_parse_pair(union address *address, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (!colon)
        return false;
    bool bracketed = text[0] == '[' && colon - text >= 2 && colon[-1] == ']';
    const char *from = text + bracketed;
    size_t size = (size_t)(colon - bracketed - from);
    char host[INET6_ADDRSTRLEN];
    if (size >= sizeof host)
        return false;
    memcpy(host, from, size);
    host[size] = '\0';
    if (bracketed != !!strchr(host, ':'))
        return false;

    const char *digits = colon + 1;
    size_t length = strlen(digits);
    if (length < 1 || length > 5 || strspn(digits, "0123456789") != length)
        return false;
    long port = strtol(digits, NULL, 10);
    return port >= 1 && port <= 65535 && address_parse(address, host, port);
}

void address_format(const union address *address, char text[ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool v6 = address->any.sa_family == AF_INET6;
    inet_ntop(v6 ? AF_INET6 : AF_INET, v6 ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr, host, sizeof host);
    snprintf(text, ADDRESS_TEXT, v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)ntohs(address->v4.sin_port));
}

bool address_equal(const union address *one, const union address *other)
{
    if (one->any.sa_family != other->any.sa_family || one->v4.sin_port != other->v4.sin_port)
        return false;
    if (one->any.sa_family == AF_INET6)
        return !memcmp(&one->v6.sin6_addr, &other->v6.sin6_addr, sizeof one->v6.sin6_addr);
    return one->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr;
}

/* The last 32 bits of the host's address, in which hosts of one network differ. */
uint32_t address_host(const union address *address)
{
    uint32_t host = address->v4.sin_addr.s_addr;
    if (address->any.sa_family == AF_INET6)
        memcpy(&host, &address->v6.sin6_addr.s6_addr[12], sizeof host);
    return ntohl(host);
}
