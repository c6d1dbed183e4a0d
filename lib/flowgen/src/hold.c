/* hold: launches one process, at once or when a gate opens, and reports on it to a controller over a socket.

   With a gate, the child is held after its exec (held.h): then the launcher waits at the gate, in real time where it
   may (urgency.h), and releases the child. Where that is refused, the child waits at the gate itself and execs after
   it; "ready" says which of the two it is. With --start-after it is released so much later than the gate opens, by the
   clock; until then it is held as before. The child never has CAP_SYS_NICE, which is for the launcher, and with
   --unprivileged it has no capability at all. It has no descriptor but standard input, output and error, and cannot
   get at the launcher's through /proc: the launcher is not dumpable (prctl(2)), as in a container it has no more
   capabilities than the child.

   The first event is "hello", before anything else: a connection that ends after it is a launcher that died.

   With --linger the launcher stays, once it has reported the child's end, until the controller closes the socket. Its
   own exit is not free: a container engine spends CPU time on it, which others that still run would wait for.

   Invariant: the process group of the child never outlives the launcher. When the controller sends "term", closes the
   socket or dies, when SIGTERM or SIGINT arrives, or when the child itself ends, the whole group gets SIGTERM, 200 ms
   (or --grace) later SIGKILL, and the launcher exits once all of it has ended. (A child held after its exec has nothing to clean
   up, and gets SIGKILL at once.) If the launcher itself is killed, the kernel kills the child (PR_SET_PDEATHSIG, and
   PTRACE_O_EXITKILL for a held one). */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "child.h"
#include "commands.h"
#include "control.h"
#include "errors.h"
#include "gate.h"
#include "held.h"
#include "listening.h"
#include "monotonic.h"
#include "neighbour.h"
#include "netchanges.h"
#include "netcounters.h"
#include "netfacts.h"
#include "options.h"
#include "placement.h"
#include "schedstat.h"
#include "sockdiag.h"
#include "urgency.h"

enum { SLOT_BYTES = 128, ERROR_BYTES = 1024 };

static const double GRACE_S = 0.2; /* between SIGTERM and SIGKILL, where nothing else is asked */
static const uint64_t FIRST_PROBE_NS = 1 * NS_PER_MS, LAST_PROBE_NS = 5 * NS_PER_MS;

struct launcher {
    const char *slot, *gate, *netns, *link, *stdin_file, *stdout_file, *stderr_file;
    char **argv;
    const char *cgroups[MAX_TEXTS + 1];
    union address neighbour;      /* to be resolved before "ready"; family 0: none */
    struct cpus cpus;                  /* cpus.text NULL: not restricted */
    long listen_port, listen_udp_port; /* 0: ready does not depend on such a port */
    uint64_t start_after_ns;           /* since the gate opened */
    uint64_t diagnose_after_ns;        /* since the release; 0: never */
    uint64_t grace_ns;                 /* between SIGTERM and SIGKILL */
    bool unprivileged;                 /* as in struct child_plan */
    bool linger;                       /* stay after the report until the controller hangs up */

    int control;                       /* -1: the controller is gone, and nothing more is sent */
    int signals;
    int gate_fd;                       /* -1: there is none */
    struct child child;                /* child.progress is -1 once that has ended */
    char failure[ERROR_BYTES];         /* why the child could not start; empty: it could, so far */

    bool traced;                       /* the child will stop after its exec, or has, and was not released yet */
    bool held;                         /* it has stopped there, and waits for its release */
    bool outside;                      /* it waits at the gate by itself */
    bool ready, stopping, ended;
    uint64_t release_ns;               /* when a held child is due; 0: the gate is closed, or nobody is held */
    uint64_t diagnose_ns;              /* when that is due; 0: not due */
    struct sockdiag *diagnosis;        /* NULL: not begun, or over */
    int64_t diag_retransmits;          /* -1: unknown */
    char diag_congestion[SOCKDIAG_NAME_BYTES]; /* empty: unknown */
    struct net_counters before;            /* when ready */
    struct net_counters ended_with, after; /* when the child had ended, and when its connections were diagnosed, too */
    uint64_t probe_ns, probe_every_ns; /* next look at the port; 0: none */
    uint64_t kill_ns;                  /* when SIGKILL is due; 0: not due */
    int netlink;                       /* what happens to the link since it was ready (netchanges.h) */
    int64_t wait_before_ns, wait_ns;   /* on a runqueue: when ready, and from then to its end; -1: unknown */
    uint64_t stopped_at_ns;            /* 0: it is not stopped */
    uint64_t stopped_ns;               /* by signals, after its release */
    char cpus_at_end[CPUS_TEXT];       /* where it might run then; empty: unknown */
    uint64_t end_ns;
    int status;                        /* as wait4 gave it */
    struct rusage usage;
};

