#include "schedule.h"

#include <math.h>

#include "errors.h"

enum { STREAM_SIZES, STREAM_FAN_OUTS, STREAM_SERVERS, STREAM_GAPS };

static size_t draw_index(const struct weighted *weighted, struct random *random)
{
    double sum = 0;
    for (size_t i = 0; i < weighted->count; i++)
        sum += weighted->weight[i];
    double left = random_share(random) * sum;
    size_t drawn = 0;
    for (size_t i = 0; i < weighted->count; i++) {
        if (weighted->weight[i] <= 0)
            continue;
        drawn = i;
        left -= weighted->weight[i];
        if (left <= 0)
            break;
    }
    return drawn;
}

static void draw_sizes(struct schedule *schedule, struct asked *asked)
{
    const struct weighted *fan_outs = &schedule->plan->fan_outs;
    uint64_t request_bytes = sizes_draw(schedule->plan->sizes, &schedule->sizes);
    asked->flows = fan_outs->value[draw_index(fan_outs, &schedule->fan_outs)];
    asked->flow_bytes = (request_bytes + asked->flows - 1) / asked->flows;
}

/* Each server once. */
static void draw_servers(struct schedule *schedule, struct asked *asked)
{
    struct weighted left = {.count = schedule->plan->servers};
    for (unsigned i = 0; i < left.count; i++) {
        left.value[i] = i;
        left.weight[i] = 1;
    }
    for (size_t i = 0; i < asked->flows; i++) {
        size_t drawn = draw_index(&left, &schedule->servers);
        asked->server[i] = left.value[drawn];
        left.value[drawn] = left.value[--left.count];
    }
}

static double draw_gap(struct schedule *schedule)
{
    return schedule->plan->fixed_gaps ? 1 : -log(random_share(&schedule->gaps));
}

static void rewind_streams(struct schedule *schedule)
{
    uint64_t seed = schedule->plan->seed;
    schedule->sizes = random_from(seed, STREAM_SIZES);
    schedule->fan_outs = random_from(seed, STREAM_FAN_OUTS);
    schedule->servers = random_from(seed, STREAM_SERVERS);
    schedule->gaps = random_from(seed, STREAM_GAPS);
}

void schedule_begin(struct schedule *schedule, const struct schedule_plan *plan)
{
    *schedule = (struct schedule){.plan = plan, .requests = plan->requests};
    rewind_streams(schedule);
    if (plan->load_bps <= 0)
        return;
    double bits = 0;
    uint64_t requests = 0;
    while (plan->requests ? requests < plan->requests : bits < plan->duration_s * plan->load_bps) {
        struct asked asked;
        if (requests == MOST_REQUESTS)
            die("%g s at this --load take more than %d requests; choose a shorter --duration", plan->duration_s,
                MOST_REQUESTS);
        draw_sizes(schedule, &asked);
        bits += 8.0 * (double)asked.flow_bytes * (double)asked.flows;
        schedule->gaps_sum += draw_gap(schedule);
        requests++;
    }
    if (!plan->fixed_gaps)
        schedule->gaps_sum += draw_gap(schedule); /* from the last request to the end */
    schedule->requests = requests;
    schedule->span_s = bits / plan->load_bps;
    rewind_streams(schedule);
}

bool schedule_next(struct schedule *schedule, struct asked *asked)
{
    if (schedule->requests && schedule->next == schedule->requests)
        return false;
    asked->number = schedule->next++;
    draw_sizes(schedule, asked);
    draw_servers(schedule, asked);
    asked->at_s = 0;
    if (schedule->span_s > 0) {
        bool first_of_fixed = schedule->plan->fixed_gaps && asked->number == 0;
        schedule->gaps_so_far += first_of_fixed ? 0 : draw_gap(schedule);
        asked->at_s = schedule->span_s * (schedule->gaps_so_far / schedule->gaps_sum);
    }
    return true;
}
