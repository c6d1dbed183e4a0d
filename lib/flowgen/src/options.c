#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

static _Noreturn void refuse_unknown(const char *argument, const struct option *options)
{
    char known[256] = "none";
    size_t length = 0;
    for (; options->name && length < sizeof known; options++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "", options->name);
    die_usage("unknown option '%s'; there are: %s", argument, known);
}

/* strtol and strtod take blanks, signs, hexadecimal, "inf" and "nan" as well: only plain decimals pass here. */
static bool made_of(const char *text, const char *characters)
{
    return *text && !text[strspn(text, characters)];
}

static void set_integer(const struct option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!made_of(text, "0123456789") || *end || errno || value < (long)option->min || value > (long)option->max)
        die_usage("%s '%s' is not a whole number from %.0f to %.0f", option->name, text, option->min, option->max);
    *(long *)option->value = value;
}

static void set_number(const struct option *option, const char *text, const char *unit)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (!made_of(text, "0123456789.eE+-") || *end || errno || value < option->min || value > option->max)
        die_usage("%s '%s' is not a number%s from %g to %g", option->name, text, unit, option->min, option->max);
    *(double *)option->value = value;
}

static void set(struct option *option, const char *text)
{
    if (!text && option->kind != OPTION_FLAG)
        die_usage("%s needs a value after it", option->name);
    size_t most = option->kind == OPTION_TEXTS ? MAX_TEXTS : 1;
    if (option->given == most)
        die_usage(most == 1 ? "%s is given twice; leave one out" : "%s is given more than %zu times", option->name, most);
    size_t index = option->given++;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->value = true;
        return;
    case OPTION_TEXT:
    case OPTION_TEXTS:
        if (!*text)
            die_usage("%s is empty; give a value, or leave it out", option->name);
        ((const char **)option->value)[index] = text;
        return;
    case OPTION_INTEGER:
        set_integer(option, text);
        return;
    case OPTION_NUMBER:
        set_number(option, text, "");
        return;
    case OPTION_SECONDS:
        set_number(option, text, " of seconds");
        return;
    }
}

char **parse_options(char **arguments, struct option *options)
{
    while (*arguments && strcmp(*arguments, "--")) {
        struct option *option = options;
        while (option->name && strcmp(option->name, *arguments))
            option++;
        if (!option->name && **arguments != '-')
            die_usage("unexpected argument '%s'; options are given as --name value", *arguments);
        if (!option->name)
            refuse_unknown(*arguments, options);
        set(option, arguments[1]);
        arguments += option->kind == OPTION_FLAG ? 1 : 2;
    }
    for (const struct option *option = options; option->name; option++)
        if (option->required && !option->given)
            die_usage("%s is missing (see flowgen --help)", option->name);
    return *arguments ? arguments + 1 : NULL;
}
