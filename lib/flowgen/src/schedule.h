/* Which request comes when, of what size, and whom it asks: drawn from one seed, the same each time. */
#ifndef FLOWGEN_SCHEDULE_H
#define FLOWGEN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"
#include "sizes.h"

enum { MOST_SERVERS = 16, MOST_REQUESTS = 100000000 };

/* Numbers with weights. */
struct weighted {
    size_t count;
    unsigned value[MOST_SERVERS];
    double weight[MOST_SERVERS];
};

struct schedule_plan {
    const struct sizes *sizes;
    size_t servers;
    struct weighted fan_outs; /* value: how many servers a request asks at once, no more than there are */
    uint64_t seed;
    double load_bps;          /* 0: a closed loop, whose requests have no time of their own */
    bool fixed_gaps;          /* else a Poisson process */
    uint64_t requests;        /* 0: as many as fill duration_s at this load; of a closed loop any number */
    double duration_s;
};

struct schedule {
    const struct schedule_plan *plan;
    struct random sizes, fan_outs, servers, gaps;
    uint64_t requests, next;  /* requests 0: a closed loop that time ends */
    double span_s;            /* at the asked load, all that is drawn takes so long; 0 of a closed loop */
    double gaps_sum, gaps_so_far;
};

struct asked {
    uint64_t number;          /* of the request, from 0 */
    double at_s;              /* from the beginning */
    uint64_t flow_bytes;      /* of each of its flows, which share its size */
    size_t flows;
    unsigned server[MOST_SERVERS];
};

/* Draws all once, to know how long it takes: a few sizes in a thousand have most of the bytes, so that by the mean size
   alone the load of half a minute would be several percent off. Arrivals are those of a Poisson process of which the
   number in that time is known: uniform in it, independent of each other. */
void schedule_begin(struct schedule *schedule, const struct schedule_plan *plan);

/* False: there are no more. */
bool schedule_next(struct schedule *schedule, struct asked *asked);

#endif
