#include "errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *command_name;

void errors_name_command(const char *command)
{
    command_name = command;
}

/* One write for the whole line: the lines of many launchers that share a stderr do not mix. It is one line whatever
   was given to us, and nothing in it is for a terminal to obey. */
static void print_line(const char *format, va_list arguments)
{
    char text[1024] = "";
    vsnprintf(text, sizeof text, format, arguments);
    for (char *byte = text; *byte; byte++)
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            *byte = '?';
    fprintf(stderr, "flowgen%s%s: %s\n", command_name ? " " : "", command_name ? command_name : "", text);
}

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
    exit(STATUS_FAILED);
}

void die_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
    exit(STATUS_USAGE);
}
