/* flowgen: makes, receives and launches the flows of one measurement. Here: which subcommand. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "errors.h"

#define VERSION "0.3.0"

static const struct command {
    const char *name;
    int (*run)(char **arguments);
    const char *usage;
} commands[] = {
    {"server", server_main, "server --port P [--bind ADDR] [--udp] [--answer | --sends] [--token-file FILE]"},
    {"client", client_main,
     "client --connect ADDR:PORT (--duration SECONDS | --bytes N [--limit SECONDS]) [--flows K]\n"
     "               [--direction up|down|both] [--interval SECONDS] [--congestion NAME] [--write-bytes N]\n"
     "               [--stoppable] [--token-file FILE]\n"
     "       flowgen client --udp --connect ADDR:PORT --duration SECONDS [--rate BPS] [--flows K]\n"
     "               [--write-bytes N] [--token-file FILE]"},
    {"traffic", traffic_main,
     "traffic --server ADDR:PORT... --sizes FILE --load BPS (--requests N | --duration SECONDS)\n"
     "               [--fixed-gaps] [--fan-out SERVERS[=WEIGHT]]... [--connections K]\n"
     "               [--at-once N] [--seed N] [--limit SECONDS] [--within SECONDS] [--records FILE] [--token-file FILE]"},
    {"rr-server", rr_server_main, "rr-server --port P [--bind ADDR] [--udp] [--token-file FILE]"},
    {"rr", rr_main,
     "rr --connect ADDR:PORT --duration SECONDS [--warmup SECONDS] [--request-bytes N] [--response-bytes N]\n"
     "               [--rate PER_SECOND] [--connections K] [--connect-per-request | --udp [--timeout SECONDS]]\n"
     "               [--token-file FILE]"},
    {"all-to-all", all_to_all_main,
     "all-to-all --ranks ADDR:PORT,ADDR:PORT[,ADDR:PORT]... --rank I --duration SECONDS [--warmup SECONDS]\n"
     "               [--message-bytes N] [--wait] [--token-file FILE]"},
    {"hold", hold_main,
     "hold --control SOCK --slot NAME [--gate FIFO | [--listen PORT] [--listen-udp PORT]] [--netns PATH]\n"
     "               [--start-after SECONDS] [--cpus LIST] [--cgroup FOLDER]... [--diagnose-after SECONDS]\n"
     "               [--link NAME] [--resolve ADDR] [--grace SECONDS] [--unprivileged] [--linger]\n"
     "               [--stdin FILE] [--stdout FILE] [--stderr FILE] -- ARGV..."},
    {"pause", pause_main, "pause [--lifeline FIFO]"},
    {"busy", busy_main, "busy [--load SHARE]"},
    {"facts", facts_main, "facts --link NAME"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int print_help(void)
{
    for (int i = 0; i < COMMANDS; i++)
        printf("%s flowgen %s\n", i == 0 ? "usage:" : "      ", commands[i].usage);
    printf("       flowgen version\n"
           "\n"
           "server   receives TCP, and UDP too if asked, and prints one JSON line per flow that ends\n"
           "client   sends TCP at full rate, for a time or until all bytes have arrived, and prints JSON lines for\n"
           "         each flow: intervals, then the total; or UDP, for a time, and the total of what arrived;\n"
           "         down: a server with --sends does so, and the client prints what it received of it\n"
           "traffic  asks servers with --answer for flows of sizes from a CDF, at a load or one after the other, and\n"
           "         prints a JSON line of all; each flow is a record in FILE\n"
           "rr-server answers requests by TCP, or by UDP if asked, and prints one JSON line when it is stopped\n"
           "rr       sends requests, each when the response to the one before has come, or at a rate; prints, for each\n"
           "         connection, JSON lines: the buckets of a histogram of latencies, then the total\n"
           "all-to-all is rank I of several: in each round it sends a message to each other rank and receives as many;\n"
           "         prints the buckets of a histogram of how long rounds took, then the total; and with --wait waits for\n"
           "         SIGTERM then\n"
           "hold     starts ARGV when the gate opens, or so much later, and reports on it over the control socket\n"
           "pause    does nothing until SIGTERM, or until the FIFO has no writer any more; reaps orphans; the first process\n"
           "         of a container\n"
           "busy     uses all of a CPU's time, or that share of it in each 0.1 s, until SIGTERM\n"
           "facts    prints the settings of TCP and the offloads of a link, as JSON\n");
    return 0;
}

int main(int argc, char **argv)
{
    /* A closed pipe is an error to report (EPIPE), not a reason to die silently. */
    signal(SIGPIPE, SIG_IGN);

    if (argc < 2)
        die_usage("no command; there are: server, client, traffic, rr-server, rr, all-to-all, hold, pause, busy, facts,"
                  " version (see flowgen --help)");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))
        return print_help();
    if (!strcmp(argv[1], "version") || !strcmp(argv[1], "--version"))
        return puts("flowgen " VERSION) < 0;

    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name))
            continue;
        if (argc == 3 && !strcmp(argv[2], "--help"))
            return print_help();
        errors_name_command(commands[i].name);
        return commands[i].run(argv + 2);
    }
    die_usage("no command '%s'; there are: server, client, traffic, rr-server, rr, all-to-all, hold, pause, busy, facts,"
              " version", argv[1]);
}
