/* shm_kinds.c: what members of a process set do with a chunk in the plane of shared memory, by kind of batch.
 *
 * Each element is folded in the order of members, wherever the cuts are: all get the same bits, and the same
 * as on any other plane. Data moves between two cores as memory is copied: arithmetic works on blocks that
 * stay in the fastest cache, as stores to lines that another core has read lately hold up the loads beside
 * them.
 */
#include "plane/shm_team.h"

/* An allreduce of one chunk up to this size, times the others' number, is mixed by each member for itself:
 * reading that costs less than to wait for parts of the result. */
#define WHOLE_BYTES (INT64_C(32) << 10)

/* ---- Where things are ----------------------------------------------------------------------- */

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

/* Of a chunk of [count] elements the part that [member] reduces: whole cache lines. */
static struct run part_of(const struct shm_team *team, int64_t count, int member)
{
    int64_t per_line = SLOTS_LINE_BYTES / team->element_bytes;
    int64_t lines = (count + per_line - 1) / per_line;
    int64_t size = team->members.size;
    int64_t begin = lines * member / size * per_line;
    int64_t end = lines * (member + 1) / size * per_line;
    return (struct run){begin, (end < count ? end : count) - begin};
}

static size_t bytes_of(const struct shm_team *team, int64_t count)
{
    return (size_t)(count * team->element_bytes);
}

/* Copy elements of the input to [slot], and from [slot] to the output. */
static void put(struct shm_team *team, char *slot, int64_t begin, int64_t count)
{
    places_read(&team->walks[WALK_GIVE], slot, begin, count);
}

static void get(struct shm_team *team, enum shm_walk walk, int64_t begin, const char *slot, int64_t count)
{
    places_write(&team->walks[walk], begin, slot, count);
}

