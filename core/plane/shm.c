/* shm.c: the plane of ranks that share a node's memory: chunks go through slots that all of them see.
 *
 * Each member owns SLOTS slots for what it gives to the others, and all share SLOTS slots for results. Chunks
 * of all batches of a team are numbered on and on; chunk p uses slot p % SLOTS. Each member counts how far it
 * has come in three things, and only ever adds:
 *
 *   given   it has put what others need of chunk p into its slot
 *   mixed   it has read what it needs of all members' slots, and has written its part of the result
 *   taken   it has copied the result out
 * From that follows who may do what, and that no slot is overwritten while somebody still needs it:
 *   give p  when all have mixed p - SLOTS
 *   mix p   when all have given p, and taken p - SLOTS
 *   take p  when all have mixed p
 * Nothing ever waits for a later chunk, so somebody can always go on. Each element is reduced by one member,
 * in the order of members, wherever the cuts are: all get the same bits, and the same as on any other plane.
 *
 * A member that writes nonsense into the shared memory spoils results, or keeps the others waiting until they
 * are told that it failed. It does not make them read or write elsewhere: where a chunk lies each knows
 * itself.
 */
#include "plane/shm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/arena.h"
#include "plane/reduce.h"

#define SLOTS       SHM_SLOTS
#define SLOT_BYTES  SHM_CHUNK_BYTES
#define SLICE_US    100
#define LINE_BYTES  64
#define MAX_MEMBERS 1024             /* a member's part of a chunk is at least 128 bytes */
#define ENTER_US    INT64_C(5000000) /* for a place in the arena, where a rank died over its table */

enum count { GIVEN, MIXED, TAKEN, COUNTS };

/* What one member tells the others; written by it alone. */
struct member {
    _Alignas(LINE_BYTES) _Atomic uint64_t counts[COUNTS];
    /* alltoall: how many rounds it needs, for batches of even and odd turns: the next but one cannot be begun
     * before all have read it */
    struct {
        _Atomic uint64_t turn, rounds;
    } needs[2];
};

struct shm {
    struct plane_env env;
};

struct shm_team {
    struct plane_team members;
    const struct arena *arena;
    struct member *lines;  /* [size], shared */
    char *slots;           /* [size + 1][SLOTS] of SLOT_BYTES, shared; the last member's are the results */
    int64_t chunk_bytes;   /* used of a slot */
    uint64_t seen[COUNTS]; /* all members have come this far, as last looked */
    uint64_t at[COUNTS];   /* how far this one has */
    uint64_t turn;         /* alltoalls begun */
    /* the batch that runs */
    struct plane_batch batch;
    struct reduction reduction;
    uint64_t begin, end; /* its chunks; end is known once [agreed] */
    bool agreed;
    int64_t element_bytes;
    int64_t per_round;   /* elements of one round: of the batch, or per member, as the kind has it */
    const void **inputs; /* [size]: what is reduced at once */
};

/* ---- Counting ------------------------------------------------------------------------------- */

/* Have all members come to [position] in [count]? */
static bool all_have(struct shm_team *team, enum count count, uint64_t position)
{
    if (team->seen[count] >= position)
        return true;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < team->members.size && least >= position; i++) {
        uint64_t value = atomic_load_explicit(&team->lines[i].counts[count], memory_order_acquire);
        least = value < least ? value : least;
    }
    if (least < position)
        return false;
    team->seen[count] = least;
    return true;
}

static void come_to(struct shm_team *team, enum count count, uint64_t position)
{
    team->at[count] = position;
    atomic_store_explicit(&team->lines[team->members.rank].counts[count], position, memory_order_release);
}

static uint64_t before(uint64_t position)
{
    return position < SLOTS ? 0 : position - SLOTS + 1;
}