static void send_event(struct launcher *launcher, struct json *event)
{
    if (launcher->control >= 0 && !control_send(launcher->control, event)) {
        close(launcher->control);
        launcher->control = -1;
    }
}

static void greet(struct launcher *launcher)
{
    struct json event;
    json_begin(&event, "hello");
    json_text(&event, "slot", launcher->slot);
    send_event(launcher, &event);
    if (launcher->control < 0)
        die("the controller is gone: nothing is launched");
}

static int fail(struct launcher *launcher)
{
    struct json event;
    json_begin(&event, "failed");
    json_text(&event, "slot", launcher->slot);
    json_text(&event, "error", launcher->failure);
    send_event(launcher, &event);
    complain("slot %s: %s", launcher->slot, launcher->failure);
    return STATUS_FAILED;
}

__attribute__((format(printf, 2, 3))) static bool note_failure(struct launcher *launcher, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(launcher->failure, sizeof launcher->failure, format, arguments);
    va_end(arguments);
    return false;
}

/* A count; -1: unknown. */
static void add_count(struct json *event, const char *key, int64_t count)
{
    if (count < 0)
        json_null(event, key);
    else
        json_integer(event, key, (uint64_t)count);
}

/* A text; empty: unknown. */
static void add_text(struct json *event, const char *key, const char *text)
{
    if (*text)
        json_text(event, key, text);
    else
        json_null(event, key);
}

/* What its network looks like at this moment (netfacts.h). */
static void add_network(struct json *event, const char *link)
{
    struct json network;
    json_begin(&network, "network");
    if (!link || !netfacts_add(&network, link)) {
        json_null(event, "network");
        return;
    }
    json_end(&network);
    json_object(event, "network", &network);
}

static unsigned link_index(const struct launcher *launcher)
{
    return launcher->link ? if_nametoindex(launcher->link) : 0;
}

static void report_end(struct launcher *launcher)
{
    uint64_t start_ns = atomic_load(launcher->child.start_ns);
    const struct rusage *usage = &launcher->usage;

    struct json event;
    json_begin(&event, "ended");
    json_text(&event, "slot", launcher->slot);
    json_moment(&event, "start_ns", start_ns);
    json_moment(&event, "end_ns", launcher->end_ns);
    if (WIFSIGNALED(launcher->status)) {
        json_null(&event, "exit_code");
        json_integer(&event, "signal", (uint64_t)WTERMSIG(launcher->status));
    } else {
        json_integer(&event, "exit_code", (uint64_t)WEXITSTATUS(launcher->status));
        json_null(&event, "signal");
    }
    json_number(&event, "user_s", (double)usage->ru_utime.tv_sec + (double)usage->ru_utime.tv_usec / 1e6);
    json_number(&event, "sys_s", (double)usage->ru_stime.tv_sec + (double)usage->ru_stime.tv_usec / 1e6);
    if (launcher->wait_ns < 0)
        json_null(&event, "runqueue_wait_s");
    else
        json_number(&event, "runqueue_wait_s", (double)launcher->wait_ns / NS_PER_S);
    json_number(&event, "stopped_s", (double)launcher->stopped_ns / NS_PER_S);
    json_integer(&event, "max_rss_bytes", (uint64_t)usage->ru_maxrss * 1024);
    json_integer(&event, "voluntary_switches", (uint64_t)usage->ru_nvcsw);
    json_integer(&event, "involuntary_switches", (uint64_t)usage->ru_nivcsw);
    const struct net_counters *before = &launcher->before, *after = &launcher->after;
    add_count(&event, "tcp_retransmits_before", before->tcp_retransmits);
    add_count(&event, "tcp_retransmits", net_counters_growth(before->tcp_retransmits, after->tcp_retransmits));
    add_count(&event, "tcp_retransmits_by_end",
              net_counters_growth(before->tcp_retransmits, launcher->ended_with.tcp_retransmits));
    add_count(&event, "syn_retransmits",
              net_counters_growth(before->syn_retransmits, launcher->ended_with.syn_retransmits));
    add_count(&event, "udp_receive_errors",
              net_counters_growth(before->udp_receive_errors, after->udp_receive_errors));
    add_count(&event, "diag_retransmits", launcher->diag_retransmits);
    add_text(&event, "diag_congestion_control", launcher->diag_congestion);
    add_text(&event, "cpus_at_end", launcher->cpus_at_end);
    add_count(&event, "rx_bytes", net_counters_growth(before->rx_bytes, after->rx_bytes));
    add_count(&event, "rx_packets", net_counters_growth(before->rx_packets, after->rx_packets));
    add_count(&event, "tx_bytes", net_counters_growth(before->tx_bytes, after->tx_bytes));
    add_count(&event, "tx_packets", net_counters_growth(before->tx_packets, after->tx_packets));
    add_count(&event, "link_changes", netchanges_end(launcher->netlink, link_index(launcher)));
    launcher->netlink = -1;
    add_network(&event, launcher->link);
    send_event(launcher, &event);
}

