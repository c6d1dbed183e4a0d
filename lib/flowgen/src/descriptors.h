/* Each connection is a descriptor, and the soft limit is often 1024: it need not be. */
#ifndef FLOWGEN_DESCRIPTORS_H
#define FLOWGEN_DESCRIPTORS_H

/* As many as the hard limit allows. */
void descriptors_allow_many(void);

#endif