static bool may_go(struct shm_team *team, enum count count)
{
    uint64_t at = team->at[count];
    if (at >= team->end)
        return false;
    switch (count) {
    case GIVEN:
        return all_have(team, MIXED, before(at));
    case MIXED:
        return all_have(team, GIVEN, at + 1) && all_have(team, TAKEN, before(at));
    default:
        return all_have(team, MIXED, at + 1);
    }
}

/* ---- Where things are ----------------------------------------------------------------------- */

static char *slot_of(const struct shm_team *team, int member, uint64_t position)
{
    return team->slots + ((int64_t)member * SLOTS + (int64_t)(position % SLOTS)) * SLOT_BYTES;
}

static char *result_slot(const struct shm_team *team, uint64_t position)
{
    return slot_of(team, team->members.size, position);
}

/* A run of elements. */
struct run {
    int64_t begin, count;
};

/* The elements of round [position] of [count] that are cut into rounds. */
static struct run round_of(const struct shm_team *team, uint64_t position, int64_t count)
{
    int64_t begin = (int64_t)(position - team->begin) * team->per_round;
    int64_t left = count > begin ? count - begin : 0;
    return (struct run){begin, left < team->per_round ? left : team->per_round};
}

/* Of a chunk of [count] elements the part that [member] reduces; parts begin on a cache line. */
static struct run part_of(const struct shm_team *team, int64_t count, int member)
{
    int64_t line = LINE_BYTES;
    int64_t size = team->members.size;
    int64_t begin = count * member / size / line * line;
    int64_t end = member + 1 == size ? count : count * (member + 1) / size / line * line;
    return (struct run){begin, end - begin};
}

/* Not every member has both: NULL stays NULL. */
static const char *input_at(const struct shm_team *team, int64_t element)
{
    const char *input = team->batch.input;
    return input == NULL ? NULL : input + element * team->element_bytes;
}

static char *output_at(const struct shm_team *team, int64_t element)
{
    char *output = team->batch.output;
    return output == NULL ? NULL : output + element * team->element_bytes;
}

/* Elements that lie together. */
struct place {
    const char *input;
    char *output;
    int64_t count;
};

/* The span that holds [element]. */
static const struct plane_span *span_of(const struct plane_batch *batch, int64_t element)
{
    int low = 0;
    int high = batch->span_count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (batch->spans[middle].begin <= element)
            low = middle;
        else
            high = middle - 1;
    }
    return &batch->spans[low];
}

/* As many of the [count] elements from [element] on as lie together. */
static struct place place_of(const struct shm_team *team, int64_t element, int64_t count)
{
    if (team->batch.spans == NULL)
        return (struct place){input_at(team, element), output_at(team, element), count};
    const struct plane_span *span = span_of(&team->batch, element);
    int64_t inside = element - span->begin;
    int64_t left = span->count - inside;
    return (struct place){(const char *)span->input + inside * team->element_bytes,
                          (char *)span->output + inside * team->element_bytes, left < count ? left : count};
}

static size_t bytes_of(const struct shm_team *team, int64_t count)
{
    return (size_t)(count * team->element_bytes);
}

/* From the input into a slot; from a slot to the output; and between these two, which may be the same. Where
 * there is nothing to copy there may be no memory either. */
static void put(const struct shm_team *team, char *slot, int64_t element, int64_t count)
{
    while (count > 0) {
        struct place place = place_of(team, element, count);
        memcpy(slot, place.input, bytes_of(team, place.count));
        slot += bytes_of(team, place.count);
        element += place.count;
        count -= place.count;
    }
}

static void get(const struct shm_team *team, int64_t element, const char *slot, int64_t count)
{
    while (count > 0) {
        struct place place = place_of(team, element, count);
        memcpy(place.output, slot, bytes_of(team, place.count));
        slot += bytes_of(team, place.count);
        element += place.count;
        count -= place.count;
    }
}

static void keep(const struct shm_team *team, int64_t to, int64_t from, int64_t count)
{
    if (count > 0 && output_at(team, to) != input_at(team, from))
        memcpy(output_at(team, to), input_at(team, from), bytes_of(team, count));
}