/* What this member has for itself: from [from] of its input to [to] of its output. */
static void keep(struct shm_team *team, int64_t to, int64_t from, int64_t count)
{
    if (count > 0)
        get(team, WALK_MIX, to, place_at(&team->walks[WALK_GIVE], from, count).input, count);
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

/* The members' elements at [shift] bytes in their slots, this one's at [mine], into [out] and [copy]. */
static void reduce_all(struct shm_team *team, uint64_t position, int64_t shift, const struct place *mine,
                       char *copy)
{
    for (int i = 0; i < team->members.size; i++)
        team->inputs[i] = slots_given(&team->slots, i, position) + shift;
    team->inputs[team->members.rank] = mine->input;
    reduce_inputs(&team->reduction, mine->output, copy, team->inputs, team->members.size, mine->count);
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

static char *own_slot(const struct shm_team *team, uint64_t position)
{
    return slots_given(&team->slots, team->members.rank, position);
}

static void give_allreduce(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    struct run mine = part_of(team, run.count, team->members.rank);
    char *slot = own_slot(team, position);
    int64_t behind = mine.begin + mine.count;
    put(team, slot, run.begin, mine.begin);
    put(team, slot + behind * team->element_bytes, run.begin + behind, run.count - behind);
}

static void mix_allreduce(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    struct run mine = part_of(team, run.count, team->members.rank);
    char *copy = slots_result(&team->slots, team->members.rank, position);
    int64_t at = mine.begin;
    int64_t end = mine.begin + mine.count;
    while (at < end) {
        struct place place = place_at(&team->walks[WALK_MIX], run.begin + at, end - at);
        reduce_all(team, position, at * team->element_bytes, &place, copy);
        copy += bytes_of(team, place.count);
        at += place.count;
    }
}

static void take_allreduce(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    for (int i = 0; i < team->members.size; i++) {
        struct run part = part_of(team, run.count, i);
        if (i != team->members.rank)
            get(team, WALK_TAKE, run.begin + part.begin, slots_result(&team->slots, i, position), part.count);
    }
}

static void give_whole(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    put(team, own_slot(team, position), run.begin, run.count);
}

static void mix_whole(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    int64_t at = 0;
    while (at < run.count) {
        struct place place = place_at(&team->walks[WALK_MIX], run.begin + at, run.count - at);
        reduce_all(team, position, at * team->element_bytes, &place, NULL);
        at += place.count;
    }
}

static void mix_broadcast(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.count);
    if (team->members.rank == team->batch.root)
        keep(team, run.begin, run.begin, run.count);
    else
        get(team, WALK_MIX, run.begin, slots_given(&team->slots, team->batch.root, position), run.count);
}

static void give_allgather(struct shm_team *team, uint64_t position)
{
    struct run run = round_of(team, position, team->batch.counts[team->members.rank]);
    put(team, own_slot(team, position), run.begin, run.count);
}

static void mix_allgather(struct shm_team *team, uint64_t position)
{
    int64_t offset = 0;
    for (int i = 0; i < team->members.size; offset += team->batch.counts[i++]) {
        struct run run = round_of(team, position, team->batch.counts[i]);
        if (i == team->members.rank)
            keep(team, offset + run.begin, run.begin, run.count);
        else
            get(team, WALK_MIX, offset + run.begin, slots_given(&team->slots, i, position), run.count);
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
    char *slot = own_slot(team, position);
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
            get(team, WALK_MIX, offset + run.begin,
                slots_given(&team->slots, i, position) + shift_to(team, rank), run.count);
    }
}

static void mix_reducescatter(struct shm_team *team, uint64_t position)
{
    int rank = team->members.rank;
    int64_t offset = offset_of(team->batch.counts, rank);
    struct run run = round_of(team, position, team->batch.counts[rank]);
    if (run.count == 0)
        return;
    struct place place = place_at(&team->walks[WALK_MIX], offset + run.begin, run.count);
    reduce_all(team, position, shift_to(team, rank), &place, NULL);
}

static const struct shm_kind kinds[] = {
    [PLANE_ALLREDUCE] = {give_allreduce, mix_allreduce, take_allreduce},
    [PLANE_BROADCAST] = {give_whole, mix_broadcast, NULL},
    [PLANE_ALLGATHER] = {give_allgather, mix_allgather, NULL},
    [PLANE_ALLTOALL] = {give_each, mix_alltoall, NULL},
    [PLANE_REDUCESCATTER] = {give_each, mix_reducescatter, NULL},
};

static const struct shm_kind whole_kind = {give_whole, mix_whole, NULL};

const struct shm_kind *shm_kind_of(const struct shm_team *team)
{
    return team->whole ? &whole_kind : &kinds[team->batch.need.kind];
}

/* ---- Rounds --------------------------------------------------------------------------------- */

static int64_t most(const struct shm_team *team)
{
    int64_t most_count = 0;
    for (int i = 0; i < team->members.size; i++) {
        int64_t count = team->batch.counts[i];
        most_count = count > most_count ? count : most_count;
    }
    return most_count;
}

/* Between two that moves as many bytes from core to core as parts do, in one step less; that both do all of
 * the arithmetic costs less. The same on all members. */
static bool is_whole(const struct shm_team *team)
{
    const struct plane_batch *batch = &team->batch;
    int others = team->members.size - 1;
    if (batch->need.kind != PLANE_ALLREDUCE)
        return false;
    if (others == 1)
        return true;
    return batch->count <= WHOLE_BYTES / team->element_bytes / others && batch->count <= team->per_round;
}

/* Of a slot as much as the job wants to use, and each member has a line of it. */
static int64_t chunk_of(const struct shm_team *team)
{
    int64_t most = team->slots.chunk_bytes;
    int64_t least = (int64_t)team->members.size * SLOTS_LINE_BYTES;
    int64_t wanted = team->batch.chunk_bytes / SLOTS_LINE_BYTES * SLOTS_LINE_BYTES;
    if (team->batch.chunk_bytes == 0 || wanted > most)
        return most;
    return wanted > least ? wanted : least;
}

uint64_t shm_cut(struct shm_team *team)
{
    const struct plane_batch *batch = &team->batch;
    enum plane_kind kind = batch->need.kind;
    int64_t chunk_bytes = chunk_of(team);
    if (kind == PLANE_ALLTOALL || kind == PLANE_REDUCESCATTER)
        chunk_bytes = chunk_bytes / team->members.size / SLOTS_LINE_BYTES * SLOTS_LINE_BYTES;
    int64_t count = kind == PLANE_ALLREDUCE || kind == PLANE_BROADCAST ? batch->count : most(team);
    team->per_round = chunk_bytes / team->element_bytes;
    team->whole = is_whole(team);
    for (int walk = 0; walk < WALKS; walk++)
        team->walks[walk] = (struct places){&team->batch, team->element_bytes, 0};
    return (uint64_t)((count + team->per_round - 1) / team->per_round);
}
