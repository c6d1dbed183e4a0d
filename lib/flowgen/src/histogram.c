#include "histogram.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct histogram *histogram_make(size_t count)
{
    size_t bytes = count * sizeof(struct histogram);
    int file = memfd_create(HISTOGRAM_FILE, MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) {
        void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
        if (made != MAP_FAILED)
            return made;
    }
    if (file >= 0)
        close(file);
    return calloc(count, sizeof(struct histogram));
}
