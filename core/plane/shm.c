/* shm.c: the plane of ranks that share a node's memory: chunks go through slots that all of them see, or by
 * NUMA domains, see shm_domains.h. */
#include "plane/shm.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/pause.h"
#include "control/cores.h"

#define SLICE_US    100
#define LOOKS       4                /* before a wait is left to the caller */
#define MAX_MEMBERS 1024             /* a member's part of a chunk is at least 128 bytes */
#define ENTER_US    INT64_C(5000000) /* for a place in the arena, where a rank died over its table */

struct shm {
    struct plane_env env;
    struct door door;
    bool armed;
    struct slots *asleep; /* of the team that told what it waits for; NULL: none */
};

/* ---- The course of a batch ------------------------------------------------------------------ */

/* Who has given a chunk has taken the results in whose slot the next ones go, which are mixed once all have
 * given it. Others come further at any time: that it could not be taken just now says nothing. */
static bool may_give(struct shm_team *team, uint64_t given)
{
    return given < team->taken + SLOTS && slots_all_have(&team->slots, STEP_MIXED, slots_before(given));
}

/* One chunk further in one thing. The last first: others wait for what is mixed. */
static bool go_on(struct shm_team *team)
{
    const struct shm_kind *kind = shm_kind_of(team);
    struct slots *slots = &team->slots;
    uint64_t given = slots->at[STEP_GIVEN];
    uint64_t mixed = slots->at[STEP_MIXED];
    if (team->taken < team->end && slots_all_have(slots, STEP_MIXED, team->taken + 1)) {
        kind->take(team, team->taken);
        team->taken++;
    } else if (mixed < team->end && slots_all_have(slots, STEP_GIVEN, mixed + 1)) {
        kind->mix(team, mixed);
        slots_come_to(slots, STEP_MIXED, mixed + 1);
    } else if (given < team->end && may_give(team, given)) {
        kind->give(team, given);
        slots_come_to(slots, STEP_GIVEN, given + 1);
    } else {
        return false;
    }
    return true;
}

static bool is_done(const struct shm_team *team)
{
    const uint64_t *at = team->slots.at;
    return at[STEP_GIVEN] == team->end && at[STEP_MIXED] == team->end && team->taken == team->end;
}

/* From here on the batch's last chunk is known. What this member has no part in it has done. */
static void agree(struct shm_team *team, uint64_t rounds)
{
    bool gives = team->batch.need.kind != PLANE_BROADCAST || team->members.rank == team->batch.root;
    team->end = team->begin + rounds;
    team->agreed = true;
    if (!gives)
        slots_come_to(&team->slots, STEP_GIVEN, team->end);
    if (shm_kind_of(team)->take == NULL)
        team->taken = team->end;
}

/* How long an alltoall takes only all members together know; what one receives another sends. */
static void announce(struct shm_team *team, uint64_t rounds)
{
    uint64_t turn = ++team->turn;
    atomic_store_explicit(&team->slots.members[team->members.rank].rounds[turn % 2], rounds,
                          memory_order_relaxed);
    slots_come_to(&team->slots, STEP_ANNOUNCED, turn);
}

