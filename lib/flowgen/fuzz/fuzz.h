/* What the harnesses share. Each is one file with a LLVMFuzzerTestOneInput, in the way of libFuzzer
   (https://llvm.org/docs/LibFuzzer.html): it gives one input to a part of flowgen, and aborts where what comes of it
   is wrong. Sanitizers see the rest. Inputs are read as a program of small steps, so that any bytes mean something. */
#ifndef FLOWGEN_FUZZ_H
#define FLOWGEN_FUZZ_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *count, char ***arguments);

/* What is left of an input. At its end all that is taken is zero. */
struct input {
    const uint8_t *data;
    size_t left;
};

uint8_t take_byte(struct input *input);
uint64_t take_number(struct input *input, size_t bytes);

/* Copies what there is of `length` bytes, and returns how many. */
size_t take_bytes(struct input *input, void *bytes, size_t length);

/* Aborts, saying where. */
#define MUST(condition) must((condition), #condition, __FILE__, __LINE__)
void must(bool holds, const char *condition, const char *file, int line);

/* Around flowgen's own code: what it prints is kept, its exit comes back here, and its calls of the kernel that
   fuzz.c knows are harmless.

     struct run run = {0};
     RUN(&run, status = client_main(arguments));   // run.exited, run.status; run.out, run.err */
enum { PRINTED_BYTES = 1 << 20 };

struct run {
    bool exited;
    int status;
    char out[PRINTED_BYTES], err[PRINTED_BYTES];
};

extern jmp_buf run_exit;
void run_begin(struct run *run);
void run_end(struct run *run);

#define RUN(run, call)           \
    do {                         \
        run_begin(run);          \
        if (!setjmp(run_exit)) { \
            call;                \
        }                        \
        run_end(run);            \
    } while (0)

/* Every line is an object with the event of that name, of printable ASCII. Returns how many there are; adds up the
   numbers under `key`, if there is one. */
size_t check_lines(const char *text, const char *event, const char *key, uint64_t *sum);

#endif
