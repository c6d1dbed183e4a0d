#include "placement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Reads a number at *text and moves *text behind it. False: there is none, or it cannot be a CPU. */
static bool take_cpu(const char **text, long *cpu)
{
    size_t digits = strspn(*text, "0123456789");
    if (digits < 1 || digits > 5)
        return false;
    *cpu = strtol(*text, NULL, 10);
    *text += digits;
    return *cpu < MAX_CPUS;
}

bool cpus_parse(struct cpus *cpus, const char *text)
{
    cpus->text = text;
    CPU_ZERO_S(sizeof cpus->sets, cpus->sets);
    for (;; text++) {
        long first, last;
        if (!take_cpu(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!take_cpu(&text, &last) || last < first)
                return false;
        }
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET_S((size_t)cpu, sizeof cpus->sets, cpus->sets);
        if (*text != ',')
            return !*text;
    }
}

bool cpus_apply(const struct cpus *cpus)
{
    return sched_setaffinity(0, sizeof cpus->sets, cpus->sets) == 0;
}

bool cpus_allowed(pid_t process, char text[CPUS_TEXT])
{
    static const char key[] = "Cpus_allowed_list:";
    char path[64], line[CPUS_TEXT];
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *status = fopen(path, "re");
    if (!status)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, status)) {
        found = !strncmp(line, key, sizeof key - 1);
        if (found) {
            const char *list = line + sizeof key - 1;
            list += strspn(list, " \t");
            snprintf(text, CPUS_TEXT, "%.*s", (int)strcspn(list, "\n"), list);
        }
    }
    fclose(status);
    return found;
}

bool cgroup_join(const char *folder)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/cgroup.procs", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    int processes = open(path, O_WRONLY | O_CLOEXEC);
    if (processes < 0)
        return false;
    /* 0 is the process that writes: its id may be another where the cgroups are counted (cgroups(7)). */
    ssize_t written = write(processes, "0", 1);
    int error = errno;
    close(processes);
    errno = error;
    return written == 1;
}