/* Where member [member]'s elements begin among those that [counts] cut. */
static int64_t offset_of(const int64_t *counts, int member)
{
    int64_t offset = 0;
    for (int i = 0; i < member; i++)
        offset += counts[i];
    return offset;
}

/* ---- Reducing ------------------------------------------------------------------------------- */

/* out[] = the members' inputs put together; theirs at [shift] bytes in their slots, ours at [mine]. */
static void reduce_all(struct shm_team *team, uint64_t position, int64_t shift, const char *mine, char *out,
                       int64_t count)
{
    for (int i = 0; i < team->members.size; i++)
        team->inputs[i] = i == team->members.rank ? mine : slot_of(team, i, position) + shift;
    reduce_inputs(&team->reduction, out, NULL, team->inputs, team->members.size, count);
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

static void give_allreduce(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    struct run mine = part_of(team, run.count, team->members.rank);
    char *slot = slot_of(team, team->members.rank, position);
    int64_t behind = mine.begin + mine.count;
    put(team, slot, run.begin, mine.begin);
    put(team, slot + behind * team->element_bytes, run.begin + behind, run.count - behind);
}

static void mix_allreduce(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    struct run mine = part_of(team, run.count, team->members.rank);
    int64_t at = mine.begin;
    int64_t end = mine.begin + mine.count;
    while (at < end) {
        struct place place = place_of(team, run.begin + at, end - at);
        int64_t shift = at * team->element_bytes;
        reduce_all(team, position, shift, place.input, result_slot(team, position) + shift, place.count);
        at += place.count;
    }
}

static void take_allreduce(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    get(team, run.begin, result_slot(team, position), run.count);
}

static void give_broadcast(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    put(team, slot_of(team, team->members.rank, position), run.begin, run.count);
}

static void mix_broadcast(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    if (team->members.rank == team->batch.root)
        keep(team, run.begin, run.begin, run.count);
    else
        get(team, run.begin, slot_of(team, team->batch.root, position), run.count);
}

static void give_allgather(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.counts[team->members.rank]);
    put(team, slot_of(team, team->members.rank, position), run.begin, run.count);
}

static void mix_allgather(struct shm_team *team, uint64_t position)
{
    int64_t offset = 0;
    for (int i = 0; i < team->members.size; offset += team->batch.counts[i++]) {
        struct run run = round_of(team, position, team->batch.counts[i]);
        if (i == team->members.rank)
            keep(team, offset + run.begin, run.begin, run.count);
        else
            get(team, offset + run.begin, slot_of(team, i, position), run.count);
    }
}

/* Alltoall and reducescatter: a slot holds a little for each member. */
static int64_t shift_to(const struct shm_team *team, int member)
{
    return member * team->per_round * team->element_bytes;
}

static void give_each(struct shm_team *team, uint64_t position)
{
    int64_t offset = 0;
    char *slot = slot_of(team, team->members.rank, position);
    for (int i = 0; i < team->members.size; offset += team->batch.counts[i++]) {
        struct run run = round_of(team, position, team->batch.counts[i]);
        if (i != team->members.rank)
            put(team, slot + shift_to(team, i), offset + run.begin, run.count);
    }
}

static void mix_alltoall(struct shm_team *team, uint64_t position)
{
    int64_t offset = 0;
    int rank = team->members.rank;
    for (int i = 0; i < team->members.size; offset += team->batch.receive_counts[i++]) {
        struct run run = round_of(team, position, team->batch.receive_counts[i]);
        if (i == rank)
            keep(team, offset + run.begin, offset_of(team->batch.counts, rank) + run.begin, run.count);
        else
            get(team, offset + run.begin, slot_of(team, i, position) + shift_to(team, rank), run.count);
    }
}

