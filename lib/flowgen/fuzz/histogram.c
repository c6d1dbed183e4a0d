/* The histogram: any times. Each is within 0.05 % of what its bucket stands for, or within half a nanosecond; and of two
   times the longer one is in no earlier bucket. */
#include "../src/histogram.h"
#include "fuzz.h"

static void check(uint64_t ns)
{
    uint64_t most = (UINT64_C(1) << HISTOGRAM_MOST_BITS) - 1, known = ns < most ? ns : most;
    size_t bucket = histogram_bucket(ns);
    MUST(bucket < HISTOGRAM_BUCKETS);
    uint64_t value = histogram_value(bucket);
    uint64_t apart = value > known ? value - known : known - value;
    MUST(apart * 2000 <= known);
    MUST(histogram_bucket(value) == bucket);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct histogram histogram;
    struct input input = {data, size};
    while (input.left) {
        uint64_t one = take_number(&input, 8) >> take_byte(&input) % 64, other = one + take_byte(&input);
        check(one);
        check(other);
        if (other >= one)
            MUST(histogram_bucket(one) <= histogram_bucket(other));
        size_t bucket = histogram_bucket(one);
        uint64_t before = histogram.counts[bucket];
        histogram_record(&histogram, one);
        MUST(histogram.counts[bucket] == before + 1);
    }
    return 0;
}
