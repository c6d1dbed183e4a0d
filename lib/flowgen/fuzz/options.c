/* The command line: any words at all, of any command. What is refused is refused in one line, with a status that says
   so; what is taken runs until it would touch the kernel. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define main flowgen_main
#include "../src/main.c"
#undef main

enum { WORDS = 24, TEXT_BYTES = 4096 };

static char *const known[] = {
    "server", "client", "hold", "pause", "facts", "version", "help", "--help", "--", "--port", "--bind", "--udp",
    "--connect", "--duration", "--bytes", "--limit", "--interval", "--congestion", "--write-bytes", "--flows", "--rate",
    "--control", "--slot", "--gate", "--netns", "--listen", "--listen-udp", "--cpus", "--cgroup", "--diagnose-after",
    "--start-after", "--stdin", "--stdout", "--stderr", "--link", "0", "1", "80", "65535", "0.5", "1e6", "0.001", "127.0.0.1",
    "127.0.0.1:9", "255.255.255.255:65535", "0-3,7", "8191", "1000", "1000000000000000", "9223372036854775808", "lo",
    "traffic", "--answer", "--server", "127.0.0.1:9", "--sizes", "/dev/null", "--load", "--requests", "--fan-out", "2=1",
    "--fixed-gaps", "--connections", "--at-once", "--seed", "--records",
    "rr", "rr-server", "--request-bytes", "--response-bytes", "--connections", "--connect-per-request", "--warmup",
    "--timeout", "1048576", "all-to-all", "--ranks", "127.0.0.1:9,127.0.0.1:10", "--rank", "--message-bytes", "--wait",
};
enum { KNOWN = sizeof known / sizeof *known };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run run;
    struct input input = {data, size};
    char texts[TEXT_BYTES], *free_text = texts;
    char *words[WORDS + 2] = {"flowgen"};
    int count = 1;
    while (input.left && count <= WORDS) {
        uint8_t step = take_byte(&input);
        if (step < KNOWN) {
            words[count++] = known[step];
            continue;
        }
        size_t length = step == 255 ? take_number(&input, 2) : (size_t)(step - KNOWN); /* of a word of its own */
        size_t room = (size_t)(texts + sizeof texts - free_text) - 1;
        length = take_bytes(&input, free_text, length < room ? length : room);
        free_text[length] = '\0';
        words[count++] = free_text;
        free_text += length + (free_text + length + 1 < texts + sizeof texts);
    }
    words[count] = NULL;

    volatile int status = 0;
    errors_name_command(NULL);
    RUN(&run, status = flowgen_main(count, words));
    if (run.exited)
        status = run.status;
    MUST(status >= 0 && status <= 2);
    if (run.exited) {
        MUST(!strncmp(run.err, "flowgen", 7));
        MUST(strchr(run.err, '\n') && strchr(run.err, '\n')[1] == '\0');
        MUST(run.out[0] == '\0');
    }
    for (const char *byte = run.err; *byte; byte++)
        MUST((unsigned char)*byte >= 0x20 || *byte == '\n');
    return 0;
}
