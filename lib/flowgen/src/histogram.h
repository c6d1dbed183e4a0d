/* A histogram of times, log-linear as HDR histograms are: below 2048 ns each ns has a bucket of its own; above, each
   power of two has 1024 buckets of equal width, so that a bucket's middle is within 0.05 % of any time in it. */
#ifndef FLOWGEN_HISTOGRAM_H
#define FLOWGEN_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_BITS = 10,           /* of a bucket's place within its power of two */
    HISTOGRAM_MOST_BITS = 40,      /* of a time: 18 minutes; longer ones are in the last bucket */
    HISTOGRAM_BUCKETS = (HISTOGRAM_MOST_BITS - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS,
};

/* All zeros at first. */
struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* What the links of /proc/PID/fd call the memory of histograms, which is a file: so the process that counts is not
   asked, and makes no call, while somebody looks. */
#define HISTOGRAM_FILE "flowgen-latencies"

/* So many; NULL: out of memory. Where there can be no such file, nobody sees them. They stay until the process ends. */
struct histogram *histogram_make(size_t count);

static inline size_t histogram_bucket(uint64_t ns)
{
    const uint64_t most = (UINT64_C(1) << HISTOGRAM_MOST_BITS) - 1;
    if (ns > most)
        ns = most;
    unsigned shift = ns >> (HISTOGRAM_BITS + 1) ? 63u - HISTOGRAM_BITS - (unsigned)__builtin_clzll(ns) : 0;
    return ((size_t)shift << HISTOGRAM_BITS) + (size_t)(ns >> shift);
}

static inline void histogram_record(struct histogram *histogram, uint64_t ns)
{
    histogram->counts[histogram_bucket(ns)]++;
}

/* The time that a bucket stands for, in ns: its middle. */
static inline uint64_t histogram_value(size_t bucket)
{
    if (bucket < 2 << HISTOGRAM_BITS)
        return bucket;
    unsigned shift = (unsigned)(bucket >> HISTOGRAM_BITS) - 1;
    uint64_t first = (uint64_t)(bucket - ((size_t)shift << HISTOGRAM_BITS)) << shift;
    return first + (UINT64_C(1) << (shift - 1));
}

#endif
