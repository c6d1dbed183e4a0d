/* The one clock of all measurements: CLOCK_MONOTONIC, the same for every process and container of a host. */
#ifndef FLOWGEN_MONOTONIC_H
#define FLOWGEN_MONOTONIC_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

static inline uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The moment by the clock of the machine that measures, for reports. A host with a kernel of its own has another
   CLOCK_MONOTONIC: FLOWGEN_CLOCK_OFFSET_NS in the environment is what has to be added there. */
static inline uint64_t moment_told(uint64_t at_ns)
{
    const char *offset_ns = getenv("FLOWGEN_CLOCK_OFFSET_NS");
    return at_ns + (offset_ns ? (uint64_t)strtoll(offset_ns, NULL, 10) : 0);
}

static inline struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

/* How long to wait from now until `at_ns`: zero when that has passed. */
static inline struct timespec time_until(uint64_t at_ns)
{
    uint64_t now = monotonic_ns();
    return timespec_of(at_ns > now ? at_ns - now : 0);
}

#endif
