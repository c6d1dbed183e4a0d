/* What happens to a link on the way: its settings may be the same in the end as they were. */
#ifndef FLOWGEN_NETCHANGES_H
#define FLOWGEN_NETCHANGES_H

#include <stdint.h>

/* From now on the kernel notes what happens (rtnetlink(7)). A descriptor, or -1: it cannot. */
int netchanges_begin(void);

/* How often since then that link was taken down, lost an address, or had its queueing disciplines or filters changed;
   -1: unknown. Closes the descriptor. */
int64_t netchanges_end(int netlink, unsigned link_index);

#endif
