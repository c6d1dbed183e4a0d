/* The launcher's connection to its controller: it sends one JSON packet per event, and may receive "term". Its end
   means that the controller is gone. */
#ifndef FLOWGEN_CONTROL_H
#define FLOWGEN_CONTROL_H

#include <stdbool.h>

#include "json.h"

enum control_message { CONTROL_NOTHING, CONTROL_TERM, CONTROL_GONE };

/* Ends the program where there is no controller at `path`. */
int control_connect(const char *path);

enum control_message control_receive(int control);

/* False: the controller is gone. */
bool control_send(int control, struct json *event);

/* Asks without waiting, and without reading. */
bool control_has_hung_up(int control);

#endif