static void mix_reducescatter(struct shm_team *team, uint64_t position)
{
    int rank = team->members.rank;
    int64_t offset = offset_of(team->batch.counts, rank);
    struct run run = round_of(team, position, team->batch.counts[rank]);
    if (run.count > 0)
        reduce_all(team, position, shift_to(team, rank), input_at(team, offset + run.begin),
                   output_at(team, offset + run.begin), run.count);
}

static const struct {
    void (*give)(struct shm_team *team, uint64_t position);
    void (*mix)(struct shm_team *team, uint64_t position);
    void (*take)(struct shm_team *team, uint64_t position);
} kinds[] = {
    [PLANE_ALLREDUCE] = {give_allreduce, mix_allreduce, take_allreduce},
    [PLANE_BROADCAST] = {give_broadcast, mix_broadcast, NULL},
    [PLANE_ALLGATHER] = {give_allgather, mix_allgather, NULL},
    [PLANE_ALLTOALL] = {give_each, mix_alltoall, NULL},
    [PLANE_REDUCESCATTER] = {give_each, mix_reducescatter, NULL},
};

/* ---- Rounds --------------------------------------------------------------------------------- */

static int64_t most(const int64_t *counts, int size)
{
    int64_t most_count = 0;
    for (int i = 0; i < size; i++)
        most_count = counts[i] > most_count ? counts[i] : most_count;
    return most_count;
}

static uint64_t rounds_for(const struct shm_team *team, int64_t count)
{
    return (uint64_t)((count + team->per_round - 1) / team->per_round);
}

/* From here on the batch's last chunk is known. What this member has no part in it has done. */
static void agree(struct shm_team *team, uint64_t rounds)
{
    bool gives = team->batch.need.kind != PLANE_BROADCAST || team->members.rank == team->batch.root;
    team->end = team->begin + rounds;
    team->agreed = true;
    if (!gives)
        come_to(team, GIVEN, team->end);
    if (kinds[team->batch.need.kind].take == NULL)
        come_to(team, TAKEN, team->end);
}

/* How long an alltoall takes only all members together know; what one receives another sends. */
static void announce(struct shm_team *team)
{
    const struct plane_batch *batch = &team->batch;
    int size = team->members.size;
    uint64_t turn = ++team->turn;
    struct member *mine = &team->lines[team->members.rank];
    atomic_store_explicit(&mine->needs[turn % 2].rounds, rounds_for(team, most(batch->counts, size)),
                          memory_order_relaxed);
    atomic_store_explicit(&mine->needs[turn % 2].turn, turn, memory_order_release);
}

