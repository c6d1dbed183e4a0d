/* A connection by TCP between every two of several processes, the ranks: each listens, and connects to all before it. */
#ifndef FLOWGEN_MESH_H
#define FLOWGEN_MESH_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "token.h"

enum { MOST_RANKS = 256 };

struct mesh_plan {
    union address rank[MOST_RANKS]; /* where each listens */
    size_t ranks, own;
    struct token token;
    uint64_t within_ns;                  /* by when all must be connected; 0: whenever they come */
    volatile sig_atomic_t *stopped;      /* set by a signal: gives up */
};

/* What begins a connection. */
struct mesh_hello {
    char token[TOKEN_BYTES];
    uint32_t magic, rank;
};

enum { MESH_MAGIC = 0x6d657368 }; /* "mesh" */

/* The rank that may have sent this: one that connects to `own` and has not yet; or -1. connected: by rank. */
int mesh_rank_of(const struct mesh_hello *hello, const struct mesh_plan *plan, const int *connected);

/* The socket of each other rank, blocking, by rank; -1 for the own. Ends the program where one does not come. */
void mesh_connect(int *sockets, const struct mesh_plan *plan);

#endif
