/* bitmap.h: a set of CPUs or of memory nodes by their numbers in the operating system; of fixed size, so that
 * it is copied by assignment, goes through a pipe and needs no library. */
#ifndef BASE_BITMAP_H
#define BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITSET_BITS       4096 /* members are 0 to BITSET_BITS - 1; machines with more CPUs are refused */
#define BITSET_WORDS      (BITSET_BITS / 64)
#define BITSET_TEXT_BYTES 12288 /* the longest list: every other CPU */

struct bitset {
    uint64_t words[BITSET_WORDS];
};

static inline void bitset_add(struct bitset *set, int member)
{
    set->words[member / 64] |= UINT64_C(1) << (member % 64);
}

static inline void bitset_remove(struct bitset *set, int member)
{
    set->words[member / 64] &= ~(UINT64_C(1) << (member % 64));
}

static inline bool bitset_has(const struct bitset *set, int member)
{
    return member >= 0 && member < BITSET_BITS && (set->words[member / 64] >> (member % 64) & 1) != 0;
}

/* a = a and b; a = a or b; a = a without b */
void bitset_and(struct bitset *a, const struct bitset *b);
void bitset_or(struct bitset *a, const struct bitset *b);
void bitset_without(struct bitset *a, const struct bitset *b);

bool bitset_empty(const struct bitset *set);
bool bitset_equal(const struct bitset *a, const struct bitset *b);
bool bitset_intersects(const struct bitset *a, const struct bitset *b);
bool bitset_inside(const struct bitset *inner, const struct bitset *outer);
int bitset_count(const struct bitset *set);

/* The first member at or after [from], or -1: for (int i = bitset_next(s, 0); i >= 0; i = bitset_next(s, i +
 * 1)) */
int bitset_next(const struct bitset *set, int from);

/* "0-3,64-67" into [text], which is returned; "" of the empty set. Of what does not fit, "..." stands at the
 * end; BITSET_TEXT_BYTES always fit. */
const char *bitset_text(const struct bitset *set, char *text, size_t text_bytes);

/* Read such a list: numbers and ranges in any order, commas between, and a final newline as /sys has it; ""
 * is the empty set. Returns 0; or -1 with *set unchanged and *whyp a phrase ("is too large", ...). */
int bitset_parse(const char *text, struct bitset *set, const char **whyp);

#endif
