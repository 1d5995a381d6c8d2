/* bitmap.c: sets of CPUs and of memory nodes, and their text form. */
#include "topo/bitmap.h"

#include <stdio.h>
#include <string.h>

void bitmap_and(struct bitmap *a, const struct bitmap *b)
{
    for (int i = 0; i < BITMAP_WORDS; i++)
        a->words[i] &= b->words[i];
}

void bitmap_or(struct bitmap *a, const struct bitmap *b)
{
    for (int i = 0; i < BITMAP_WORDS; i++)
        a->words[i] |= b->words[i];
}

bool bitmap_is_empty(const struct bitmap *set)
{
    return bitmap_find_next(set, 0) < 0;
}

bool bitmap_is_equal(const struct bitmap *a, const struct bitmap *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool bitmap_intersects(const struct bitmap *a, const struct bitmap *b)
{
    for (int i = 0; i < BITMAP_WORDS; i++)
        if ((a->words[i] & b->words[i]) != 0)
            return true;
    return false;
}

bool bitmap_is_included(const struct bitmap *inner, const struct bitmap *outer)
{
    for (int i = 0; i < BITMAP_WORDS; i++)
        if ((inner->words[i] & ~outer->words[i]) != 0)
            return false;
    return true;
}

int bitmap_weight(const struct bitmap *set)
{
    int count = 0;
    for (int i = 0; i < BITMAP_WORDS; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

int bitmap_find_next(const struct bitmap *set, int from)
{
    if (from < 0 || from >= BITMAP_BITS)
        return -1;
    int at = from / 64;
    uint64_t word = set->words[at] & ~UINT64_C(0) << (from % 64);
    while (word == 0 && ++at < BITMAP_WORDS)
        word = set->words[at];
    return word == 0 ? -1 : at * 64 + __builtin_ctzll(word);
}

const char *bitmap_text(const struct bitmap *set, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int first = bitmap_find_next(set, 0); first >= 0;) {
        char part[32];
        int last = first;
        while (bitmap_is_set(set, last + 1))
            last++;
        int next = bitmap_find_next(set, last + 1);
        int part_bytes = snprintf(part, sizeof(part), "%s%d", used > 0 ? "," : "", first);
        if (last > first)
            part_bytes += snprintf(part + part_bytes, sizeof(part) - (size_t)part_bytes, "-%d", last);
        if (used + (size_t)part_bytes + (next >= 0 ? sizeof("...") : 1) > text_bytes) {
            snprintf(text + used, text_bytes - used, "...");
            break;
        }
        memcpy(text + used, part, (size_t)part_bytes + 1);
        used += (size_t)part_bytes;
        first = next;
    }
    return text;
}

/* Read a number at *atp and advance *atp past it. Returns -1 if there is none, and BITMAP_BITS if it is
 * larger. */
static int read_index(const char **atp)
{
    int member = 0;
    const char *at = *atp;
    if (*at < '0' || *at > '9')
        return -1;
    for (; *at >= '0' && *at <= '9'; at++)
        member = member >= BITMAP_BITS ? BITMAP_BITS : member * 10 + (*at - '0');
    *atp = at;
    return member < BITMAP_BITS ? member : BITMAP_BITS;
}

int bitmap_parse(const char *text, struct bitmap *set, const char **whyp)
{
    struct bitmap read = {{0}};
    const char *at = text;
    while (*at != 0 && *at != '\n') {
        int first = read_index(&at);
        int last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = read_index(&at);
        }
        if (first < 0 || last < 0) {
            *whyp = "is not a list of numbers";
            return -1;
        }
        if (first >= BITMAP_BITS || last >= BITMAP_BITS) {
            *whyp = "holds a number of 4096 or more";
            return -1;
        }
        if (last < first) {
            *whyp = "holds a range that ends before it begins";
            return -1;
        }
        for (int member = first; member <= last; member++)
            bitmap_set(&read, member);
        if (*at == ',' && at[1] != 0 && at[1] != '\n')
            at++;
        else if (*at != 0 && *at != '\n') {
            *whyp = "is not a list of numbers";
            return -1;
        }
    }
    if (*at == '\n' && at[1] != 0) {
        *whyp = "is of more than one line";
        return -1;
    }
    *set = read;
    return 0;
}
