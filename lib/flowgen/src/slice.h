/* A short time slice: who asks for less of the CPU at a time gets it sooner. At the release every launcher needs some
   microseconds, while the processes that were let go before it want whole slices. */
#ifndef FLOWGEN_SLICE_H
#define FLOWGEN_SLICE_H

/* For the calling process and what it forks from now on. No effect before Linux 6.12, or with another than the usual
   scheduling policy. */
void slice_shorten(void);

#endif