static void signal_group(const struct launcher *launcher, int number)
{
    /* Just after the fork the child may not have made its group yet; then it is alone. */
    if (kill(-launcher->child.pid, number) < 0 && !launcher->ended)
        kill(launcher->child.pid, number);
}

static void stop(struct launcher *launcher)
{
    if (launcher->stopping)
        return;
    launcher->stopping = true;
    launcher->probe_ns = launcher->release_ns = 0;
    if (launcher->traced) { /* any other signal would wait until the child is released */
        signal_group(launcher, SIGKILL);
        return;
    }
    launcher->kill_ns = monotonic_ns() + launcher->grace_ns;
    signal_group(launcher, SIGTERM);
}

/* held: how the child waits for the gate; urgency: how the launcher gets the CPU to release it; both NULL: no gate. */
static void announce_ready(struct launcher *launcher, const char *held, const char *urgency)
{
    launcher->probe_ns = 0;
    if (launcher->ready || launcher->stopping)
        return;
    launcher->ready = true;
    struct json event;
    json_begin(&event, "ready");
    json_text(&event, "slot", launcher->slot);
    json_integer(&event, "ns", monotonic_ns());
    if (held) {
        json_text(&event, "held", held);
        json_text(&event, "urgency", urgency);
    }
    char cpus[CPUS_TEXT] = "";
    cpus_allowed(launcher->child.pid, cpus);
    add_text(&event, "cpus", cpus);
    add_network(&event, launcher->link);
    launcher->netlink = launcher->link ? netchanges_begin() : -1;
    launcher->before = net_counters_read(launcher->link);
    launcher->wait_before_ns = schedstat_wait_ns(launcher->child.pid);
    send_event(launcher, &event);
    if (launcher->control < 0)
        stop(launcher);
}

static void read_control(struct launcher *launcher)
{
    switch (control_receive(launcher->control)) {
    case CONTROL_NOTHING:
        return;
    case CONTROL_GONE:
        close(launcher->control);
        launcher->control = -1;
        stop(launcher);
        return;
    case CONTROL_TERM:
        stop(launcher);
        return;
    }
}

static void read_signals(struct launcher *launcher)
{
    struct signalfd_siginfo received;
    if (read(launcher->signals, &received, sizeof received) != sizeof received)
        return;
    if (received.ssi_signo != SIGCHLD) /* ended children are checked for in every turn */
        stop(launcher);
}

static void plan_diagnosis(struct launcher *launcher, uint64_t released_ns)
{
    if (launcher->diagnose_after_ns)
        launcher->diagnose_ns = released_ns + launcher->diagnose_after_ns;
}

/* The child can report nothing more: it has become ARGV, or it is dead. */
static void progress_ended(struct launcher *launcher)
{
    close(launcher->child.progress);
    launcher->child.progress = -1;
    bool started = !*launcher->failure && atomic_load(launcher->child.start_ns);
    if (!started || launcher->stopping || launcher->ready)
        return;
    plan_diagnosis(launcher, atomic_load(launcher->child.start_ns));
    if (!launcher->listen_port && !launcher->listen_udp_port) {
        announce_ready(launcher, NULL, NULL);
        return;
    }
    launcher->probe_every_ns = FIRST_PROBE_NS;
    launcher->probe_ns = monotonic_ns() + launcher->probe_every_ns;
}

