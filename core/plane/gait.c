/* gait.c: whether walks go in turn or apart. */
#include "plane/gait.h"

/* Of every so many runs of chunks two are trials: not the first, when memory is touched first. */
#define RUN_CHUNKS    32
#define PERIOD_RUNS   64
#define IN_TURN_RUN   8
#define APART_RUN     9
#define ENOUGH_BYTES  (INT64_C(1) << 20) /* of each, to say anything */
#define BETTER_BY_PER 100
#define BETTER_BY     15
#define LONGEST_NS    100000 /* whoever takes longer for a piece was torn from its core */

static uint64_t run_of(uint64_t chunk)
{
    return chunk / RUN_CHUNKS % PERIOD_RUNS;
}

bool gait_is_trial(uint64_t chunk)
{
    return run_of(chunk) == IN_TURN_RUN || run_of(chunk) == APART_RUN;
}

bool gait_is_apart(const struct gait *gait, uint64_t chunk)
{
    return gait_is_trial(chunk) ? run_of(chunk) == APART_RUN : gait->apart;
}

/* Nanoseconds for 1 MiB. */
static int64_t cost(const struct gait *gait, bool apart)
{
    return gait->spent_ns[apart] * 1024 / (gait->bytes[apart] / 1024);
}

void gait_note(struct gait *gait, uint64_t chunk, int64_t spent_ns, int64_t bytes)
{
    bool apart = run_of(chunk) == APART_RUN;
    if (spent_ns < 0 || spent_ns > LONGEST_NS)
        return;
    if (!apart && gait->tried) {
        for (int i = 0; i < 2; i++) {
            gait->spent_ns[i] /= 2;
            gait->bytes[i] /= 2;
        }
    }
    gait->tried = apart;
    gait->spent_ns[apart] += spent_ns;
    gait->bytes[apart] += bytes;
    if (gait->bytes[false] >= ENOUGH_BYTES && gait->bytes[true] >= ENOUGH_BYTES)
        gait->apart = cost(gait, true) * BETTER_BY_PER < cost(gait, false) * (BETTER_BY_PER - BETTER_BY);
}
