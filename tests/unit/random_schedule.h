/* random_schedule.h: which operations simulated ranks submit, each rank in its own order. The seed decides
 * all of it. */
#ifndef TESTS_UNIT_RANDOM_SCHEDULE_H
#define TESTS_UNIT_RANDOM_SCHEDULE_H

#include "descs.h"
#include "negotiate/negotiate.h"
#include "link_sim.h"

#define SETS   7 /* the set of all ranks, and the sets that are added */
#define NAMES  5
#define EPOCHS 3 /* at most; all members join between two epochs */

/* Which sets there are, and what happens to them. */
struct schedule {
    uint64_t seed;
    int size;
    int set_count;
    int cache_limit;
    int leaver; /* rank that shuts down while others still work, or -1 */
    struct planned_set {
        bool *member;
        int member_count;
        bool by_members;   /* they add and remove it without the others */
        int odd_adder;     /* rank that adds it with a different list, so that adding it fails; or -1 */
        bool removed;      /* at the end */
        bool removed_soon; /* already while work is pending in it */
        int epochs;
        hvd_set number; /* -1: until it is added */
    } sets[SETS];
};

static inline uint64_t mix(const struct schedule *plan, int a, int b, int c, int d)
{
    uint64_t random_state = plan->seed * 1000003u + (uint64_t)a * 8191u + (uint64_t)b * 131071u +
                            (uint64_t)c * 524287u + (uint64_t)d * 6700417u + 77u;
    random_next(&random_state);
    random_next(&random_state);
    return random_next(&random_state);
}

static inline bool is_join_epoch(const struct schedule *plan, int set, int epoch)
{
    return epoch + 1 < plan->sets[set].epochs;
}

/* How often the set's members submit this name in this epoch, unless they run out of data. */
static inline int wanted(const struct schedule *plan, int set, int epoch, int name)
{
    return (int)(mix(plan, set, epoch, name, 1) % 4);
}

/* How often this rank submits the name. It may run out of data, after the same number of steps for all names,
 * so that ranks do not wait for each other's joins. */
static inline int supply(const struct schedule *plan, int set, int epoch, int name, int rank)
{
    int most = wanted(plan, set, epoch, name);
    int steps = is_join_epoch(plan, set, epoch) ? (int)(mix(plan, set, epoch, rank, 3) % 5) : most;
    return steps < most ? steps : most;
}

/* The rank that submits a different description, or -1. */
static inline int odd_one(const struct schedule *plan, int set, int epoch, int name, int times)
{
    uint64_t random_state = mix(plan, set, epoch, name, 100 + times);
    return random_state % 8 == 0 ? (int)(random_state / 8 % (uint64_t)plan->size) : -1;
}

static inline enum desc_kind kind_of(const struct schedule *plan, int set, int name)
{
    static const enum desc_kind kinds[] = {DESC_ALLREDUCE, DESC_ALLREDUCE, DESC_BROADCAST, DESC_ALLGATHER,
                                           DESC_BARRIER};
    return kinds[mix(plan, set, name, 0, 4) % 5];
}

static inline uint32_t backends_of(const struct schedule *plan, int rank)
{
    return 1u << BACKEND_TCP | (mix(plan, rank, 0, 0, 5) % 4 == 0 ? 0 : 1u << BACKEND_MPI);
}

static inline bool has_nccl(const struct schedule *plan, int rank)
{
    return mix(plan, rank, 0, 0, 9) % 8 != 0;
}

/* Are the tensors of that name on GPUs? */
static inline bool is_on_device(const struct schedule *plan, int set, int name)
{
    return kind_of(plan, set, name) != DESC_BARRIER && mix(plan, set, name, 0, 7) % 2 == 0;
}

/* Where this rank says that the tensors are, if they are all on its GPU; 0: nowhere that others know. One of
 * the ranks may name other offsets than the rest, and they name others in the next epoch. */
static inline uint64_t offsets_of(const struct schedule *plan, int set, int epoch, int name, int times,
                                  int rank)
{
    uint64_t common = mix(plan, set, epoch, name, 8) % 4;
    uint64_t random_state = mix(plan, set, epoch, name, 300 + times);
    bool odd = random_state / 4 % (uint64_t)(2 * plan->size) == (uint64_t)rank;
    return odd ? random_state % 4 : common;
}

/* The input that travels with this rank's readiness; 0: none does. Mostly all members have one. */
static inline uint64_t input_of(const struct schedule *plan, int set, int epoch, int name, int times,
                                int rank)
{
    bool none = mix(plan, set, epoch, name, 400 + times) % (uint64_t)(2 * plan->size) == (uint64_t)rank;
    return none ? 0 : mix(plan, set, epoch * 4 + times, name, 500 + rank) | 1;
}