/* The child may not be traced, and waits at the gate by itself. */
static void wait_outside(struct launcher *launcher)
{
    launcher->traced = false;
    launcher->outside = true;
    announce_ready(launcher, "gate", "none");
}

static void read_progress(struct launcher *launcher)
{
    char bytes[ERROR_BYTES];
    ssize_t length = read(launcher->child.progress, bytes, sizeof bytes);
    if (length < 0 && errno == EINTR)
        return;
    if (length <= 0) {
        progress_ended(launcher);
        return;
    }
    size_t known = strlen(launcher->failure);
    for (ssize_t i = 0; i < length; i++) {
        if (bytes[i] == PROGRESS_AT_GATE)
            wait_outside(launcher);
        else if (known + 1 < sizeof launcher->failure)
            launcher->failure[known++] = bytes[i];
    }
}

/* The kernel gives no notice when a socket listens, so this must be polled. */
static void probe_ports(struct launcher *launcher)
{
    int tcp = launcher->listen_port ? tcp_port_is_listened_on((unsigned)launcher->listen_port) : 1;
    int udp = launcher->listen_udp_port && tcp == 1 ? udp_port_is_bound((unsigned)launcher->listen_udp_port) : 1;
    if (tcp == 1 && udp == 1) {
        announce_ready(launcher, NULL, NULL);
        return;
    }
    if (tcp < 0 || udp < 0) {
        note_failure(launcher, "cannot see whether port %ld is listened on: /proc/self/net/%s: %s",
                     tcp < 0 ? launcher->listen_port : launcher->listen_udp_port, tcp < 0 ? "tcp" : "udp",
                     strerror(errno));
        stop(launcher);
        return;
    }
    if (launcher->probe_every_ns < LAST_PROBE_NS)
        launcher->probe_every_ns += NS_PER_MS;
    launcher->probe_ns = monotonic_ns() + launcher->probe_every_ns;
}

static void take_stop(struct launcher *launcher, int status)
{
    switch (held_take_stop(launcher->child.pid, status)) {
    case HELD_NOT_YET:
        return;
    case HELD:
        launcher->held = true;
        announce_ready(launcher, "exec", urgency_raise());
        return;
    case HELD_UNSAFE:
        note_failure(launcher, "cannot hold %s: %s", launcher->argv[0], strerror(errno));
        stop(launcher);
        return;
    }
}

/* It runs, or it has ended: from here on the launcher is not urgent. */
static void hold_no_more(struct launcher *launcher)
{
    launcher->held = launcher->traced = false;
    launcher->release_ns = 0;
    urgency_lower();
}

/* The child runs again after a signal has stopped it, or it has ended. */
static void note_end_of_stop(struct launcher *launcher)
{
    if (launcher->stopped_at_ns)
        launcher->stopped_ns += monotonic_ns() - launcher->stopped_at_ns;
    launcher->stopped_at_ns = 0;
}

/* The end of the child, or a stop: of a traced child by its exec, else by a signal until the next SIGCONT. */
static void wait_for_leader(struct launcher *launcher)
{
    pid_t child = launcher->child.pid;
    siginfo_t ended = {.si_pid = 0};
    waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid == child) { /* what it has counted is gone once it is reaped */
        int64_t wait_ns = schedstat_wait_ns(child);
        bool known = launcher->ready && launcher->wait_before_ns >= 0 && wait_ns >= 0;
        launcher->wait_ns = known ? wait_ns - launcher->wait_before_ns : -1;
        cpus_allowed(child, launcher->cpus_at_end);
    }
    int status;
    if (wait4(child, &status, WNOHANG | WUNTRACED | WCONTINUED, &launcher->usage) != child)
        return;
    if (WIFSTOPPED(status) && launcher->traced) {
        take_stop(launcher, status);
        return;
    }
    if (WIFSTOPPED(status)) {
        if (!launcher->stopped_at_ns) /* else it went on, and was stopped again, before this launcher could look */
            launcher->stopped_at_ns = monotonic_ns();
        return;
    }
    note_end_of_stop(launcher);
    if (WIFCONTINUED(status))
        return;
    launcher->status = status;
    launcher->end_ns = monotonic_ns();
    launcher->ended = true;
    launcher->diagnose_ns = 0;
    hold_no_more(launcher);
    launcher->ended_with = launcher->ready ? net_counters_read(launcher->link) : launcher->before;
    launcher->after = launcher->ended_with;
    if (!launcher->diagnosis)
        return;
    launcher->diag_retransmits = sockdiag_end(launcher->diagnosis);
    launcher->diagnosis = NULL;
    /* After the sockets, which may still retransmit: the namespace has then counted all that they have. */
    launcher->after = net_counters_read(launcher->link);
}

