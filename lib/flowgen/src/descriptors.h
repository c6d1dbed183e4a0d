/* File descriptors: how many there may be, and which of them a program that is launched has. */
#ifndef FLOWGEN_DESCRIPTORS_H
#define FLOWGEN_DESCRIPTORS_H

#include <stdbool.h>

/* Each connection is one, and the soft limit is often 1024. As many as the hard limit allows. */
void descriptors_allow_many(void);

/* The next exec closes all but standard input, output and error. False, with errno. */
bool descriptors_close_on_exec(void);

#endif
