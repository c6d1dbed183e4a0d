/* traffic: flows of sizes from a CDF, asked of servers with --answer: at a load, or one request after the other. */
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "commands.h"
#include "descriptors.h"
#include "errors.h"
#include "exchange.h"
#include "flowrecords.h"
#include "json.h"
#include "monotonic.h"
#include "options.h"
#include "schedule.h"
#include "sizes.h"

enum { MOST_CONNECTIONS = 10000, MOST_AT_ONCE = 100000 };

_Static_assert((int)MOST_SERVERS == (int)MAX_TEXTS, "each server is one option");

/* "VALUE=WEIGHT" or "VALUE", whose weight is 1; the value is copied into `value`. */
static double split_weight(const char *text, char *value, size_t room)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    char *end = NULL;
    double weight = equals ? strtod(equals + 1, &end) : 1;
    bool number = !equals || (equals[1] && !equals[1 + strspn(equals + 1, "0123456789.")] && !*end);
    if (!number || weight < 0 || weight > 1e9)
        die_usage("--fan-out '%s' has a weight that is not a number from 0 to 1e9", text);
    snprintf(value, room, "%.*s", (int)(length < room ? length : room), text);
    return weight;
}

static void parse_servers(const char **texts, struct exchange_plan *plan)
{
    for (; plan->servers < MOST_SERVERS && texts[plan->servers]; plan->servers++)
        if (!address_parse_pair(&plan->server[plan->servers], texts[plan->servers]))
            die_usage("--server '%s' is not an address and port such as 10.77.0.1:5001", texts[plan->servers]);
}

static void parse_fan_outs(const char **texts, struct weighted *fan_outs, size_t servers)
{
    bool any = false;
    if (!texts[0])
        texts[0] = "1";
    for (; fan_outs->count < MOST_SERVERS && texts[fan_outs->count]; fan_outs->count++) {
        char value[8];
        size_t i = fan_outs->count;
        fan_outs->weight[i] = split_weight(texts[i], value, sizeof value);
        long number = value[0] && !value[strspn(value, "0123456789")] ? strtol(value, NULL, 10) : 0;
        if (number < 1 || (size_t)number > servers)
            die_usage("--fan-out '%s' is not a number of servers from 1 to the %zu that are given", texts[i], servers);
        fan_outs->value[i] = (unsigned)number;
        any = any || fan_outs->weight[i] > 0;
    }
    if (!any)
        die_usage("--fan-out: none of them has a weight above 0; raise a weight");
}

static void report(const struct exchanged *result, const struct schedule *schedule)
{
    uint64_t span_ns = (uint64_t)(schedule->span_s * 1e9);
    uint64_t lasted_ns = result->end_ns ? result->end_ns - result->begin_ns : 0;
    double over_s = (double)(lasted_ns > span_ns ? lasted_ns : span_ns) / 1e9;
    struct json line;
    json_begin(&line, "traffic");
    json_integer(&line, "requests", result->requests);
    json_integer(&line, "flows", result->flows);
    json_integer(&line, "failed_flows", result->failed_flows);
    json_integer(&line, "flow_bytes", result->flow_bytes);
    json_moment(&line, "begin_ns", result->begin_ns);
    json_number(&line, "schedule_s", schedule->span_s);
    json_number(&line, "duration_s", over_s);
    json_number(&line, "asked_bps", schedule->plan->load_bps);
    json_number(&line, "achieved_bps", over_s > 0 ? 8.0 * (double)result->flow_bytes / over_s : 0);
    json_number(&line, "most_late_s", (double)result->late_ns / 1e9);
    json_integer(&line, "waited_flows", result->waited_flows);
    json_integer(&line, "most_flows_at_once", result->most_at_once);
    json_boolean(&line, "all_servers_gone", result->all_servers_gone);
    if (result->first_error)
        json_text(&line, "error", strerror(result->first_error));
    if (!json_print(&line, stdout))
        die("cannot write to stdout");
}