/* The release itself: between the wake-up and the detach nothing can block. */
static void release(struct launcher *launcher)
{
    uint64_t now = monotonic_ns();
    launcher->release_ns = 0;
    if (!held_release(launcher->child.pid))
        return; /* it was killed: its end is about to be reported */
    atomic_store(launcher->child.start_ns, now);
    plan_diagnosis(launcher, now);
    hold_no_more(launcher);
}

/* The same moment, where the child waits by itself: only noted. */
static void note_release(struct launcher *launcher)
{
    launcher->outside = false;
    plan_diagnosis(launcher, monotonic_ns() + launcher->start_after_ns);
}

static void diagnose(struct launcher *launcher)
{
    launcher->diagnose_ns = 0;
    launcher->diagnosis = sockdiag_begin(launcher->child.pid, launcher->diag_congestion);
}

/* Whether anything of the child's group is left. As a subreaper the launcher adopts what the leader left behind,
   so it learns when those end, and while one is unreaped no other group can have this id. */
static bool group_is_left(struct launcher *launcher)
{
    pid_t reaped;
    do
        reaped = wait4(-launcher->child.pid, NULL, WNOHANG, NULL);
    while (reaped > 0);
    return reaped == 0;
}

static bool is_due(uint64_t at_ns)
{
    return at_ns && monotonic_ns() >= at_ns;
}

/* Of two moments, of which 0 is never. */
static uint64_t sooner(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns && (!other_ns || one_ns < other_ns) ? one_ns : other_ns;
}

static void wait_for_events(struct launcher *launcher)
{
    /* poll skips a descriptor of -1. After "ready" the child's progress is left unread until its end: at the release
       every launcher would wake for it, just when the children need the CPUs to start. */
    enum { GATE, CONTROL, SIGNALS, PROGRESS, SOURCES };
    bool gate_matters = (launcher->held && !launcher->release_ns) || (launcher->outside && launcher->diagnose_after_ns);
    struct pollfd source[SOURCES] = {
        [GATE] = {.fd = gate_matters && !launcher->stopping ? launcher->gate_fd : -1, .events = 0},
        [CONTROL] = {.fd = launcher->control, .events = POLLIN},
        [SIGNALS] = {.fd = launcher->signals, .events = POLLIN},
        [PROGRESS] = {.fd = launcher->ready ? -1 : launcher->child.progress, .events = POLLIN},
    };
    uint64_t next_ns = sooner(launcher->kill_ns, sooner(launcher->probe_ns, launcher->diagnose_ns));
    next_ns = sooner(next_ns, launcher->release_ns);
    struct timespec left = time_until(next_ns);
    if (ppoll(source, SOURCES, next_ns ? &left : NULL, NULL) <= 0)
        return;

    /* Messages of the controller come first: the kernel opens the gate of a dead controller too. (If it closes the
       gate before the control socket, the child starts, and is ended a moment later.) */
    if (gate_has_opened(source[GATE].revents) && !source[CONTROL].revents && !control_has_hung_up(launcher->control)) {
        if (launcher->held)
            launcher->release_ns = monotonic_ns() + launcher->start_after_ns;
        else
            note_release(launcher);
        return;
    }
    if (source[PROGRESS].revents)
        read_progress(launcher);
    if (source[CONTROL].revents)
        read_control(launcher);
    if (source[SIGNALS].revents)
        read_signals(launcher);
}

/* Until the child and all of its group have ended. */
static void watch(struct launcher *launcher)
{
    for (;;) {
        wait_for_events(launcher);
        if (is_due(launcher->release_ns))
            release(launcher);
        if (!launcher->ended)
            wait_for_leader(launcher);
        if (launcher->ended) {
            if (!group_is_left(launcher))
                return;
            stop(launcher);
        }
        if (is_due(launcher->probe_ns))
            probe_ports(launcher);
        if (is_due(launcher->diagnose_ns))
            diagnose(launcher);
        if (is_due(launcher->kill_ns)) {
            launcher->kill_ns = 0;
            signal_group(launcher, SIGKILL);
        }
    }
}