/* Still HVD_IN_PROGRESS where not all have announced it. */
static int hear_announced(struct shm_team *team, struct hvd_error *err)
{
    uint64_t most_rounds = (uint64_t)(INT64_MAX / team->element_bytes / team->per_round);
    uint64_t rounds = 0;
    for (int i = 0; i < team->members.size; i++) {
        struct member *member = &team->lines[i];
        if (atomic_load_explicit(&member->needs[team->turn % 2].turn, memory_order_acquire) != team->turn)
            return HVD_IN_PROGRESS;
        uint64_t wanted = atomic_load_explicit(&member->needs[team->turn % 2].rounds, memory_order_relaxed);
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

static void plan_rounds(struct shm_team *team)
{
    const struct plane_batch *batch = &team->batch;
    int64_t slot = team->chunk_bytes / team->element_bytes;
    int64_t each = team->chunk_bytes / team->members.size / LINE_BYTES * LINE_BYTES / team->element_bytes;
    switch (batch->need.kind) {
    case PLANE_ALLREDUCE:
    case PLANE_BROADCAST:
        team->per_round = slot;
        agree(team, rounds_for(team, batch->count));
        break;
    case PLANE_ALLGATHER:
        team->per_round = slot;
        agree(team, rounds_for(team, most(batch->counts, team->members.size)));
        break;
    case PLANE_REDUCESCATTER:
        team->per_round = each;
        agree(team, rounds_for(team, most(batch->counts, team->members.size)));
        break;
    case PLANE_ALLTOALL:
        team->per_round = each;
        announce(team);
        break;
    }
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

/* A region of the node's memory for the members' lines and slots. */
static int enter(struct shm_team *team, int64_t deadline_us, struct hvd_error *err)
{
    size_t size = (size_t)team->members.size;
    size_t lines_bytes = size * sizeof(struct member);
    const struct arena_claim claim = {.set = team->members.set,
                                      .users = team->members.size,
                                      .bytes = lines_bytes + (size + 1) * SLOTS * SLOT_BYTES,
                                      .zeroed = lines_bytes};
    int64_t enough_us = clock_us() + ENTER_US;
    void *region = NULL;
    int rc =
        arena_enter(team->arena, &claim, deadline_us < enough_us ? deadline_us : enough_us, &region, err);
    if (rc != HVD_OK)
        return rc;
    team->lines = region;
    team->slots = (char *)region + lines_bytes;
    return HVD_OK;
}

static int shm_add_team(void *state, const struct plane_team *members, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    struct shm *shm = state;
    struct shm_team *team = calloc(1, sizeof(*team));
    const void **inputs = calloc((size_t)members->size, sizeof(*inputs));
    int rc = HVD_OK;
    if (team == NULL || inputs == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "plane shm: no memory for a process set of %d ranks",
                       members->size);
    } else {
        *team = (struct shm_team){
            .members = *members, .arena = &shm->env.arena, .chunk_bytes = SLOT_BYTES, .inputs = inputs};
        rc = enter(team, deadline_us, err);
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
    team->chunk_bytes = bytes;
}

static void shm_remove_team(void *state, void *state_of_team)
{
    (void)state;
    struct shm_team *team = state_of_team;
    if (team == NULL)
        return;
    arena_leave(team->arena, team->members.set);
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
    plan_rounds(team);
    return HVD_OK;
}

/* One chunk further in one of the three; the last first, as others wait for it. */
static bool go_on(struct shm_team *team)
{
    for (int count = TAKEN; count >= GIVEN; count--) {
        uint64_t at = team->at[count];
        if (!may_go(team, (enum count)count))
            continue;
        if (count == TAKEN)
            kinds[team->batch.need.kind].take(team, at);
        else if (count == MIXED)
            kinds[team->batch.need.kind].mix(team, at);
        else
            kinds[team->batch.need.kind].give(team, at);
        come_to(team, (enum count)count, at + 1);
        return true;
    }
    return false;
}

static bool is_done(const struct shm_team *team)
{
    return team->at[GIVEN] == team->end && team->at[MIXED] == team->end && team->at[TAKEN] == team->end;
}

static int shm_test(void *state, void *state_of_team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)state;
    (void)rankp; /* control watches the processes of a node */
    struct shm_team *team = state_of_team;
    int64_t end_us = clock_us() + SLICE_US;
    *movedp = false;
    int rc = team->agreed ? HVD_OK : hear_announced(team, err);
    if (rc != HVD_OK)
        return rc;
    while (!is_done(team)) {
        if (!go_on(team))
            return HVD_IN_PROGRESS;
        *movedp = true;
        if (clock_us() >= end_us)
            return is_done(team) ? HVD_OK : HVD_IN_PROGRESS;
    }
    return HVD_OK;
}

/* Nothing of it is in a forked child: neither descriptors nor the memory. */
static void shm_after_fork(void *state)
{
    (void)state;
}

static void shm_close(void *state)
{
    free(state);
}

const struct plane_ops plane_shm = {
    .id = PLANE_SHM,
    .available = shm_available,
    .open = shm_open,
    .opens_early = true,
    .polled = true,
    .spans = true,
    .can = shm_can,
    .serves = shm_serves,
    .add_team = shm_add_team,
    .remove_team = shm_remove_team,
    .start = shm_start,
    .test = shm_test,
    .after_fork = shm_after_fork,
    .close = shm_close,
};
