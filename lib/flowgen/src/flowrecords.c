#include "flowrecords.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "monotonic.h"

enum { BUFFER_BYTES = 256 * 1024 };

struct flow_records {
    FILE *file;
    const char *path;
    char buffer[BUFFER_BYTES];
};

static void must_write(struct flow_records *records, bool written)
{
    if (!written)
        die("cannot write the flows to %s: %s; make room, or choose another --records", records->path, strerror(errno));
}

struct flow_records *flow_records_open(const char *path)
{
    if (!path)
        return NULL;
    struct flow_records *records = calloc(1, sizeof *records);
    if (!records)
        die("out of memory for the buffer of %s", path);
    records->path = path;
    records->file = fopen(path, "we");
    must_write(records, records->file);
    setvbuf(records->file, records->buffer, _IOFBF, sizeof records->buffer);
    char heading[sizeof(struct flow_record)] = FLOW_RECORDS_HEADING;
    must_write(records, fwrite(heading, sizeof heading, 1, records->file) == 1);
    return records;
}

void flow_records_add(struct flow_records *records, const struct flow_record *record)
{
    if (!records)
        return;
    struct flow_record told = *record;
    uint64_t *moments[] = {&told.intended_ns, &told.start_ns, &told.first_byte_ns, &told.completed_ns};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        if (*moments[i])
            *moments[i] = moment_told(*moments[i]);
    must_write(records, fwrite(&told, sizeof told, 1, records->file) == 1);
}

void flow_records_close(struct flow_records *records)
{
    if (!records)
        return;
    must_write(records, fclose(records->file) == 0);
    free(records);
}
