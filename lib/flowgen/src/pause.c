/* pause: process 1 of a container. It keeps the namespaces alive, and reaps the orphans that PID 1 adopts.

   With a lifeline, a FIFO that others keep open for writing, it ends when the last of them has closed it: so a
   container ends when its users are dead, also without a daemon.

   It is not dumpable (prctl(2)): the container's other processes, of the same user, do not get at its descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "errors.h"
#include "gate.h"
#include "options.h"

static int enter_lifeline(const char *path)
{
    int lifeline = gate_enter(path);
    if (lifeline < 0)
        die("cannot open the lifeline %s: %s", path, strerror(errno));
    if (!gate_is_held(lifeline))
        die("the lifeline %s has no writer: its users are gone", path);
    return lifeline;
}

/* The kernel discards signals to process 1 that it neither handles nor blocks: block, then read them. */
static int block_signals(void)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    signal(SIGCHLD, SIG_DFL); /* if it was inherited as ignored, SIGCHLD would not come */
    int signals = signalfd(-1, &wanted, SFD_CLOEXEC);
    if (signals < 0)
        die("cannot wait for signals: %s", strerror(errno));
    return signals;
}

int pause_main(char **arguments)
{
    const char *lifeline_path = NULL;
    struct option options[] = {
        {.name = "--lifeline", .kind = OPTION_TEXT, .value = &lifeline_path},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("pause runs nothing: leave out what follows --");
    prctl(PR_SET_DUMPABLE, 0);

    enum { SIGNALS, LIFELINE, SOURCES };
    struct pollfd source[SOURCES] = {
        [SIGNALS] = {.fd = block_signals(), .events = POLLIN},
        [LIFELINE] = {.fd = lifeline_path ? enter_lifeline(lifeline_path) : -1, .events = 0}, /* poll skips a -1 */
    };
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (poll(source, SOURCES, -1) < 0)
            continue;
        if (gate_has_opened(source[LIFELINE].revents))
            return 0;
        struct signalfd_siginfo received;
        if (source[SIGNALS].revents && read(source[SIGNALS].fd, &received, sizeof received) == sizeof received)
            if (received.ssi_signo != SIGCHLD)
                return 0;
    }
}
