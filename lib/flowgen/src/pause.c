/* pause: process 1 of a container. It keeps the namespaces alive, and buries the orphans that fall to it. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

#include "commands.h"
#include "errors.h"
#include "options.h"

int pause_main(char **arguments)
{
    struct option options[] = {{0}};
    if (parse_options(arguments, options))
        die_usage("pause takes no arguments");

    /* The kernel discards signals to process 1 that it neither handles nor blocks: block, then wait for them. */
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    signal(SIGCHLD, SIG_DFL); /* if it was inherited as ignored, SIGCHLD would not come */

    for (;;) {
        int received = sigwaitinfo(&wanted, NULL);
        if (received == SIGTERM || received == SIGINT)
            return 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}
