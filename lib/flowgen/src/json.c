#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "monotonic.h"

__attribute__((format(printf, 2, 3))) static void append(struct json *json, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(json->text + json->length, sizeof json->text - json->length, format, arguments);
    va_end(arguments);
    if (written < 0 || (size_t)written >= sizeof json->text - json->length)
        abort(); /* a cut object would be read as something else: a mistake in this program, never in its input */
    json->length += (size_t)written;
}

/* Paths and arguments are bytes of any encoding, and JSON must be UTF-8: all but printable ASCII is escaped. */
static void append_quoted(struct json *json, const char *value)
{
    append(json, "\"");
    for (const unsigned char *byte = (const unsigned char *)value; *byte; byte++) {
        if (*byte == '"' || *byte == '\\')
            append(json, "\\%c", *byte);
        else if (*byte < 0x20 || *byte > 0x7e)
            append(json, "\\u%04x", *byte);
        else
            append(json, "%c", *byte);
    }
    append(json, "\"");
}

void json_begin(struct json *json, const char *event)
{
    json->length = 0;
    append(json, "{\"event\":");
    append_quoted(json, event);
}

void json_text(struct json *json, const char *key, const char *value)
{
    append(json, ",\"%s\":", key);
    append_quoted(json, value);
}

void json_integer(struct json *json, const char *key, uint64_t value)
{
    append(json, ",\"%s\":%" PRIu64, key, value);
}

void json_moment(struct json *json, const char *key, uint64_t at_ns)
{
    if (at_ns)
        json_integer(json, key, moment_told(at_ns));
    else
        json_null(json, key);
}

void json_number(struct json *json, const char *key, double value)
{
    if (isfinite(value))
        append(json, ",\"%s\":%.12g", key, value);
    else
        json_null(json, key);
}

void json_boolean(struct json *json, const char *key, bool value)
{
    append(json, ",\"%s\":%s", key, value ? "true" : "false");
}

void json_null(struct json *json, const char *key)
{
    append(json, ",\"%s\":null", key);
}

void json_object(struct json *json, const char *key, const struct json *object)
{
    append(json, ",\"%s\":%s", key, object->text);
}

void json_end(struct json *json)
{
    append(json, "}");
}

bool json_print(struct json *json, FILE *stream)
{
    json_end(json);
    return fprintf(stream, "%s\n", json->text) > 0 && fflush(stream) == 0;
}
