/* The launcher's connection to its controller: one JSON packet per event goes out, "term" may come in, and its end
   says that the controller has gone. */
#ifndef FLOWGEN_CONTROL_H
#define FLOWGEN_CONTROL_H

#include <stdbool.h>

#include "json.h"

enum control_message { CONTROL_NOTHING, CONTROL_TERM, CONTROL_GONE };

/* Ends the program where there is no controller at `path`: there is nobody else to tell. */
int control_connect(const char *path);

enum control_message control_receive(int control);

/* False: the controller has gone. */
bool control_send(int control, struct json *event);

/* Asks without waiting, and without reading. */
bool control_has_hung_up(int control);

#endif
