/* The UDP side of a server: counts what arrived of each flow, and reports it to the client at the end. */
#ifndef FLOWGEN_UDPSERVER_H
#define FLOWGEN_UDPSERVER_H

#include <stdint.h>

#include "address.h"
#include "token.h"

struct udp_server;

/* Binds the address, or ends the program. Datagrams without this token are dropped. */
struct udp_server *udp_server_open(const union address *address, const struct token *token);

/* Readable when there is something to receive. */
int udp_server_socket(const struct udp_server *server);

/* Takes what is there, up to some number of datagrams; prints a line for each flow that ended. */
void udp_server_receive(struct udp_server *server);

/* Prints a line, with an error, for each flow that has not ended. Returns how many datagrams had another token. */
uint64_t udp_server_close(struct udp_server *server);

#endif
