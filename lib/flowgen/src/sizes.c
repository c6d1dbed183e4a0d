#include "sizes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

enum { LINE_BYTES = 512, MOST_POINTS = 1000000 };

static const double MOST_SIZE = 1e15, TOLERANCE = 1e-6;

/* False: it is no number, and nothing but one. */
static bool number_from(const char *word, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(word, &end);
    return *word && !word[strspn(word, "0123456789.eE+-")] && !*end && isfinite(*number) && !(errno && *number != 0);
}

/* The words of the line, of which there may be more than `most`. */
static size_t split(char *line, char **words, size_t most)
{
    size_t count = 0;
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (count < most)
            words[count] = word;
        count++;
    }
    return count;
}

static void add(struct sizes *sizes, struct size_point point, const char *name, unsigned line)
{
    const struct size_point *before = sizes->count ? &sizes->points[sizes->count - 1] : NULL;
    if (point.size < 0 || point.size > MOST_SIZE)
        die("%s, line %u: the size %.12g is not from 0 to %g bytes; correct the line", name, line, point.size,
            MOST_SIZE);
    if (point.share < 0 || point.share > 1 + TOLERANCE)
        die("%s, line %u: the share %.12g is not from 0 to 1; shares in percent must be divided by 100", name, line,
            point.share);
    if (before && point.size < before->size)
        die("%s, line %u: sizes fall from %.12g to %.12g; sort the lines by size, the smallest first", name, line,
            before->size, point.size);
    if (before && point.share < before->share && point.share < 1)
        die("%s, line %u: the CDF falls from %.12g to %.12g; give cumulative shares, each no less than the one before",
            name, line, before->share, point.share);
    if (sizes->count == MOST_POINTS)
        die("%s has more than %d points; a CDF is joined by straight lines, so that fewer do", name, MOST_POINTS);
    if (!(sizes->count & (sizes->count - 1))) { /* a power of two: it is full */
        size_t room = sizes->count ? 2 * sizes->count : 1;
        sizes->points = realloc(sizes->points, room * sizeof *sizes->points);
        if (!sizes->points)
            die("out of memory for the points of %s", name);
    }
    sizes->points[sizes->count++] = point;
}

void sizes_parse(struct sizes *sizes, FILE *file, const char *name)
{
    char text[LINE_BYTES];
    *sizes = (struct sizes){0};
    for (unsigned line = 1; fgets(text, sizeof text, file); line++) {
        if (!strchr(text, '\n') && !feof(file))
            die("%s, line %u is longer than %d bytes; give a size and a cumulative share", name, line, LINE_BYTES - 2);
        char *words[3];
        struct size_point point;
        size_t count = split(text, words, 3);
        if (!count)
            continue;
        if (count != 2 && count != 3)
            die("%s, line %u has %zu columns; give a size and a cumulative share, or a count between the two", name,
                line, count);
        if (!number_from(words[0], &point.size) || !number_from(words[count - 1], &point.share))
            die("%s, line %u has no numbers; give a size and a cumulative share", name, line);
        add(sizes, point, name, line);
    }
    if (ferror(file))
        die("cannot read the CDF %s: %s", name, strerror(errno));
    if (!sizes->count)
        die("%s has no points; write a line for each, with a size and a cumulative share", name);
    struct size_point *last = &sizes->points[sizes->count - 1];
    if (last->share < 1 - TOLERANCE)
        die("%s: the CDF ends at %.12g, not at 1; add a last line with the largest size and 1", name, last->share);
    for (struct size_point *point = sizes->points; point <= last; point++)
        point->share = point == last || point->share > 1 ? 1 : point->share;
    if (sizes_at(sizes, 1e-300) == 0)
        die("%s: flows of 0 bytes have a share above 0; give the smallest size that a flow has", name);
}

void sizes_read(struct sizes *sizes, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        die("cannot read the CDF %s: %s", path, strerror(errno));
    sizes_parse(sizes, file, path);
    fclose(file);
}

uint64_t sizes_at(const struct sizes *sizes, double share)
{
    size_t low = 0, high = sizes->count - 1; /* the first point whose share is no less is among these */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sizes->points[middle].share < share)
            low = middle + 1;
        else
            high = middle;
    }
    const struct size_point *above = &sizes->points[low];
    if (!low)
        return (uint64_t)ceil(above->size);
    const struct size_point *below = above - 1;
    double part = (share - below->share) / (above->share - below->share);
    double size = ceil(below->size + part * (above->size - below->size));
    return size < 1 && above->size > 0 ? 1 : (uint64_t)size;
}

void sizes_free(struct sizes *sizes)
{
    free(sizes->points);
}
