/* bitmap.h: a set of CPUs or of memory nodes, by the operating system's numbers. Its size is fixed, so it can
 * be assigned and sent through a pipe, and it needs no library. */
#ifndef TOPO_BITMAP_H
#define TOPO_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITMAP_BITS       4096 /* members are 0 to BITMAP_BITS - 1; machines with more CPUs are refused */
#define BITMAP_WORDS      (BITMAP_BITS / 64)
#define BITMAP_TEXT_BYTES 12288 /* the longest list: every other CPU */

struct bitmap {
    uint64_t words[BITMAP_WORDS];
};

static inline void bitmap_set(struct bitmap *set, int member)
{
    set->words[member / 64] |= UINT64_C(1) << (member % 64);
}

static inline void bitmap_clear(struct bitmap *set, int member)
{
    set->words[member / 64] &= ~(UINT64_C(1) << (member % 64));
}

static inline bool bitmap_is_set(const struct bitmap *set, int member)
{
    return member >= 0 && member < BITMAP_BITS && (set->words[member / 64] >> (member % 64) & 1) != 0;
}

/* a = a and b; a = a or b */
void bitmap_and(struct bitmap *a, const struct bitmap *b);
void bitmap_or(struct bitmap *a, const struct bitmap *b);

bool bitmap_is_empty(const struct bitmap *set);
bool bitmap_is_equal(const struct bitmap *a, const struct bitmap *b);
bool bitmap_intersects(const struct bitmap *a, const struct bitmap *b);
bool bitmap_is_included(const struct bitmap *inner, const struct bitmap *outer);
int bitmap_weight(const struct bitmap *set);

/* The first member at or after [from], or -1 if there is none. To visit all members:
 *  for (int i = bitmap_find_next(s, 0); i >= 0; i = bitmap_find_next(s, i + 1)) */
int bitmap_find_next(const struct bitmap *set, int from);

/* Write the set as "0-3,64-67" into [text] and return [text]. The empty set is "". A list that does not fit
 * ends in "..."; BITMAP_TEXT_BYTES always suffice. */
const char *bitmap_text(const struct bitmap *set, char *text, size_t text_bytes);

/* Read such a list: numbers and ranges in any order, separated by commas, with an optional final newline as
 * in /sys; "" is the empty set. Returns 0, or -1 with *set unchanged and *whyp a phrase ("is too large",
 * ...). */
int bitmap_parse(const char *text, struct bitmap *set, const char **whyp);

#endif
