/* shm.c: backend shm, for teams whose ranks share a node's memory: its calls, and how it waits. */
#include "backend/shm/shm.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "node/cores.h"
#include "base/dtype.h"
#include "backend/backend_env.h"

#define SLICE_US         100
#define LOOKS            4    /* looks without progress, after which the caller has to wait */
#define MAX_MEMBERS      1024 /* a member's part of a chunk is at least LEAST_PART_BYTES */
#define LEAST_PART_BYTES ((int64_t)128)
#define FULL_SLOTS       32 /* the most members whose slots are as large as they can be */

struct shm {
    struct backend_env env;
    struct doorbell doorbell;
    bool armed;
    struct slots *armed_slots; /* between slots_arm and slots_disarm; NULL: none */
};

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Take back what was armed for a team other than that of [kept]. */
static void disarm_slots(struct shm *shm, const struct slots *kept)
{
    if (shm->armed_slots == NULL || shm->armed_slots == kept)
        return;
    slots_disarm(shm->armed_slots);
    shm->armed_slots = NULL;
}

/* Arm the doorbell for what the batch waits for. The member that does the last of it wakes this one. */
static void prepare_sleep(struct shm *shm, struct shm_team *team)
{
    uint64_t awaited[SLOTS_COUNTERS];
    disarm_slots(shm, &team->slots); /* a batch of another team ended while this rank was armed */
    shm_batch_awaited(team, awaited);
    slots_arm(&team->slots, awaited);
    shm->armed_slots = &team->slots;
}

/* There was no progress [looks] times in a row. False where the caller has to wait. */
static bool spin(struct shm *shm, struct shm_team *team, int looks)
{
    if (shm->armed && looks == 1) {
        prepare_sleep(shm, team);
        return true;
    }
    if (shm->armed || shm->env.oversubscribed || looks > LOOKS)
        return false;
    cpu_relax();
    return true;
}

static void shm_arm(void *state, bool armed)
{
    struct shm *shm = state;
    shm->armed = armed;
    if (!armed)
        disarm_slots(shm, NULL);
}

/* ---- The backend ------------------------------------------------------------------------------ */

static bool shm_available(const struct backend_env *env, const char **whyp)
{
    *whyp = "the job has one rank";
    return env->job->size > 1;
}

static bool shm_supports(const struct backend_need *need)
{
    return need->ranks > 1 && need->ranks <= MAX_MEMBERS && dtype_bytes(need->dtype) != 0 &&
           (!coll_reduces(need->kind) || reduce_can(need->op, need->dtype));
}

static int shm_open(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    (void)deadline_us;
    struct shm *shm = calloc(1, sizeof(*shm));
    if (shm == NULL)
        return error_set_errno(err, "backend shm: no memory for %zu bytes", sizeof(*shm));
    shm->env = *env;
    int rc = doorbell_open(&shm->doorbell, env->epoll_fd, err);
    if (rc != HVD_OK) {
        free(shm);
        return rc;
    }
    *statep = shm;
    return HVD_OK;
}

/* All members must be on one node, this one or another. */
static bool shm_reaches(const struct backend_env *env, const struct team *members, const char **whyp)
{
    const int *node_of_rank = env->peer_table->node_of_rank;
    *whyp = "the ranks are on several nodes";
    for (int i = 1; i < members->size; i++) {
        if (node_of_rank[members->ranks[i]] != node_of_rank[members->ranks[0]])
            return false;
    }
    return true;
}

/* Slots get half of the cache: inputs and outputs need some, too. */
int64_t shm_oversubscribed_chunk(int size, int64_t cache_bytes)
{
    int64_t bytes = cache_bytes / 2 / SLOTS / size / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    return bytes < SHM_LEAST_CHUNK_BYTES || bytes > SHM_OVERSUBSCRIBED_CHUNK_BYTES
               ? SHM_OVERSUBSCRIBED_CHUNK_BYTES
               : bytes;
}

int64_t shm_oversubscribed_slot(int size)
{
    int64_t least = SHM_LEAST_CHUNK_BYTES;
    int64_t bytes = SHM_OVERSUBSCRIBED_CHUNK_BYTES;
    if (size > FULL_SLOTS)
        bytes = bytes * FULL_SLOTS / size / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    if (least < (int64_t)size * LEAST_PART_BYTES)
        least = (int64_t)size * LEAST_PART_BYTES;
    return bytes < least ? least : bytes;
}

