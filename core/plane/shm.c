/* shm.c: the plane of ranks that share a node's memory: chunks go through slots that all of them see. */
#include "plane/shm.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/pause.h"

#define SLICE_US    100
#define LOOKS       32               /* before a wait is left to the caller: about a microsecond */
#define MAX_MEMBERS 1024             /* a member's part of a chunk is at least 128 bytes */
#define ENTER_US    INT64_C(5000000) /* for a place in the arena, where a rank died over its table */

struct shm {
    struct plane_env env;
    struct door door;
    bool armed;
    struct slots *asleep; /* of the team that told what it waits for; NULL: none */
};

/* ---- The course of a batch ------------------------------------------------------------------ */

/* All members must have come to [position] in [step]. */
struct need {
    enum slots_step step;
    uint64_t position;
};

/* What this member needs for its next chunk in [step]. Returns how many of [needs]. */
static int needs_of(const struct shm_team *team, enum slots_step step, struct need needs[2])
{
    uint64_t at = team->slots.at[step];
    needs[0] = (struct need){STEP_MIXED, step == STEP_TAKEN ? at + 1 : slots_before(at)};
    if (step != STEP_MIXED)
        return 1;
    needs[0] = (struct need){STEP_GIVEN, at + 1};
    needs[1] = (struct need){STEP_TAKEN, slots_before(at)};
    return 2;
}

/* The first need that is not met, of the batch's next chunk in [step]; NULL where there is none. */
static const struct need *find_need(struct shm_team *team, enum slots_step step, struct need needs[2])
{
    int count = needs_of(team, step, needs);
    for (int i = 0; i < count; i++) {
        if (!slots_all_have(&team->slots, needs[i].step, needs[i].position))
            return &needs[i];
    }
    return NULL;
}

/* One chunk further in one of the three; the last first, as others wait for it. */
static bool go_on(struct shm_team *team)
{
    const struct shm_kind *kind = shm_kind_of(team);
    void (*const actions[])(struct shm_team *, uint64_t) = {
        [STEP_GIVEN] = kind->give, [STEP_MIXED] = kind->mix, [STEP_TAKEN] = kind->take};
    struct need needs[2];
    for (int step = STEP_TAKEN; step >= STEP_GIVEN; step--) {
        uint64_t at = team->slots.at[step];
        if (at >= team->end || find_need(team, (enum slots_step)step, needs) != NULL)
            continue;
        actions[step](team, at);
        slots_come_to(&team->slots, (enum slots_step)step, at + 1);
        return true;
    }
    return false;
}

static bool is_done(const struct shm_team *team)
{
    const uint64_t *at = team->slots.at;
    return at[STEP_GIVEN] == team->end && at[STEP_MIXED] == team->end && at[STEP_TAKEN] == team->end;
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
        slots_come_to(&team->slots, STEP_TAKEN, team->end);
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

/* Tell what the batch waits for, so that whoever does the last of it wakes us. */
static void fall_asleep(struct shm *shm, struct shm_team *team)
{
    uint64_t wants[STEPS] = {0};
    struct need needs[2];
    if (!team->agreed)
        wants[STEP_ANNOUNCED] = team->turn;
    for (int step = STEP_GIVEN; team->agreed && step <= STEP_TAKEN; step++) {
        const struct need *need = NULL;
        if (team->slots.at[step] < team->end)
            need = find_need(team, (enum slots_step)step, needs);
        if (need != NULL && (wants[need->step] == 0 || need->position < wants[need->step]))
            wants[need->step] = need->position;
    }
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
static bool shm_serves(const struct plane_env *env, const struct plane_team *members)
{
    const int *node_of_rank = env->roster->node_of_rank;
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
    const struct slots_want want = {members->set, members->rank, members->size, chunk_bytes};
    int64_t enough_us = clock_us() + ENTER_US;
    struct shm_team *team = calloc(1, sizeof(*team));
    const void **inputs = calloc((size_t)members->size, sizeof(*inputs));
    int rc = HVD_OK;
    if (team == NULL || inputs == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "plane shm: no memory for a process set of %d ranks",
                       members->size);
    } else {
        *team = (struct shm_team){.members = *members, .inputs = inputs};
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

static void shm_remove_team(void *state, void *state_of_team)
{
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
    if (team == NULL)
        return;
    if (shm->asleep == &team->slots)
        shm->asleep = NULL;
    slots_leave(&team->slots);
    free(team->inputs);
    free(team);
}

static int shm_start(void *state, void *state_of_team, const struct plane_batch *batch, struct hvd_error *err)
{
    (void)state;
    (void)err;
    struct shm_team *team = state_of_team;
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
    return HVD_OK;
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

static int shm_test(void *state, void *state_of_team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp; /* control watches the processes of a node */
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
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
