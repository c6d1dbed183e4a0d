/* The kernel's tables of counters: any bytes, and tables of any columns in which the wanted number is known. */
#include "fuzz.h"

#include "../src/netcounters.c"

enum { COLUMNS = 64, TABLE_BYTES = 4096 };

static int64_t count_in(const char *text, size_t length)
{
    int64_t count = -1;
    const struct wanted wanted[] = {{"TcpExt:", "TCPSynRetrans", &count}, {0}};
    FILE *tables = fmemopen((char *)text, length, "r");
    MUST(tables != NULL);
    read_tables(tables, wanted);
    fclose(tables);
    return count;
}

static void check_any(const uint8_t *data, size_t size)
{
    static const char head[] = "TcpExt: TCPSynRetrans\nTcpExt: ";
    char *text = malloc(sizeof head + size);
    MUST(text != NULL);
    memcpy(text, head, sizeof head - 1);
    take_bytes(&(struct input){data, size}, text + sizeof head - 1, size);
    MUST(count_in(text, sizeof head - 1 + size) >= -1);
    if (size)
        MUST(count_in(text + sizeof head - 1, size) >= -1);
    free(text);
}

/* Other tables and other columns before it and after it; names may begin or end as the wanted one does. */
static void check_known(struct input *input)
{
    static const char *const others[] = {"TCPSynRetran", "TCPSynRetransX", "XTCPSynRetrans", "A", "TcpExt", "-"};
    enum { OTHERS = sizeof others / sizeof *others };
    char text[TABLE_BYTES], values[TABLE_BYTES / 2];
    const size_t columns = take_byte(input) % COLUMNS, place = take_byte(input) % COLUMNS;
    const int64_t known = (int64_t)(take_number(input, 8) >> 1);
    int length = snprintf(text, sizeof text, "Tcp: TCPSynRetrans\nTcp: 7\nTcpExt:"), tail = 0;
    for (size_t i = 0; i < columns; i++) {
        const bool wanted = i == place;
        length += snprintf(text + length, sizeof text - (size_t)length, " %s",
                           wanted ? "TCPSynRetrans" : others[take_byte(input) % OTHERS]);
        tail += snprintf(values + tail, sizeof values - (size_t)tail, " %" PRId64,
                         wanted ? known : (int64_t)take_byte(input));
    }
    length += snprintf(text + length, sizeof text - (size_t)length, "\nTcpExt:%s\nIpExt: TCPSynRetrans\nIpExt: 8\n",
                       tail ? values : "");
    MUST(length < TABLE_BYTES);
    MUST(count_in(text, (size_t)length) == (place < columns ? known : -1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    check_any(data, size);
    check_known(&input);
    return 0;
}
