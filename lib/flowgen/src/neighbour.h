/* Has the kernel resolve a neighbour's hardware address, and the neighbour's kernel ours, before there is traffic. */
#ifndef FLOWGEN_NEIGHBOUR_H
#define FLOWGEN_NEIGHBOUR_H

#include "address.h"


/* Returns when that host has answered, or after a second. Sends UDP to its discard port, which must be closed. */
void neighbour_resolve(const union address *host);

#endif
