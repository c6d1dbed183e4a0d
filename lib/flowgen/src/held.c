#include "held.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

bool held_request(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

enum held_stop held_take_stop(pid_t child, int status)
{
    int number = WSTOPSIG(status);
    if (number != SIGTRAP) { /* somebody's signal, before the exec: pass it on */
        ptrace(PTRACE_CONT, child, NULL, (void *)(uintptr_t)number);
        return HELD_NOT_YET;
    }
    /* When a tracer dies, the kernel would release its child: an unwanted start. */
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(uintptr_t)PTRACE_O_EXITKILL) < 0)
        return HELD_UNSAFE;
    return HELD;
}

bool held_release(pid_t child)
{
    return ptrace(PTRACE_DETACH, child, NULL, NULL) == 0; /* the SIGTRAP of the exec is not delivered */
}
