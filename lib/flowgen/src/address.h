/* IPv4 addresses as text. Names are not resolved: a static binary has no resolver, and a testbed has no DNS. */
#ifndef FLOWGEN_ADDRESS_H
#define FLOWGEN_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

enum { ADDRESS_TEXT = INET_ADDRSTRLEN + sizeof ":65535" };

bool address_parse(struct sockaddr_in *address, const char *host, long port);

/* "10.77.0.2:5001" */
bool address_parse_pair(struct sockaddr_in *address, const char *text);
void address_format(const struct sockaddr_in *address, char text[ADDRESS_TEXT]);

#endif
