/* stragglers.h: find the ranks that submitted operations last, how often, and what that cost the others. Does
 * no I/O. */
#ifndef TOOLS_HVDINFO_STRAGGLERS_H
#define TOOLS_HVDINFO_STRAGGLERS_H

#include <stdint.h>

/* One rank submitted one operation. */
struct arrival {
    int rank;
    int set;
    int64_t number; /* sequence number of the operation in its process set, equal on all ranks */
    const char *kind, *name;
    int64_t at_us; /* on one clock for all ranks; within 2^53 */
};

/* What a rank cost the others by being last: over all operations, or over all rounds of one operation. */
struct straggler {
    int rank;
    int64_t times;    /* how often it was last */
    double behind_us; /* time after the last but one, added up: what would be gained if it were not last */
    double waited_us; /* time that the others waited for it, added up */
    const char *kind, *name; /* of the operation; NULL: over all operations */
    int set;
};

struct stragglers;

/* Returns NULL if memory ran out. */
struct stragglers *stragglers_create(void);
void stragglers_destroy(struct stragglers *stragglers); /* does nothing for NULL */

/* Add an arrival. Add them rank by rank. A second arrival of a rank for the same operation is ignored.
 * Returns 0, or -1 if memory ran out. */
int stragglers_add(struct stragglers *stragglers, const struct arrival *arrival);

/* The result, after the last arrival. The lists have the worst first, and only ranks that were last at least
 * once; they belong to [stragglers]. */
struct stragglers_sum {
    int64_t operations; /* total number */
    int64_t compared;   /* those that two or more ranks submitted */
    const struct straggler *ranks;
    int rank_count;
    const struct straggler *subjects; /* one per operation and rank */
    int subject_count;
};
int stragglers_sum(struct stragglers *stragglers, struct stragglers_sum *sum);

#endif