static void free_team(struct shm_team *team)
{
    if (team == NULL)
        return;
    shm_direct_close(team);
    free(team->inputs);
    free(team);
}

/* Make a team, except what it shares. */
static struct shm_team *new_team(const struct shm *shm, const struct team *members)
{
    struct shm_team *team = calloc(1, sizeof(*team));
    if (team == NULL)
        return NULL;
    *team = (struct shm_team){.members = *members,
                              .inputs = calloc((size_t)members->size, sizeof(*team->inputs))};
    if (team->inputs != NULL && shm_direct_open(team, &shm->env))
        return team;
    free_team(team);
    return NULL;
}

static int shm_add_team(void *state, const struct team *members, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    struct shm *shm = state;
    int64_t chunk_bytes = shm->env.oversubscribed ? shm_oversubscribed_slot(members->size) : SHM_CHUNK_BYTES;
    const struct slots_params want = {members->set, members->rank, members->size, chunk_bytes,
                                      cores_l2_bytes()};
    struct shm_team *team = new_team(shm, members);
    if (team == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "backend shm: no memory for a process set of %d ranks",
                         members->size);
    int rc = slots_open(&team->slots, &shm->env.arena, &shm->doorbell, &want, deadline_us, err);
    if (rc != HVD_OK) {
        free_team(team);
        return rc;
    }
    *teamp = team;
    return HVD_OK;
}

static void shm_remove_team(void *state, void *state_of_team)
{
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
    if (team == NULL)
        return;
    if (shm->armed_slots == &team->slots)
        shm->armed_slots = NULL;
    slots_close(&team->slots);
    free_team(team);
}

static int shm_start(void *state, void *state_of_team, const struct backend_batch *batch,
                     struct hvd_error *err)
{
    (void)err;
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
    if (team->chunk_bytes == 0)
        team->chunk_bytes = shm->env.oversubscribed
                                ? shm_oversubscribed_chunk(team->members.size, slots_l2_bytes(&team->slots))
                                : SHM_CHUNK_BYTES;
    shm_batch_begin(team, batch);
    return HVD_OK;
}

/* There was progress [moves] times in this slice. The clock is first read at the third, so that small batches
 * never read it. */
static bool has_time(int moves, int64_t *end_usp)
{
    if (moves <= 2)
        return true;
    int64_t now_us = clock_us();
    if (moves == 3)
        *end_usp = now_us + SLICE_US;
    return now_us < *end_usp;
}

/* [rankp] is not set: control watches the processes of a node. */
static int shm_test(void *state, void *state_of_team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp;
    struct shm *shm = state;
    struct shm_team *team = state_of_team;
    int64_t end_us = 0;
    int moves = 0;
    int looks = 0;
    int rc = HVD_OK;
    bool goes_on = true;
    *movedp = false;
    while (goes_on) {
        bool moved = false;
        rc = shm_batch_progress(team, &moved, err);
        *movedp = *movedp || moved;
        looks = moved ? 0 : looks + 1;
        moves += moved;
        goes_on = rc == HVD_IN_PROGRESS && (moved ? has_time(moves, &end_us) : spin(shm, team, looks));
    }
    slots_flush(&team->slots);
    return rc;
}

static int shm_waits_for(const void *state, void *state_of_team)
{
    (void)state;
    struct shm_team *team = state_of_team;
    uint64_t awaited[SLOTS_COUNTERS];
    int member = -1;
    shm_batch_awaited(team, awaited);
    for (int counter = 0; counter < SLOTS_COUNTERS && member < 0; counter++)
        member = slots_behind(&team->slots, (enum slots_counter)counter, awaited[counter]);
    return member < 0 ? -1 : team->members.ranks[member];
}

/* A forked child inherits the descriptor only. */
static void shm_after_fork(void *state)
{
    struct shm *shm = state;
    doorbell_close(&shm->doorbell);
}

static void shm_close(void *state)
{
    struct shm *shm = state;
    doorbell_close(&shm->doorbell);
    free(shm);
}

const struct backend_ops backend_shm = {
    .id = BACKEND_SHM,
    .available = shm_available,
    .open = shm_open,
    .opens_early = true,
    .spans_from = 1,
    .supports = shm_supports,
    .reaches = shm_reaches,
    .add_team = shm_add_team,
    .remove_team = shm_remove_team,
    .start = shm_start,
    .test = shm_test,
    .waits_for = shm_waits_for,
    .arm = shm_arm,
    .after_fork = shm_after_fork,
    .close = shm_close,
};
