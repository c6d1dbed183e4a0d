/* Where a process may run: its CPUs, and its cgroups. */
#ifndef FLOWGEN_PLACEMENT_H
#define FLOWGEN_PLACEMENT_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { MAX_CPUS = 8192, CPUS_TEXT = 1024 };

struct cpus {
    const char *text;  /* as it was given, for messages; NULL: any */
    cpu_set_t sets[MAX_CPUS / CPU_SETSIZE];
};

/* "0,2-3", as taskset(1) and the kernel write it. False: it is no such list. */
bool cpus_parse(struct cpus *cpus, const char *text);

/* The calling process, and what it forks and execs. False, with errno. */
bool cpus_apply(const struct cpus *cpus);

/* The CPUs on which that process may run, as /proc has them. False: it does not say. */
bool cpus_allowed(pid_t process, char text[CPUS_TEXT]);

/* The calling process joins the cgroup in this folder. False, with errno. */
bool cgroup_join(const char *folder);

#endif
