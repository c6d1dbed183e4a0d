/* What a network namespace looks like to TCP: its settings, and the offloads and queues of one link. */
#ifndef FLOWGEN_NETFACTS_H
#define FLOWGEN_NETFACTS_H

#include <stdbool.h>

#include "json.h"

/* Adds them to the object; false, with errno, where there is no such link. */
bool netfacts_add(struct json *json, const char *link);

#endif
