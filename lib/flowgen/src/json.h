/* One JSON object on one line: {"event": ..., key: value, ...}. */
#ifndef FLOWGEN_JSON_H
#define FLOWGEN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    size_t length;
    char text[8192];       /* the longest value is an error message: 1 KiB, and at worst six times that once escaped */
};

void json_begin(struct json *json, const char *event);
void json_text(struct json *json, const char *key, const char *value);
void json_integer(struct json *json, const char *key, uint64_t value);
void json_moment(struct json *json, const char *key, uint64_t at_ns);  /* see moment_told; null for 0 */
void json_number(struct json *json, const char *key, double value);    /* null for what is not finite */
void json_boolean(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_object(struct json *json, const char *key, const struct json *object); /* one that has ended */
void json_end(struct json *json);

/* Ends the object, and writes it as a line. */
bool json_print(struct json *json, FILE *stream);

#endif
