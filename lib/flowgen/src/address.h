/* IPv4 and IPv6 addresses as text. Names are not resolved: a static binary has no resolver, and a testbed has no DNS. */
#ifndef FLOWGEN_ADDRESS_H
#define FLOWGEN_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The port has the same place in both. The kernel takes the size of the whole for either. */
union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

enum { ADDRESS_TEXT = INET6_ADDRSTRLEN + sizeof "[]:65535" };

bool address_parse(union address *address, const char *host, long port);

/* "10.77.0.2:5001", "[fd00::2]:5001" */
bool address_parse_pair(union address *address, const char *text);
void address_format(const union address *address, char text[ADDRESS_TEXT]);
bool address_equal(const union address *one, const union address *other);
uint32_t address_host(const union address *address);

#endif
