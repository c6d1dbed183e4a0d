/* Flow sizes from the CDF in a file: a line for each point, its size in bytes first and the cumulative share last, as
   Empirical Traffic Generator has them, or a count between the two, as ns-2 has them. Points are joined by straight
   lines, and sizes rounded up to whole bytes; lib/pairlab/model/flow_sizes.py says the same of these files, and
   reads those with commas or a byte order mark besides. */
#ifndef FLOWGEN_SIZES_H
#define FLOWGEN_SIZES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "random.h"

struct size_point {
    double size, share;
};

struct sizes {
    struct size_point *points;
    size_t count;
};

/* Ends the program, saying file and line, where it is no CDF. */
void sizes_read(struct sizes *sizes, const char *path);
void sizes_parse(struct sizes *sizes, FILE *file, const char *name);
void sizes_free(struct sizes *sizes);

/* At least 1 byte. share: above 0, up to 1. */
uint64_t sizes_at(const struct sizes *sizes, double share);

static inline uint64_t sizes_draw(const struct sizes *sizes, struct random *random)
{
    return sizes_at(sizes, random_share(random));
}

#endif
