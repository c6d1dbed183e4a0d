#include "fuzz.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

jmp_buf run_exit;
static struct run *running; /* NULL: not in flowgen's code, and every call is what it always is */
static FILE *usual_out, *usual_err;

uint8_t take_byte(struct input *input)
{
    if (!input->left)
        return 0;
    input->left--;
    return *input->data++;
}

uint64_t take_number(struct input *input, size_t bytes)
{
    uint64_t number = 0;
    while (bytes--)
        number = number << 8 | take_byte(input);
    return number;
}

size_t take_bytes(struct input *input, void *bytes, size_t length)
{
    if (length > input->left)
        length = input->left;
    if (length)
        memcpy(bytes, input->data, length);
    input->data += length;
    input->left -= length;
    return length;
}

void must(bool holds, const char *condition, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static FILE *into(char *buffer)
{
    buffer[0] = '\0';
    FILE *stream = fmemopen(buffer, PRINTED_BYTES - 1, "w");
    MUST(stream != NULL);
    return stream;
}

void run_begin(struct run *run)
{
    usual_out = stdout;
    usual_err = stderr;
    stdout = into(run->out);
    stderr = into(run->err);
    run->exited = false;
    run->status = 0;
    running = run;
}

void run_end(struct run *run)
{
    running = NULL;
    fclose(stdout);
    fclose(stderr);
    stdout = usual_out;
    stderr = usual_err;
    run->out[PRINTED_BYTES - 1] = run->err[PRINTED_BYTES - 1] = '\0';
}

size_t check_lines(const char *text, const char *event, const char *key, uint64_t *sum)
{
    char begin[64], number[64];
    snprintf(begin, sizeof begin, "{\"event\":\"%s\"", event);
    snprintf(number, sizeof number, ",\"%s\":", key ? key : "");
    size_t lines = 0;
    for (const char *end; *text; text = end + 1, lines++) {
        end = strchr(text, '\n');
        MUST(end != NULL);
        MUST(!strncmp(text, begin, strlen(begin)) && end[-1] == '}');
        for (const char *byte = text; byte < end; byte++)
            MUST(*byte >= 0x20 && *byte <= 0x7e);
        const char *found = key ? strstr(text, number) : NULL;
        if (key)
            MUST(found && found < end);
        if (found && sum)
            *sum += strtoull(found + strlen(number), NULL, 10);
    }
    return lines;
}

/* --- what the linker puts in the place of the calls of that name (ld's --wrap) */

_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status)
{
    if (!running)
        __real_exit(status);
    running->exited = true;
    running->status = status;
    longjmp(run_exit, 1);
}

/* No socket: a flow fails at once, a controller is not reached, and nothing leaves this process. */
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
    if (!running)
        return __real_socket(domain, type, protocol);
    errno = EMFILE;
    return -1;
}

ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
    (void)fd, (void)flags, (void)to, (void)size;
    static char sent[1 << 16]; /* read as the kernel would, so that a sanitizer sees what is not ours to send */
    memcpy(sent, bytes, length < sizeof sent ? length : sizeof sent);
    return (ssize_t)length;
}

int __real_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return running ? 0 : __real_sigprocmask(how, set, old);
}

/* Who would wait for a signal cannot, and ends. */
int __real_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    if (!running)
        return __real_signalfd(fd, set, flags);
    errno = EMFILE;
    return -1;
}

/* Threads run one after the other: an exit in any of them comes back to the same place. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument)
{
    if (!running)
        return __real_pthread_create(thread, attributes, work, argument);
    work(argument);
    return 0;
}

int __real_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_join(pthread_t thread, void **value)
{
    return running ? 0 : __real_pthread_join(thread, value);
}

int __wrap_pthread_barrier_wait(pthread_barrier_t *barrier)
{
    (void)barrier;
    return 0;
}