/* Until the controller hangs up, or a signal asks this launcher to end. */
static void linger(struct launcher *launcher)
{
    struct pollfd source[] = {{.fd = launcher->control, .events = POLLIN}, {.fd = launcher->signals, .events = POLLIN}};
    while (launcher->control >= 0) {
        if (poll(source, 2, -1) < 0)
            continue;
        if (source[0].revents && control_receive(launcher->control) == CONTROL_GONE)
            return; /* "term" is late: the child has ended */
        struct signalfd_siginfo received;
        if (source[1].revents && read(launcher->signals, &received, sizeof received) == sizeof received &&
            received.ssi_signo != SIGCHLD)
            return;
    }
}

static bool enter_netns(struct launcher *launcher)
{
    int netns = open(launcher->netns, O_RDONLY | O_CLOEXEC);
    if (netns < 0)
        return note_failure(launcher, "cannot open network namespace %s: %s", launcher->netns, strerror(errno));
    if (setns(netns, CLONE_NEWNET) < 0)
        return note_failure(launcher, "cannot enter network namespace %s: %s", launcher->netns, strerror(errno));
    close(netns);
    return true;
}

/* Another server on this port would be mistaken for the child. */
static bool ports_are_free(struct launcher *launcher)
{
    if (launcher->listen_port && tcp_port_is_listened_on((unsigned)launcher->listen_port) == 1)
        return note_failure(launcher, "port %ld is already listened on in this network namespace; choose another",
                            launcher->listen_port);
    if (launcher->listen_udp_port && udp_port_is_bound((unsigned)launcher->listen_udp_port) == 1)
        return note_failure(launcher, "UDP port %ld is already bound in this network namespace; choose another",
                            launcher->listen_udp_port);
    return true;
}

static bool open_output(struct launcher *launcher, const char *path, int *output)
{
    if (!path)
        return true;
    *output = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return *output >= 0 || note_failure(launcher, "cannot open %s for output: %s", path, strerror(errno));
}

/* Before "ready": a launcher that enters after the release would wait for ever. */
static bool enter_gate(struct launcher *launcher)
{
    launcher->gate_fd = gate_enter(launcher->gate);
    if (launcher->gate_fd < 0)
        return note_failure(launcher, "cannot open the gate %s: %s", launcher->gate, strerror(errno));
    launcher->traced = true;
    return gate_is_held(launcher->gate_fd) ||
           note_failure(launcher, "the gate %s has no writer: the controller must keep this FIFO open for writing",
                        launcher->gate);
}

static bool launch(struct launcher *launcher)
{
    struct child_plan plan = {
        .argv = launcher->argv,
        .gate = launcher->gate,
        .control = launcher->control,
        .start_after_ns = launcher->start_after_ns,
        .cgroups = launcher->cgroups,
        .cpus = launcher->cpus.text ? &launcher->cpus : NULL,
        .unprivileged = launcher->unprivileged,
        .stdout_fd = STDOUT_FILENO,
        .stderr_fd = STDERR_FILENO,
    };
    if (launcher->netns && !enter_netns(launcher))
        return false;
    if (!ports_are_free(launcher))
        return false;
    if (launcher->neighbour.any.sa_family)
        neighbour_resolve(&launcher->neighbour);
    plan.stdin_fd = open(launcher->stdin_file, O_RDONLY | O_CLOEXEC);
    if (plan.stdin_fd < 0)
        return note_failure(launcher, "cannot open %s for input: %s", launcher->stdin_file, strerror(errno));
    if (!open_output(launcher, launcher->stdout_file, &plan.stdout_fd) ||
        !open_output(launcher, launcher->stderr_file, &plan.stderr_fd))
        return false;
    if (launcher->gate && !enter_gate(launcher))
        return false;
    plan.gate_fd = launcher->gate_fd;
    int error = child_fork(&launcher->child, &plan);
    if (error)
        return note_failure(launcher, "cannot fork: %s", strerror(error));
    return true;
}

/* Before the fork: from here on SIGCHLD and the signals that stop wait for the loop to read them. */
static void prepare(struct launcher *launcher)
{
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    signal(SIGCHLD, SIG_DFL); /* if it was inherited as ignored, the kernel would reap in our place */
    launcher->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launcher->signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        die("cannot prepare to launch: %s", strerror(errno));
}

