/* store_policy.c: whether a member writes through its cache or with streaming stores. */
#include "backend/shm/store_policy.h"

/* Chunks are grouped into runs of RUN_CHUNKS. In each period of PERIOD_RUNS runs there is one trial run for
 * each mode. The first runs are none, as memory is touched for the first time there. Only the last period's
 * trials count: the distance of cores can change, as when a host moves a virtual machine's cores. */
#define RUN_CHUNKS    16
#define PERIOD_RUNS   48
#define FIRST_TRIAL   8
#define ENOUGH_BYTES  (INT64_C(1) << 20) /* that a mode must have moved before it is judged */
#define BETTER_BY_PER 100
#define BETTER_BY     10
#define PREEMPTED_NS  100000 /* a burst that takes longer was preempted: do not count it */

/* The number of the trial, if it is one. */
static uint64_t trial_of(uint64_t chunk)
{
    return chunk / RUN_CHUNKS % PERIOD_RUNS - FIRST_TRIAL;
}

bool store_policy_is_trial(uint64_t chunk)
{
    return trial_of(chunk) < STORE_MODES;
}

enum store_mode store_policy_mode(const struct store_policy *store_policy, uint64_t chunk)
{
    return store_policy_is_trial(chunk) ? (enum store_mode)trial_of(chunk) : store_policy->mode;
}

static bool is_known(const struct store_policy *store_policy, enum store_mode mode)
{
    return store_policy->trials[mode].bytes >= ENOUGH_BYTES;
}

/* Nanoseconds for 1 MiB. */
static int64_t cost(const struct store_policy *store_policy, enum store_mode mode)
{
    return store_policy->trials[mode].spent_ns * 1024 / (store_policy->trials[mode].bytes / 1024);
}

static bool is_better(const struct store_policy *store_policy, enum store_mode mode, enum store_mode than)
{
    return is_known(store_policy, mode) && is_known(store_policy, than) &&
           cost(store_policy, mode) * BETTER_BY_PER < cost(store_policy, than) * (BETTER_BY_PER - BETTER_BY);
}

static enum store_mode best(const struct store_policy *store_policy)
{
    enum store_mode best_way = STORE_STREAM_RESULTS;
    for (enum store_mode mode = best_way + 1; mode < STORE_MODES; mode++) {
        if (is_better(store_policy, mode, best_way))
            best_way = mode;
    }
    return best_way;
}

void store_policy_record(struct store_policy *store_policy, uint64_t chunk, int64_t spent_ns, int64_t bytes)
{
    enum store_mode mode = store_policy_mode(store_policy, chunk);
    if (spent_ns < 0 || spent_ns > PREEMPTED_NS)
        return;
    if (mode < store_policy->tried)
        *store_policy = (struct store_policy){.mode = store_policy->mode};
    store_policy->tried = mode;
    store_policy->trials[mode].spent_ns += spent_ns;
    store_policy->trials[mode].bytes += bytes;
    if (mode == STORE_MODES - 1)
        store_policy->mode = best(store_policy);
}
