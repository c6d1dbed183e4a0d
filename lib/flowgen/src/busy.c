/* busy: uses CPU time and nothing else, until a signal ends it: no memory, no disk, no network.

   With --load below 1, it uses that share of each period's length and sleeps for the rest. What it uses is counted by
   its own CPU clock, so that it has used as much where others made it wait. A period that was over by then is skipped,
   not made up for. */
#include <stdint.h>
#include <time.h>

#include "commands.h"
#include "errors.h"
#include "monotonic.h"
#include "options.h"

static const uint64_t PERIOD_NS = 100 * NS_PER_MS;
enum { STEPS = 10000 }; /* between two looks at the clock: some 10 us */

static void use_cpu(void)
{
    static volatile uint64_t state = 1;
    uint64_t value = state;
    for (int i = 0; i < STEPS; i++)
        value = value * UINT64_C(6364136223846793005) + 1;
    state = value;
}

static uint64_t used_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

int busy_main(char **arguments)
{
    double load = 1;
    struct option options[] = {
        {"--load", OPTION_NUMBER, &load, .min = 0.001, .max = 1},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("busy runs nothing: leave out what follows --");
    while (load == 1)
        use_cpu();

    const uint64_t wanted_ns = (uint64_t)(load * (double)PERIOD_NS);
    uint64_t period_ends_ns = monotonic_ns();
    for (;;) {
        for (uint64_t begun_ns = used_ns(); used_ns() - begun_ns < wanted_ns;)
            use_cpu();
        uint64_t now_ns = monotonic_ns();
        period_ends_ns += ((now_ns - period_ends_ns) / PERIOD_NS + 1) * PERIOD_NS;
        struct timespec end = timespec_of(period_ends_ns);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    }
}
