/* store_policy.c: whether what is written goes through the cache or past it. */
#include "backend/shm/store_policy.h"

/* Of every so many runs of chunks some are trials, one of each way: not the first, when memory is touched
 * first. How far apart cores are can change, as a virtual machine's do where its host moves them: the last
 * trials count and none before. */
#define RUN_CHUNKS    16
#define PERIOD_RUNS   48
#define FIRST_TRIAL   8
#define ENOUGH_BYTES  (INT64_C(1) << 20) /* of each, to say anything */
#define BETTER_BY_PER 100
#define BETTER_BY     10
#define LONGEST_NS    100000 /* whoever takes longer for a piece was torn from its core */

/* The number of the trial, if it is one. */
static uint64_t trial_of(uint64_t chunk)
{
    return chunk / RUN_CHUNKS % PERIOD_RUNS - FIRST_TRIAL;
}

bool gait_is_trial(uint64_t chunk)
{
    return trial_of(chunk) < GAIT_WAYS;
}

enum gait_way gait_way(const struct gait *gait, uint64_t chunk)
{
    return gait_is_trial(chunk) ? (enum gait_way)trial_of(chunk) : gait->way;
}

static bool is_known(const struct gait *gait, enum gait_way way)
{
    return gait->trials[way].bytes >= ENOUGH_BYTES;
}

/* Nanoseconds for 1 MiB. */
static int64_t cost(const struct gait *gait, enum gait_way way)
{
    return gait->trials[way].spent_ns * 1024 / (gait->trials[way].bytes / 1024);
}

static bool is_better(const struct gait *gait, enum gait_way way, enum gait_way than)
{
    return is_known(gait, way) && is_known(gait, than) &&
           cost(gait, way) * BETTER_BY_PER < cost(gait, than) * (BETTER_BY_PER - BETTER_BY);
}

static enum gait_way best(const struct gait *gait)
{
    enum gait_way best_way = GAIT_RESULTS_PAST;
    for (enum gait_way way = best_way + 1; way < GAIT_WAYS; way++) {
        if (is_better(gait, way, best_way))
            best_way = way;
    }
    return best_way;
}

void gait_note(struct gait *gait, uint64_t chunk, int64_t spent_ns, int64_t bytes)
{
    enum gait_way way = gait_way(gait, chunk);
    if (spent_ns < 0 || spent_ns > LONGEST_NS)
        return;
    if (way < gait->tried)
        *gait = (struct gait){.way = gait->way};
    gait->tried = way;
    gait->trials[way].spent_ns += spent_ns;
    gait->trials[way].bytes += bytes;
    if (way == GAIT_WAYS - 1)
        gait->way = best(gait);
}
