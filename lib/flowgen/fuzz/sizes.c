/* The CDF of flow sizes: any text at all. What is refused is refused in one line; of what is taken, sizes never fall as
   shares rise, and every flow has a byte. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../src/sizes.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run run;
    static struct sizes sizes;
    FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;
    if (!file)
        return 0;
    sizes = (struct sizes){0};
    RUN(&run, sizes_parse(&sizes, file, "cdf"));
    fclose(file);
    if (run.exited) {
        MUST(run.status == 1 && !strncmp(run.err, "flowgen", 7));
        MUST(strchr(run.err, '\n') && strchr(run.err, '\n')[1] == '\0');
    } else {
        uint64_t before = 1;
        for (double share = 0x1p-53; share <= 1; share = share < 0.01 ? share * 8 : share + 0.0625) {
            uint64_t drawn = sizes_at(&sizes, share);
            MUST(drawn >= before && drawn <= 1000000000000000);
            before = drawn;
        }
        MUST(sizes_at(&sizes, 1) == (uint64_t)fmax(1, ceil(sizes.points[sizes.count - 1].size)));
    }
    sizes_free(&sizes);
    return 0;
}
