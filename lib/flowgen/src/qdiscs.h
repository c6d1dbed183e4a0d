/* The queueing disciplines of a link (tc(8)). */
#ifndef FLOWGEN_QDISCS_H
#define FLOWGEN_QDISCS_H

#include <stdint.h>

enum { QDISCS_BYTES = 128 };

struct qdiscs {
    char kinds[QDISCS_BYTES]; /* in the kernel's order, with a space between two; empty: unknown */
    uint64_t options_hash;    /* equal where all their options are */
};

struct qdiscs qdiscs_of(unsigned link_index);

#endif