/* Returns the exit status. */
static int conclude(const struct exchanged *result, const struct exchange_plan *plan)
{
    if (!result->failed_flows && !result->all_servers_gone)
        return 0;
    if (!result->failed_flows) {
        complain("all servers ended their connections after %llu requests", (unsigned long long)result->requests);
        return STATUS_FAILED;
    }
    char name[ADDRESS_TEXT];
    address_format(&plan->server[result->first_error_server], name);
    complain("%llu of %llu flows failed, the first of them from %s: %s%s", (unsigned long long)result->failed_flows,
             (unsigned long long)result->flows, name, strerror(result->first_error),
             result->flow_bytes ? "" : "; the server must run with --answer");
    return STATUS_FAILED;
}

int traffic_main(char **arguments)
{
    const char *servers[MAX_TEXTS + 1] = {NULL}, *fan_outs[MAX_TEXTS + 1] = {NULL};
    const char *sizes_file = NULL, *records_file = NULL, *token_file = NULL;
    long load_bps = 0, requests = 0, connections = 64, at_once = 1, seed = 1;
    double duration_s = 0, limit_s = 10, within_s = 0;
    struct schedule_plan schedule_plan = {.fixed_gaps = false};
    struct option options[] = {
        {"--server", OPTION_TEXTS, servers, .required = true},
        {"--sizes", OPTION_TEXT, &sizes_file, .required = true},
        {"--load", OPTION_INTEGER, &load_bps, .required = true, .min = 0, .max = 1e13},
        {"--requests", OPTION_INTEGER, &requests, .min = 1, .max = MOST_REQUESTS},
        {"--duration", OPTION_SECONDS, &duration_s, .min = 0.001, .max = 1e6},
        {"--fixed-gaps", OPTION_FLAG, &schedule_plan.fixed_gaps, .required = false},
        {"--fan-out", OPTION_TEXTS, fan_outs, .required = false},
        {"--connections", OPTION_INTEGER, &connections, .min = 1, .max = MOST_CONNECTIONS},
        {"--at-once", OPTION_INTEGER, &at_once, .min = 1, .max = MOST_AT_ONCE},
        {"--seed", OPTION_INTEGER, &seed, .min = 0, .max = 1e15},
        {"--limit", OPTION_SECONDS, &limit_s, .min = 0.001, .max = 1e6},
        {"--within", OPTION_SECONDS, &within_s, .min = 0.001, .max = 1e6},
        {"--records", OPTION_TEXT, &records_file, .required = false},
        {"--token-file", OPTION_TEXT, &token_file, .required = false},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("unexpected '--'; traffic runs no command");
    if (!requests == !(duration_s > 0))
        die_usage("give --requests or --duration, and not both: one of them says when the traffic ends");
    if (load_bps && at_once != 1)
        die_usage("--at-once is for --load 0, where a request follows the one before; leave it out");
    if (!load_bps && schedule_plan.fixed_gaps)
        die_usage("--fixed-gaps is for a --load above 0: without one, requests follow each other; leave it out");

    static struct exchange_plan plan;
    parse_servers(servers, &plan);
    schedule_plan.servers = plan.servers;
    parse_fan_outs(fan_outs, &schedule_plan.fan_outs, plan.servers);
    token_read(&plan.token, token_file);
    plan.connections = (size_t)connections;
    plan.closed_loop = !load_bps;
    plan.requests_at_once = (size_t)at_once;
    plan.duration_ns = (uint64_t)(duration_s * 1e9);
    plan.limit_ns = (uint64_t)(limit_s * 1e9);
    plan.within_ns = (uint64_t)(within_s * 1e9);

    struct sizes sizes;
    sizes_read(&sizes, sizes_file);
    schedule_plan.sizes = &sizes;
    schedule_plan.seed = (uint64_t)seed;
    schedule_plan.load_bps = (double)load_bps;
    schedule_plan.requests = (uint64_t)requests;
    schedule_plan.duration_s = duration_s;
    struct schedule schedule;
    schedule_begin(&schedule, &schedule_plan);

    descriptors_allow_many();
    struct flow_records *records = flow_records_open(records_file);
    struct exchanged result = {0};
    exchange_run(&result, &plan, &schedule, records);
    flow_records_close(records);
    report(&result, &schedule);
    sizes_free(&sizes);
    return conclude(&result, &plan);
}
