#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "descriptors.h"
#include "gate.h"
#include "held.h"
#include "monotonic.h"
#include "privileges.h"
#include "urgency.h"

enum { STATUS_NOT_STARTED = 127, ERROR_BYTES = 512 };

/* One write below PIPE_BUF: the launcher gets all of it or none. */
static _Noreturn void give_up(int progress, const char *action, const char *object)
{
    char text[ERROR_BYTES];
    int length = snprintf(text, sizeof text, "cannot %s %s: %s", action, object, strerror(errno));
    if (length >= (int)sizeof text)
        length = sizeof text - 1;
    if (write(progress, text, (size_t)length) < 0)
        _exit(STATUS_NOT_STARTED); /* the launcher is gone: there is nobody to report to */
    _exit(STATUS_NOT_STARTED);
}

/* The workload must find signals as a shell would leave them, not as the launcher set them for itself. */
static void reset_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void wait_at_gate(const struct child_plan *plan, int progress)
{
    if (write(progress, &(char){PROGRESS_AT_GATE}, 1) != 1)
        _exit(STATUS_NOT_STARTED);
    if (!gate_wait(plan->gate_fd))
        give_up(progress, "wait at the gate", plan->gate);
    if (plan->start_after_ns) { /* whatever ends the launch meanwhile ends this process: it catches no signal */
        struct timespec due = timespec_of(monotonic_ns() + plan->start_after_ns);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            continue;
    }

    /* The kernel closes the gate of a dead controller too. If it comes to the gate before the control socket, this
       check passes, and the launcher ends the child a moment later. */
    if (control_has_hung_up(plan->control))
        _exit(STATUS_NOT_STARTED);
}

static _Noreturn void become(const struct child_plan *plan, pid_t launcher, int progress, _Atomic uint64_t *start_ns)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(STATUS_NOT_STARTED); /* it died before the line above could bind us to it */
    reset_signals();
    urgency_forgo();

    if (dup2(plan->stdin_fd, STDIN_FILENO) < 0 || dup2(plan->stdout_fd, STDOUT_FILENO) < 0 ||
        dup2(plan->stderr_fd, STDERR_FILENO) < 0)
        give_up(progress, "redirect the output of", plan->argv[0]);

    for (const char *const *cgroup = plan->cgroups; *cgroup; cgroup++)
        if (!cgroup_join(*cgroup))
            give_up(progress, "join the cgroup", *cgroup);
    if (plan->cpus && !cpus_apply(plan->cpus)) /* after the cgroups: to join a cpuset sets the affinity, too */
        give_up(progress, "run on the CPUs", plan->cpus->text);
    if (!descriptors_close_on_exec())
        give_up(progress, "close the descriptors of", plan->argv[0]);
    if (plan->unprivileged && !privileges_drop()) /* last: all above may take privileges */
        give_up(progress, "drop the privileges of", plan->argv[0]);

    bool held = plan->gate && held_request();
    if (plan->gate && !held)
        wait_at_gate(plan, progress);
    if (!held)
        atomic_store(start_ns, monotonic_ns());
    execvp(plan->argv[0], plan->argv);
    give_up(progress, "run", plan->argv[0]);
}

int child_fork(struct child *child, const struct child_plan *plan)
{
    void *shared = mmap(NULL, sizeof *child->start_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int progress[2];
    if (shared == MAP_FAILED || pipe2(progress, O_CLOEXEC) < 0)
        return errno;
    child->start_ns = shared;

    pid_t launcher = getpid();
    child->pid = fork();
    if (child->pid < 0)
        return errno;
    if (child->pid == 0)
        become(plan, launcher, progress[1], child->start_ns);
    close(progress[1]);
    child->progress = progress[0];
    return 0;
}
