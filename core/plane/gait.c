/* gait.c: whether what is given goes through the cache or past it. */
#include "plane/gait.h"

/* Of every so many runs of chunks two are trials: not the first, when memory is touched first. Where cores
 * are far apart that can change, as a virtual machine's do where its host moves them: the last trial counts
 * and none before it. */
#define RUN_CHUNKS    16
#define PERIOD_RUNS   48
#define THROUGH_RUN   8
#define PAST_RUN      9
#define ENOUGH_BYTES  (INT64_C(1) << 20) /* of each, to say anything */
#define BETTER_BY_PER 100
#define BETTER_BY     10
#define LONGEST_NS    100000 /* whoever takes longer for a piece was torn from its core */

static uint64_t run_of(uint64_t chunk)
{
    return chunk / RUN_CHUNKS % PERIOD_RUNS;
}

bool gait_is_trial(uint64_t chunk)
{
    return run_of(chunk) == THROUGH_RUN || run_of(chunk) == PAST_RUN;
}

bool gait_is_past(const struct gait *gait, uint64_t chunk)
{
    return gait_is_trial(chunk) ? run_of(chunk) == PAST_RUN : gait->past;
}

/* Nanoseconds for 1 MiB. */
static int64_t cost(const struct gait *gait, bool past)
{
    return gait->spent_ns[past] * 1024 / (gait->bytes[past] / 1024);
}

void gait_note(struct gait *gait, uint64_t chunk, int64_t spent_ns, int64_t bytes)
{
    bool past = run_of(chunk) == PAST_RUN;
    if (spent_ns < 0 || spent_ns > LONGEST_NS)
        return;
    if (gait->over && !past)
        *gait = (struct gait){.past = gait->past};
    gait->over = past;
    gait->spent_ns[past] += spent_ns;
    gait->bytes[past] += bytes;
    if (gait->bytes[false] >= ENOUGH_BYTES && gait->bytes[true] >= ENOUGH_BYTES)
        gait->past = cost(gait, true) * BETTER_BY_PER < cost(gait, false) * (BETTER_BY_PER - BETTER_BY);
}
