/* bitmap.c: sets of CPUs and of memory nodes, and their lists in words. */
#include "base/bitmap.h"

#include <stdio.h>
#include <string.h>

void bitset_and(struct bitset *a, const struct bitset *b)
{
    for (int i = 0; i < BITSET_WORDS; i++)
        a->words[i] &= b->words[i];
}

void bitset_or(struct bitset *a, const struct bitset *b)
{
    for (int i = 0; i < BITSET_WORDS; i++)
        a->words[i] |= b->words[i];
}

void bitset_without(struct bitset *a, const struct bitset *b)
{
    for (int i = 0; i < BITSET_WORDS; i++)
        a->words[i] &= ~b->words[i];
}

bool bitset_empty(const struct bitset *set)
{
    return bitset_next(set, 0) < 0;
}

bool bitset_equal(const struct bitset *a, const struct bitset *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool bitset_intersects(const struct bitset *a, const struct bitset *b)
{
    for (int i = 0; i < BITSET_WORDS; i++)
        if ((a->words[i] & b->words[i]) != 0)
            return true;
    return false;
}

bool bitset_inside(const struct bitset *inner, const struct bitset *outer)
{
    for (int i = 0; i < BITSET_WORDS; i++)
        if ((inner->words[i] & ~outer->words[i]) != 0)
            return false;
    return true;
}

int bitset_count(const struct bitset *set)
{
    int count = 0;
    for (int i = 0; i < BITSET_WORDS; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

int bitset_next(const struct bitset *set, int from)
{
    if (from < 0 || from >= BITSET_BITS)
        return -1;
    int at = from / 64;
    uint64_t word = set->words[at] & ~UINT64_C(0) << (from % 64);
    while (word == 0 && ++at < BITSET_WORDS)
        word = set->words[at];
    return word == 0 ? -1 : at * 64 + __builtin_ctzll(word);
}

const char *bitset_text(const struct bitset *set, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int first = bitset_next(set, 0); first >= 0;) {
        char part[32];
        int last = first;
        while (bitset_has(set, last + 1))
            last++;
        int next = bitset_next(set, last + 1);
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

/* A number at *atp, which is moved behind it; -1 where there is none, BITSET_BITS where it is larger. */
static int read_member(const char **atp)
{
    int member = 0;
    const char *at = *atp;
    if (*at < '0' || *at > '9')
        return -1;
    for (; *at >= '0' && *at <= '9'; at++)
        member = member >= BITSET_BITS ? BITSET_BITS : member * 10 + (*at - '0');
    *atp = at;
    return member < BITSET_BITS ? member : BITSET_BITS;
}

int bitset_parse(const char *text, struct bitset *set, const char **whyp)
{
    struct bitset read = {{0}};
    const char *at = text;
    while (*at != 0 && *at != '\n') {
        int first = read_member(&at);
        int last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = read_member(&at);
        }
        if (first < 0 || last < 0) {
            *whyp = "is not a list of numbers";
            return -1;
        }
        if (first >= BITSET_BITS || last >= BITSET_BITS) {
            *whyp = "holds a number of 4096 or more";
            return -1;
        }
        if (last < first) {
            *whyp = "holds a range that ends before it begins";
            return -1;
        }
        for (int member = first; member <= last; member++)
            bitset_add(&read, member);
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
