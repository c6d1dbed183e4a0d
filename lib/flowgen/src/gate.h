/* The gate: a FIFO that the controller holds open for writing. It opens when the last writer closes it, so that one
   close in the controller frees everyone at the same moment. */
#ifndef FLOWGEN_GATE_H
#define FLOWGEN_GATE_H

#include <stdbool.h>

/* -1 and errno. It never waits for a writer. */
int gate_enter(const char *path);

/* Whether it has a writer: without one its opening could not be noticed. Also false, for what is no
   FIFO at all. */
bool gate_is_held(int gate);

/* What poll says of a gate that opened; it asks for nothing else, so whatever is written into the gate is no event. */
bool gate_has_opened(short revents);

/* Sleeps until it opens. False, with errno: waiting failed. */
bool gate_wait(int gate);

#endif
