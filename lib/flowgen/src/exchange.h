/* Traffic's flows on the connections that are kept to its servers: who is asked, who waits, what comes. */
#ifndef FLOWGEN_EXCHANGE_H
#define FLOWGEN_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "flowrecords.h"
#include "schedule.h"
#include "token.h"

struct exchange_plan {
    union address server[MOST_SERVERS];
    size_t servers;
    size_t connections;       /* to each server, with a flow on each at a time; others wait */
    struct token token;
    bool closed_loop;
    size_t requests_at_once;  /* of a closed loop */
    uint64_t duration_ns;     /* of a closed loop: no request begins later; 0: by their number */
    uint64_t within_ns;       /* when so long has passed, all that is under way fails, and nothing begins; 0: ever */
    uint64_t limit_ns;        /* when so long no request has begun, and none is to come by itself, flows have failed */
};

struct exchanged {
    uint64_t connected_ns, begin_ns;
    uint64_t end_ns;          /* when the last flow was complete; 0: none was */
    uint64_t requests, flows, failed_flows;
    uint64_t flow_bytes;      /* of flows that were complete */
    uint64_t waited_flows;    /* that found all connections busy */
    uint64_t most_at_once;    /* flows under way */
    uint64_t late_ns;         /* the most that a flow was asked for later than it was due */
    int first_error;          /* errno of the first flow that failed; 0: none */
    unsigned first_error_server;
    bool all_servers_gone;    /* before all requests had begun */
};

/* Connects to all servers, then makes the flows of the schedule, and returns when they have ended or failed. Ends the
   program where a server cannot be reached. */
void exchange_run(struct exchanged *result, const struct exchange_plan *plan, struct schedule *schedule,
                  struct flow_records *records);

#endif