static inline struct desc *describe(const struct schedule *plan, int set, int epoch, int name, int times,
                                    int rank)
{
    int tensors = mix(plan, set, name, 0, 6) % 4 == 0 ? 3 : 1;
    int64_t extent = mix(plan, set, epoch, name, 200 + times) % 4 == 0 ? 9 : 8;
    struct desc *desc = desc_group(tensors, extent);
    desc->kind = kind_of(plan, set, name);
    desc->set = plan->sets[set].number;
    desc->grouped = tensors > 1 && desc->kind != DESC_BROADCAST && desc->kind != DESC_BARRIER;
    if (!desc->grouped)
        desc->tensor_count = 1;
    struct desc_tensor *last = &desc->tensors[desc->tensor_count - 1];
    for (int i = 0; i < desc->tensor_count; i++)
        desc->tensors[i].on_device = is_on_device(plan, set, name);
    if (odd_one(plan, set, epoch, name, times) == rank && mix(plan, set, epoch, name, 400 + times) % 2 == 0)
        last->on_device = !last->on_device;
    else if (odd_one(plan, set, epoch, name, times) == rank)
        last->shape[0]++;
    /* several names in turn, more than a small cache holds */
    int variant = plan->cache_limit > 0 ? (epoch * 2 + times) % 3 : 0;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "t%d.%d", name, variant);
    return desc;
}

/* The decision that must come, or -1 if no rank submits the operation. */
static inline int expected_end(const struct schedule *plan, int set, int epoch, int name, int times)
{
    const struct planned_set *planned = &plan->sets[set];
    int odd = odd_one(plan, set, epoch, name, times);
    int ready = 0;
    bool odd_ready = false;
    for (int rank = 0; rank < plan->size; rank++) {
        if (!planned->member[rank] || supply(plan, set, epoch, name, rank) <= times)
            continue;
        ready++;
        odd_ready = odd_ready || rank == odd;
    }
    if (ready == 0)
        return -1;
    if (odd_ready && ready > 1)
        return DECISION_MISMATCH;
    enum desc_kind kind = kind_of(plan, set, name);
    bool joins = kind == DESC_ALLREDUCE || kind == DESC_BARRIER;
    return joins || ready == planned->member_count ? DECISION_RUN : DECISION_JOINED;
}

static inline bool is_all_on_device(const struct desc *desc)
{
    for (int i = 0; i < desc->tensor_count; i++)
        if (!desc->tensors[i].on_device)
            return false;
    return true;
}

/* The offsets that all members name of tensors on GPUs, or 0 where they do not, or where one has joined. */
static inline uint64_t expected_offsets(const struct schedule *plan, int set, int epoch, int name, int times)
{
    uint64_t offsets = 0;
    bool first = true;
    for (int rank = 0; rank < plan->size; rank++) {
        if (!plan->sets[set].member[rank])
            continue;
        uint64_t own = offsets_of(plan, set, epoch, name, times, rank);
        if (supply(plan, set, epoch, name, rank) <= times || (!first && own != offsets))
            return 0;
        offsets = own;
        first = false;
    }
    return offsets;
}

/* Do all members have NCCL, those that have joined too? */
static inline bool expected_nccl(const struct schedule *plan, int set)
{
    bool all = true;
    for (int rank = 0; rank < plan->size; rank++)
        all = all && (!plan->sets[set].member[rank] || has_nccl(plan, rank));
    return all;
}

static inline void random_members(struct planned_set *set, int size, uint64_t *random_state)
{
    int begin = random_below(random_state, size);
    int span = 1 + random_below(random_state, size);
    int step = 1 + random_below(random_state, 3);
    set->member = calloc((size_t)size, sizeof(bool));
    for (int rank = begin; rank < begin + span && rank < size; rank += step) {
        set->member[rank] = true;
        set->member_count++;
    }
}

static inline void make_schedule(struct schedule *plan, int size, uint64_t seed)
{
    uint64_t random_state = seed * 7919 + 5;
    *plan = (struct schedule){.seed = seed, .size = size, .leaver = -1};
    random_next(&random_state);
    plan->set_count = random_below(&random_state, 4) == 0 ? 1 : 1 + random_below(&random_state, SETS);
    plan->cache_limit = random_below(&random_state, 3) == 0 ? 0 : 1 + random_below(&random_state, 6);
    if (random_below(&random_state, 8) == 0)
        plan->leaver = random_below(&random_state, size);
    for (int i = 0; i < plan->set_count; i++) {
        struct planned_set *set = &plan->sets[i];
        set->odd_adder = -1;
        set->epochs = 1 + random_below(&random_state, EPOCHS);
        random_members(set, size, &random_state);
        if (i == 0) {
            memset(set->member, 1, (size_t)size * sizeof(bool));
            set->member_count = size;
            set->epochs = 1; /* no joins: other sets are added meanwhile, which fails if a rank has joined */
            continue;
        }
        set->number = -1;
        set->by_members = random_below(&random_state, 2) == 0;
        if (size > 1 && !set->by_members && random_below(&random_state, 8) == 0)
            set->odd_adder = random_below(&random_state, size);
        set->removed = set->odd_adder < 0 && random_below(&random_state, 2) == 0;
        set->removed_soon = set->removed && random_below(&random_state, 2) == 0;
        if (set->by_members && set->removed_soon)
            set->epochs = 1; /* no joins: its members cannot remove it while one of them has joined */
    }
    if (plan->set_count == 1)
        plan->sets[0].epochs = 1 + random_below(&random_state, EPOCHS);
}

static inline int set_of_number(const struct schedule *plan, hvd_set number)
{
    for (int i = 0; i < plan->set_count; i++) {
        if (plan->sets[i].number == number)
            return i;
    }
    ck_abort_msg("seed %d: no set was given number %d", (int)plan->seed, number);
    return -1;
}

#endif
