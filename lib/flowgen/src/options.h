/* Strict options: "--name value", or of a flag "--name". What is unknown, doubled, missing or out of range ends the program with status 2. */
#ifndef FLOWGEN_OPTIONS_H
#define FLOWGEN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_TEXTS, OPTION_INTEGER, OPTION_NUMBER, OPTION_SECONDS };

enum { MAX_TEXTS = 16 };

struct option {
    const char *name;      /* with its dashes; NULL ends a table */
    enum option_kind kind;
    void *value;           /* by kind: bool *, const char **, the first of MAX_TEXTS const char *, long *, and for the last two double *;
                              left alone when not given */
    bool required;
    double min, max;       /* of a number, both allowed */
    size_t given;          /* how often; set by parse_options */
};

/* Returns what follows "--", or NULL where there is no "--". Other arguments than options are refused. */
char **parse_options(char **arguments, struct option *options);

#endif
