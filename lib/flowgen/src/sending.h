/* Flows from the server to its client. The client connects and sends an order, after the token where there is one; the
   server sends by it, in a thread for each, and reports as a client does of what it sends itself. Both are of one build,
   on hosts of one byte order. */
#ifndef FLOWGEN_SENDING_H
#define FLOWGEN_SENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcpflow.h"

enum { ORDER_MAGIC_BYTES = 8 };

struct send_order {
    char magic[ORDER_MAGIC_BYTES];
    uint32_t flow, write_bytes;
    uint64_t duration_ns, finite_bytes, limit_ns, interval_ns;
    char congestion[CONGESTION_NAME]; /* empty: the kernel's default */
};

struct send_order order_of(const struct tcp_plan *plan, uint32_t number);

/* What has come of a connection that may begin with an order. All zeros before. */
struct ordering {
    struct send_order order;
    size_t come;
    bool none; /* it began with something else */
};

enum ordered { ORDER_INCOMPLETE, ORDER_NONE, ORDER_COMPLETE };

/* Takes the next bytes of a connection. */
enum ordered ordering_take(struct ordering *ordering, const char *data, size_t length);

/* Sends by that order, from now on, in a thread; the socket is then the thread's. False: it cannot be carried out. */
bool sending_start(int socket, const struct send_order *order, uint64_t accept_ns);

/* Ends all that is being sent, and waits until each is reported. */
void sending_stop(void);

/* The client's part. bytes: received. ended: the server had no more to send. */
struct received_flow {
    struct tcp_flow tcp;
    uint64_t connected_ns, first_ns, last_ns, bytes;
    bool ended;
};

/* Asks for that flow, and receives it to its end; false: flow->tcp.error says why. flow is all zeros before. */
bool receive_flow(struct received_flow *flow, const struct tcp_plan *plan, uint32_t number);

#endif
