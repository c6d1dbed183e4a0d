/* The flows of traffic in a file, a record each, written as they end: lib/pairlab/model/flow_records.py reads it. */
#ifndef FLOWGEN_FLOWRECORDS_H
#define FLOWGEN_FLOWRECORDS_H

#include <stdint.h>

/* In the machine's byte order. Moments are as monotonic.h tells them, in ns; 0: it did not come to that. */
struct flow_record {
    uint64_t flow_bytes;      /* asked for */
    uint64_t received_bytes;
    uint64_t intended_ns;     /* when it was due; of a closed loop, when the one before had ended */
    uint64_t start_ns;        /* when it was asked for: later than due where all connections were busy */
    uint64_t first_byte_ns;
    uint64_t completed_ns;    /* 0: it failed */
    uint32_t request;         /* from 0; its flows are due at once */
    uint16_t server;          /* from 0, in the order they were given */
    uint16_t error;           /* errno of a flow that failed, else 0 */
    uint64_t reserved;        /* 0 */
};

_Static_assert(sizeof(struct flow_record) == 64, "a record has 64 bytes");

/* What the file begins with, filled with zeros to the length of a record. */
#define FLOW_RECORDS_HEADING "flowgen traffic 1\n"

struct flow_records;

/* NULL for a path of NULL: then nothing is written. Ends the program where it cannot write. */
struct flow_records *flow_records_open(const char *path);
void flow_records_add(struct flow_records *records, const struct flow_record *record);
void flow_records_close(struct flow_records *records);

#endif
