/* Random numbers that are the same everywhere for the same seed: xoshiro256++ of Blackman and Vigna, seeded by
   SplitMix64 (https://prng.di.unimi.it). */
#ifndef FLOWGEN_RANDOM_H
#define FLOWGEN_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state[4];
};

/* Streams of one seed are independent of each other. */
static inline struct random random_from(uint64_t seed, uint64_t stream)
{
    struct random random;
    uint64_t step = seed * UINT64_C(0x9e3779b97f4a7c15) + stream * UINT64_C(0xd1342543de82ef95);
    for (int i = 0; i < 4; i++) {
        uint64_t mixed = step += UINT64_C(0x9e3779b97f4a7c15);
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        random.state[i] = mixed ^ mixed >> 31;
    }
    return random;
}

static inline uint64_t random_rotated(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static inline uint64_t random_next(struct random *random)
{
    uint64_t *s = random->state, result = random_rotated(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = random_rotated(s[3], 45);
    return result;
}

/* Above 0, up to 1: a logarithm of it is finite, and no share of 0 is looked up in a CDF. */
static inline double random_share(struct random *random)
{
    return ((double)(random_next(random) >> 11) + 1) * 0x1p-53;
}

#endif