static void check_slot(const char *slot)
{
    if (strlen(slot) > SLOT_BYTES)
        die_usage("--slot is longer than %d bytes", SLOT_BYTES);
    for (const char *byte = slot; *byte; byte++)
        if (*byte < 0x20 || *byte > 0x7e)
            die_usage("--slot holds a byte that is not printable ASCII, at position %d", (int)(byte - slot) + 1);
}

static const char *parse(char **arguments, struct launcher *launcher)
{
    const char *control = NULL, *cpus = NULL, *neighbour = NULL;
    double start_after_s = 0, diagnose_after_s = 0, grace_s = GRACE_S;
    struct option options[] = {
        {"--control", OPTION_TEXT, &control, .required = true},
        {"--slot", OPTION_TEXT, &launcher->slot, .required = true},
        {"--gate", OPTION_TEXT, &launcher->gate, .required = false},
        {"--netns", OPTION_TEXT, &launcher->netns, .required = false},
        {"--link", OPTION_TEXT, &launcher->link, .required = false},
        {"--listen", OPTION_INTEGER, &launcher->listen_port, .min = 1, .max = 65535},
        {"--listen-udp", OPTION_INTEGER, &launcher->listen_udp_port, .min = 1, .max = 65535},
        {"--resolve", OPTION_TEXT, &neighbour, .required = false},
        {"--cpus", OPTION_TEXT, &cpus, .required = false},
        {"--cgroup", OPTION_TEXTS, launcher->cgroups, .required = false},
        {"--start-after", OPTION_SECONDS, &start_after_s, .min = 0, .max = 1e6},
        {"--diagnose-after", OPTION_SECONDS, &diagnose_after_s, .min = 0.001, .max = 1e6},
        {"--grace", OPTION_SECONDS, &grace_s, .min = 0.001, .max = 60},
        {"--unprivileged", OPTION_FLAG, &launcher->unprivileged, .required = false},
        {"--linger", OPTION_FLAG, &launcher->linger, .required = false},
        {"--stdin", OPTION_TEXT, &launcher->stdin_file, .required = false},
        {"--stdout", OPTION_TEXT, &launcher->stdout_file, .required = false},
        {"--stderr", OPTION_TEXT, &launcher->stderr_file, .required = false},
        {0},
    };
    launcher->argv = parse_options(arguments, options);
    if (!launcher->argv || !*launcher->argv)
        die_usage("no command to launch; give it after '--', as in: hold ... -- iperf -s");
    if (launcher->gate && (launcher->listen_port || launcher->listen_udp_port))
        die_usage("--gate and --listen%s exclude each other: at the gate nothing listens yet; leave one out",
                  launcher->listen_port ? "" : "-udp");
    if (start_after_s > 0 && !launcher->gate)
        die_usage("--start-after counts from the opening of the gate: give --gate, or leave it out");
    if (neighbour && !address_parse(&launcher->neighbour, neighbour, 9)) /* the discard port */
        die_usage("--resolve '%s' is no address", neighbour);
    if (cpus && !cpus_parse(&launcher->cpus, cpus))
        die_usage("--cpus '%s' is no list of CPUs such as 0,2-3", cpus);
    launcher->start_after_ns = (uint64_t)(start_after_s * 1e9);
    launcher->diagnose_after_ns = (uint64_t)(diagnose_after_s * 1e9);
    launcher->grace_ns = (uint64_t)(grace_s * 1e9);
    check_slot(launcher->slot);
    return control;
}

int hold_main(char **arguments)
{
    struct launcher launcher = {
        .gate_fd = -1, .netlink = -1, .stdin_file = "/dev/null", .diag_retransmits = -1, .before = NET_COUNTERS_UNKNOWN};
    const char *control = parse(arguments, &launcher);
    launcher.control = control_connect(control);
    greet(&launcher);
    prepare(&launcher);
    if (!launch(&launcher))
        return fail(&launcher);

    watch(&launcher);
    while (launcher.child.progress >= 0) /* all its writers are dead, so this ends */
        read_progress(&launcher);
    if (*launcher.failure)
        return fail(&launcher);
    report_end(&launcher);
    if (launcher.linger)
        linger(&launcher);
    return WIFSIGNALED(launcher.status) ? 128 + WTERMSIG(launcher.status) : WEXITSTATUS(launcher.status);
}
