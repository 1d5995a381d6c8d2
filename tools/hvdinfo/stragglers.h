/* stragglers.h: which rank was last to submit an operation, how often, and what that cost the others. Pure.
 */
#ifndef TOOLS_HVDINFO_STRAGGLERS_H
#define TOOLS_HVDINFO_STRAGGLERS_H

#include <stdint.h>

/* One rank submitted one operation. */
struct arrival {
    int rank;
    int set;
    int64_t number; /* of the operation in its set, equal on all ranks */
    const char *kind, *name;
    int64_t at_us; /* one clock for all ranks; less than 2^53 either way */
};

/* What a rank cost the others by being last, in all; and in one operation, over all its rounds. */
struct straggler {
    int rank;
    int64_t times;           /* that it was last */
    double behind_us;        /* by how much, after the last but one: what would be won if it were not */
    double waited_us;        /* how long the others waited for it, added up */
    const char *kind, *name; /* of the operation; NULL where it is all of them */
    int set;
};

struct stragglers;

/* NULL where memory is out. */
struct stragglers *stragglers_create(void);
void stragglers_destroy(struct stragglers *stragglers); /* NULL is fine */

/* Arrivals come rank by rank. A second one of a rank for the same operation is left out. 0, or -1 where
 * memory is out. */
int stragglers_add(struct stragglers *stragglers, const struct arrival *arrival);

/* No more arrivals. Worst first, and only what was behind at all; lists belong to [stragglers]. 0, or -1
 * where memory is out. */
struct stragglers_sum {
    int64_t operations; /* in all */
    int64_t compared;   /* of them, those that two ranks or more submitted */
    const struct straggler *ranks;
    int rank_count;
    const struct straggler *subjects; /* each an operation and a rank */
    int subject_count;
};
int stragglers_sum(struct stragglers *stragglers, struct stragglers_sum *sum);

#endif
