#include "descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void descriptors_allow_many(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Before Linux 5.11, and where a seccomp filter does not know close_range(2). */
static bool mark_each(void)
{
    DIR *table = opendir("/proc/self/fd");
    if (!table)
        return false;
    bool marked = true;
    for (struct dirent *entry; (entry = readdir(table));) {
        int fd = atoi(entry->d_name); /* 0 of . and .. */
        if (fd > STDERR_FILENO && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            marked = false;
    }
    int error = errno;
    closedir(table);
    errno = error;
    return marked;
}

bool descriptors_close_on_exec(void)
{
    enum { CLOEXEC = 1 << 2 }; /* CLOSE_RANGE_CLOEXEC, which older headers lack, and the system call, too */
#ifdef SYS_close_range
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOEXEC) == 0)
        return true;
#endif
    return mark_each();
}
