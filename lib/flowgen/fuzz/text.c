/* What is read from a word, and what is written of one: addresses, lists of CPUs, JSON. */
#include <stdlib.h>
#include <string.h>

#include "../src/address.h"
#include "../src/json.h"
#include "../src/placement.h"
#include "fuzz.h"

static void check_address(const char *text)
{
    union address address, again;
    if (!address_parse_pair(&address, text))
        return;
    char formatted[ADDRESS_TEXT];
    address_format(&address, formatted);
    MUST(address_parse_pair(&again, formatted));
    MUST(address_equal(&again, &address));
}

static void check_cpus(const char *text)
{
    struct cpus cpus;
    if (!cpus_parse(&cpus, text))
        return;
    MUST(CPU_COUNT_S(sizeof cpus.sets, cpus.sets) >= 1);
    MUST(strspn(text, "0123456789,-") == strlen(text));
}

static void check_json(const char *text)
{
    static struct run run;
    struct json json;
    char word[1024]; /* the longest that anybody writes */
    snprintf(word, sizeof word, "%s", text);
    volatile bool whole = false;
    RUN(&run, json_begin(&json, "text"); json_text(&json, "word", word); whole = json_print(&json, stdout));
    MUST(whole && !run.exited && check_lines(run.out, "text", NULL, NULL) == 1);
    const char *value = strstr(run.out, "\"word\":") + strlen("\"word\":");
    MUST(*value == '"');
    for (value++; *value != '"'; value++) /* where the word ends, the object does */
        value += *value == '\\';
    MUST(!strcmp(value, "\"}\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* of just that size, so that a sanitizer sees a step beyond its end */
    memcpy(text, data, size);
    text[size] = '\0';
    check_address(text);
    check_cpus(text);
    check_json(text);
    free(text);
    return 0;
}