/* All have announced it. */
static int hear_announced(struct shm_team *team, struct hvd_error *err)
{
    uint64_t most_rounds = (uint64_t)(INT64_MAX / team->element_bytes / team->per_round);
    uint64_t rounds = 0;
    for (int i = 0; i < team->members.size; i++) {
        uint64_t wanted =
            atomic_load_explicit(&team->slots.members[i].rounds[team->turn % 2], memory_order_relaxed);
        if (wanted > most_rounds)
            return error_set(
                err, HVD_ERR_SYSTEM,
                "plane shm: rank %d announced an alltoall of %llu rounds in process set %d, more "
                "than there can be: this node's shared memory was overwritten",
                team->members.ranks[i], (unsigned long long)wanted, team->members.set);
        rounds = wanted > rounds ? wanted : rounds;
    }
    agree(team, rounds);
    return HVD_OK;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* [position], if not all have come there. */
static uint64_t unless_met(struct shm_team *team, enum slots_step step, uint64_t position)
{
    return slots_all_have(&team->slots, step, position) ? 0 : position;
}

/* Tell what the batch waits for, so that whoever does the last of it wakes us. */
static void fall_asleep(struct shm *shm, struct shm_team *team)
{
    uint64_t wants[STEPS] = {0};
    uint64_t given = team->slots.at[STEP_GIVEN];
    uint64_t mixed = team->slots.at[STEP_MIXED];
    if (!team->agreed)
        wants[STEP_ANNOUNCED] = team->turn;
    if (team->agreed && mixed < team->end)
        wants[STEP_GIVEN] = unless_met(team, STEP_GIVEN, mixed + 1);
    if (team->agreed && given < team->end)
        wants[STEP_MIXED] = unless_met(team, STEP_MIXED, slots_before(given));
    if (team->agreed && wants[STEP_MIXED] == 0 && team->taken < team->end)
        wants[STEP_MIXED] = unless_met(team, STEP_MIXED, team->taken + 1);
    slots_sleep(&team->slots, wants);
    shm->asleep = &team->slots;
}

/* Nothing could be done [looks] times in a row. False where the caller has to wait. */
static bool linger(struct shm *shm, struct shm_team *team, int looks)
{
    if (shm->armed && looks == 1) {
        fall_asleep(shm, team);
        return true;
    }
    if (shm->armed || shm->env.crowded || looks > LOOKS)
        return false;
    pause_core();
    return true;
}

static void shm_arm(void *state, bool armed)
{
    struct shm *shm = state;
    shm->armed = armed;
    if (armed || shm->asleep == NULL)
        return;
    slots_rise(shm->asleep);
    shm->asleep = NULL;
}

/* ---- The plane ------------------------------------------------------------------------------ */

static bool shm_available(const struct plane_env *env, const char **whyp)
{
    *whyp = "the job has one rank";
    return env->job->size > 1;
}

static bool shm_can(const struct plane_need *need)
{
    bool reduces = need->kind == PLANE_ALLREDUCE || need->kind == PLANE_REDUCESCATTER;
    return need->ranks > 1 && need->ranks <= MAX_MEMBERS && dtype_bytes(need->dtype) != 0 &&
           (!reduces || reduce_can(need->op, need->dtype));
}

static int shm_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    (void)deadline_us;
    struct shm *shm = calloc(1, sizeof(*shm));
    if (shm == NULL)
        return error_set_errno(err, "plane shm: no memory for %zu bytes", sizeof(*shm));
    shm->env = *env;
    int rc = door_open(&shm->door, env->epoll_fd, err);
    if (rc != HVD_OK) {
        free(shm);
        return rc;
    }
    *statep = shm;
    return HVD_OK;
}

/* All on one node, whichever that is. */
static bool shm_serves(const struct plane_env *env, const struct plane_team *members, const char **whyp)
{
    const int *node_of_rank = env->roster->node_of_rank;
    *whyp = "the ranks are on several nodes";
    for (int i = 1; i < members->size; i++) {
        if (node_of_rank[members->ranks[i]] != node_of_rank[members->ranks[0]])
            return false;
    }
    return true;
}

static int shm_add_team(void *state, const struct plane_team *members, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    struct shm *shm = state;
    int64_t chunk_bytes = shm->env.crowded ? SHM_CROWDED_CHUNK_BYTES : SHM_CHUNK_BYTES;
    const struct slots_want want = {members->set, members->rank, members->size, chunk_bytes, cores_domain()};
    int64_t enough_us = clock_us() + ENTER_US;
    struct shm_team *team = calloc(1, sizeof(*team));
    const void **inputs = calloc((size_t)members->size, sizeof(*inputs));
    int rc = HVD_OK;
    if (team == NULL || inputs == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "plane shm: no memory for a process set of %d ranks",
                       members->size);
    } else {
        *team = (struct shm_team){
            .members = *members, .inputs = inputs, .domains = {.least_bytes = SHM_DOMAINS_BYTES}};
        rc = slots_enter(&team->slots, &shm->env.arena, &shm->door, &want,
                         deadline_us < enough_us ? deadline_us : enough_us, err);
    }
    if (rc != HVD_OK) {
        free(inputs);
        free(team);
        return rc;
    }
    *teamp = team;
    return HVD_OK;
}

void shm_set_chunk(void *state_of_team, int64_t bytes)
{
    struct shm_team *team = state_of_team;
    team->slots.chunk_bytes = bytes;
}

