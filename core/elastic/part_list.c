/* part_list.c: the parts of a state as text, by which ranks find out which of them differ. */
#include "config.h"
#include "elastic/part_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

char *part_list_write(const struct commits *commits, size_t *lengthp)
{
    size_t room = 1, used = 0;
    for (int i = 0; i < commits_count(commits); i++)
        room += strlen(commits_part(commits, i)->name) + 24;
    char *text = calloc(1, room);
    for (int i = 0; text != NULL && i < commits_count(commits); i++) {
        const struct commits_part *part = commits_part(commits, i);
        used += (size_t)snprintf(text + used, room - used, "%" PRId64 " %s\n", part->bytes, part->name);
    }
    *lengthp = used;
    return text;
}

/* A part of a list, or the place after its last one. */
struct list_line {
    const char *start;
    size_t length; /* 0: the list has ended */
};

static struct list_line line_at(const char *start, const char *end)
{
    const char *stop = start < end ? memchr(start, '\n', (size_t)(end - start)) : NULL;
    return (struct list_line){start, stop == NULL ? 0 : (size_t)(stop - start)};
}

#define MOST_DIGITS 19 /* of an int64_t */

/* Is it a number, a space and a name, as part_list_write writes them? */
static bool is_part(const struct list_line *line, size_t digits)
{
    bool good = digits > 0 && digits <= MOST_DIGITS && digits < line->length && line->start[digits] == ' ' &&
                line->length - digits - 1 <= HVD_MAX_NAME;
    for (size_t i = digits; good && i < line->length; i++)
        good = is_printable_byte((unsigned char)line->start[i]);
    return good;
}

/* Write `"NAME", 8 bytes`, `missing` or, if a rank has sent something else, `damaged`. */
static void describe(const struct list_line *line, char *text, size_t text_bytes)
{
    size_t digits = 0;
    while (digits < line->length && line->start[digits] >= '0' && line->start[digits] <= '9')
        digits++;
    if (line->length == 0)
        snprintf(text, text_bytes, "missing");
    else if (!is_part(line, digits))
        snprintf(text, text_bytes, "damaged");
    else
        snprintf(text, text_bytes, "\"%.*s\", %.*s bytes,", (int)(line->length - digits - 1),
                 line->start + digits + 1, (int)digits, line->start);
}

/* Compare a rank's list with that of rank 0. */
static int compare_lists(const char *call, const char *lists[2], const char *ends[2], int rank,
                         struct hvd_error *err)
{
    char texts[2][160];
    for (int part = 1;; part++) {
        struct list_line first = line_at(lists[0], ends[0]), other = line_at(lists[1], ends[1]);
        if (first.length == 0 && other.length == 0)
            return HVD_OK;
        if (first.length != other.length || memcmp(first.start, other.start, first.length) != 0) {
            describe(&first, texts[0], sizeof(texts[0]));
            describe(&other, texts[1], sizeof(texts[1]));
            return error_set(
                err, HVD_ERR_MISMATCH,
                "%s: part %d of the state is %s on rank 0, and %s on rank %d; add the same parts "
                "in the same order on all ranks",
                call, part, texts[0], texts[1], rank);
        }
        lists[0] = first.start + first.length + 1;
        lists[1] = other.start + other.length + 1;
    }
}

int part_list_compare(const char *call, const char *all, const int64_t *lengths, int ranks,
                      struct hvd_error *err)
{
    const char *next = all + lengths[0];
    int rc = HVD_OK;
    for (int rank = 1; rc == HVD_OK && rank < ranks; rank++) {
        const char *lists[2] = {all, next}, *ends[2] = {all + lengths[0], next + lengths[rank]};
        rc = compare_lists(call, lists, ends, rank, err);
        next += lengths[rank];
    }
    return rc;
}
