/* Errors for people: one line on stderr that says what, why, and what next. */
#ifndef FLOWGEN_ERRORS_H
#define FLOWGEN_ERRORS_H

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

/* From now on messages begin "flowgen COMMAND:". */
void errors_name_command(const char *command);

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
