/* In the place of libFuzzer, where the compiler has none: changes inputs at random, without seeing what they reach.
   Knows -runs, -max_total_time, -max_len, -seed and -artifact_prefix, and files of inputs to be tried again. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"

enum { KEPT = 256, MOST_BYTES = 1 << 16 };

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_abort=1"; /* so that what a harness finds by itself is reported and kept like all other findings */
}

void __sanitizer_set_death_callback(void (*callback)(void));

static uint64_t state = 1;
static uint8_t current[MOST_BYTES];
static size_t current_bytes;
static char artifact[4096];

static uint64_t draw(uint64_t below) /* xorshift64*, Vigna 2016 */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return below ? state * UINT64_C(2685821657736338717) % below : 0;
}

static void keep_finding(void)
{
    FILE *file = fopen(artifact, "wb");
    if (!file)
        return;
    fwrite(current, 1, current_bytes, file);
    fclose(file);
    fprintf(stderr, "the input is in %s\n", artifact);
}

static void mutate(size_t most)
{
    for (uint64_t times = 1 + draw(8); times; times--) {
        size_t at = draw(current_bytes + 1), length = 1 + draw(16);
        switch (draw(5)) {
        case 0: /* grow */
            if (current_bytes + length <= most) {
                memmove(current + at + length, current + at, current_bytes - at);
                for (size_t i = 0; i < length; i++)
                    current[at + i] = (uint8_t)draw(256);
                current_bytes += length;
            }
            break;
        case 1: /* shrink */
            if (at + length <= current_bytes) {
                memmove(current + at, current + at + length, current_bytes - at - length);
                current_bytes -= length;
            }
            break;
        case 2:
            if (at < current_bytes)
                current[at] ^= (uint8_t)(1 << draw(8));
            break;
        case 3:
            if (at < current_bytes)
                current[at] = (uint8_t[]){0, 1, 127, 128, 254, 255, ' ', '\n'}[draw(8)];
            break;
        case 4: /* repeat a part elsewhere */
            if (at + length <= current_bytes && current_bytes + length <= most) {
                memcpy(current + current_bytes, current + at, length);
                current_bytes += length;
            }
            break;
        }
    }
}

static void try_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    MUST(file != NULL);
    current_bytes = fread(current, 1, sizeof current, file);
    fclose(file);
    LLVMFuzzerTestOneInput(current, current_bytes);
}

int main(int count, char **arguments)
{
    long runs = -1, seconds = 0, most = 4096, done = 0, files = 0;
    const char *prefix = "";
    for (int i = 1; i < count; i++) {
        const char *value = strchr(arguments[i], '=');
        if (*arguments[i] != '-') {
            size_t length = strlen(arguments[i]);
            if (length && arguments[i][length - 1] != '/') { /* a folder is where libFuzzer keeps what it found */
                try_file(arguments[i]);
                files++;
            }
        } else if (value && !strncmp(arguments[i], "-runs=", 6)) {
            runs = atol(value + 1);
        } else if (value && !strncmp(arguments[i], "-max_total_time=", 16)) {
            seconds = atol(value + 1);
        } else if (value && !strncmp(arguments[i], "-max_len=", 9)) {
            most = atol(value + 1);
        } else if (value && !strncmp(arguments[i], "-seed=", 6)) {
            state = (uint64_t)atol(value + 1) | 1;
        } else if (value && !strncmp(arguments[i], "-artifact_prefix=", 17)) {
            prefix = value + 1;
        }
    }
    if (files)
        return 0;
    if (most > MOST_BYTES)
        most = MOST_BYTES;
    snprintf(artifact, sizeof artifact, "%scrash", prefix);
    __sanitizer_set_death_callback(keep_finding);

    static uint8_t kept[KEPT][MOST_BYTES];
    static size_t kept_bytes[KEPT];
    time_t begun = time(NULL);
    while (done != runs && (!seconds || time(NULL) - begun < seconds)) {
        size_t from = draw(KEPT);
        current_bytes = kept_bytes[from];
        memcpy(current, kept[from], current_bytes);
        mutate((size_t)most);
        LLVMFuzzerTestOneInput(current, current_bytes);
        done++;
        if (!draw(4)) { /* inputs grow together over time, and now and then one begins anew */
            size_t to = draw(KEPT);
            kept_bytes[to] = draw(64) ? current_bytes : 0;
            memcpy(kept[to], current, kept_bytes[to]);
        }
    }
    printf("Done %ld runs in %ld second(s)\n", done, (long)(time(NULL) - begun));
    return 0;
}