void shm_set_domains(void *state_of_team, int64_t least_bytes, int64_t chunk_bytes)
{
    struct shm_team *team = state_of_team;
    team->domains.least_bytes = least_bytes;
    team->domains.chunk_bytes = chunk_bytes;
}

static void shm_remove_team(void *state, void *state_of_team)
{
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
    if (team == NULL)
        return;
    if (shm->asleep == &team->slots)
        shm->asleep = NULL;
    shm_domains_close(team, &shm->env);
    slots_leave(&team->slots);
    free(team->inputs);
    free(team);
}

static void start_flat(struct shm_team *team, const struct plane_batch *batch)
{
    team->batch = *batch;
    team->reduction = (struct reduction){batch->need.dtype, batch->need.partial, batch->need.op,
                                         batch->prescale,   batch->postscale,    team->members.size};
    team->element_bytes = (int64_t)dtype_bytes(batch->need.dtype);
    team->begin = team->end;
    team->agreed = false;
    uint64_t rounds = shm_cut(team);
    if (batch->need.kind == PLANE_ALLTOALL)
        announce(team, rounds);
    else
        agree(team, rounds);
}

static int shm_start(void *state, void *state_of_team, const struct plane_batch *batch, struct hvd_error *err)
{
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
    int rc = shm_domains_choose(team, &shm->env, batch, &team->by_domains, err);
    if (rc == HVD_OK && team->by_domains)
        return shm_domains_start(team, batch, err);
    if (rc == HVD_OK)
        start_flat(team, batch);
    return rc;
}

/* One chunk further, if that can be now. */
static int go_once(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    if (!team->agreed && !slots_all_have(&team->slots, STEP_ANNOUNCED, team->turn))
        return HVD_IN_PROGRESS;
    int rc = team->agreed ? HVD_OK : hear_announced(team, err);
    if (rc != HVD_OK)
        return rc;
    *movedp = go_on(team);
    return is_done(team) ? HVD_OK : HVD_IN_PROGRESS;
}

/* So many chunks were done in this slice. It begins behind the first: small batches do without a clock. */
static bool has_time(int chunks, int64_t *end_usp)
{
    if (chunks == 1)
        return true;
    int64_t now_us = clock_us();
    if (chunks == 2)
        *end_usp = now_us + SLICE_US;
    return now_us < *end_usp;
}

/* Asleep it is woken by whatever others do, and looks once more before. */
static int test_by_domains(struct shm *shm, struct shm_team *team, bool *movedp, int *rankp,
                           struct hvd_error *err)
{
    int rc = shm_domains_test(team, movedp, rankp, err);
    if (rc != HVD_IN_PROGRESS || *movedp || !shm->armed)
        return rc;
    slots_doze(&team->slots);
    shm->asleep = &team->slots;
    return shm_domains_test(team, movedp, rankp, err);
}

static int test_flat(struct shm *shm, struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    int64_t end_us = 0;
    int chunks = 0;
    int looks = 0;
    int rc = HVD_OK;
    bool goes_on = true;
    *movedp = false;
    while (goes_on) {
        bool moved = false;
        rc = go_once(team, &moved, err);
        *movedp = *movedp || moved;
        looks = moved ? 0 : looks + 1;
        chunks += moved;
        goes_on = rc == HVD_IN_PROGRESS && (moved ? has_time(chunks, &end_us) : linger(shm, team, looks));
    }
    slots_settle(&team->slots);
    return rc;
}

/* [rankp] stays as it is: control watches the processes of a node. */
static int shm_test(void *state, void *state_of_team, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct shm_team *team = state_of_team;
    if (team->by_domains)
        return test_by_domains(state, team, movedp, rankp, err);
    return test_flat(state, team, movedp, err);
}

/* Of it only a descriptor is in a forked child. */
static void shm_after_fork(void *state)
{
    struct shm *shm = state;
    door_close(&shm->door);
}

static void shm_close(void *state)
{
    struct shm *shm = state;
    door_close(&shm->door);
    free(shm);
}

const struct plane_ops plane_shm = {
    .id = PLANE_SHM,
    .available = shm_available,
    .open = shm_open,
    .opens_early = true,
    .spans = true,
    .can = shm_can,
    .serves = shm_serves,
    .add_team = shm_add_team,
    .remove_team = shm_remove_team,
    .start = shm_start,
    .test = shm_test,
    .arm = shm_arm,
    .after_fork = shm_after_fork,
    .close = shm_close,
};
