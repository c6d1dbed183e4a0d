#include "schedstat.h"

#include <inttypes.h>
#include <stdio.h>

int64_t schedstat_wait_ns(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)process);
    FILE *counts = fopen(path, "re");
    if (!counts)
        return -1;
    int64_t wait_ns;
    if (fscanf(counts, "%*d %" SCNd64, &wait_ns) != 1)
        wait_ns = -1;
    fclose(counts);
    return wait_ns;
}
