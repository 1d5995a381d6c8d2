/* shm_segments.c: what members of a process set do with a chunk in the plane of shared memory, by kind of
 * batch. Each element is folded in the order of members, wherever the cuts are: all get the same bits, and
 * the same as on any other plane. */
#include "backend/shm/shm_team.h"

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
    int64_t per_line = CACHE_LINE_BYTES / team->element_bytes;
    int64_t lines = (count + per_line - 1) / per_line;
    int64_t size = team->members.size;
    int64_t begin = lines * member / size * per_line;
    int64_t end = lines * (member + 1) / size * per_line;
    return (struct run){begin, (end < count ? end : count) - begin};
}

static int64_t bytes_of(const struct shm_team *team, int64_t count)
{
    return count * team->element_bytes;
}

/* ---- Legs ----------------------------------------------------------------------------------- */

static char *own_slot(const struct shm_team *team, uint64_t position)
{
    return slots_given(&team->slots, team->members.rank, position);
}

/* What this member has for itself, from element [from] of its input to [to] of its output: never in spans. */
static struct shm_leg keep(const struct shm_team *team, int64_t to, int64_t from, int64_t count)
{
    char *input = (char *)team->batch.input;
    return (struct shm_leg){MOVE_GET, to, count, count > 0 ? input + bytes_of(team, from) : input, 0};
}

/* Where member [member]'s elements begin among those that [counts] cut. */
static int64_t offset_of(const int64_t *counts, int member)
{
    int64_t offset = 0;
    for (int i = 0; i < member; i++)
        offset += counts[i];
    return offset;
}

/* All but its own part: what is before that, and what is behind. */
static void give_parts(const struct shm_team *team, struct shm_errand *errand)
{
    struct run run = round_of(team, errand->position, team->batch.count);
    struct run mine = part_of(team, run.count, team->members.rank);
    int64_t begin = errand->next == 0 ? 0 : mine.begin + mine.count;
    int64_t end = errand->next == 0 ? mine.begin : run.count;
    char *slot = own_slot(team, errand->position) + bytes_of(team, begin);
    errand->leg = (struct shm_leg){MOVE_PUT, run.begin + begin, end - begin, slot, 0};
}

static void mix_parts(const struct shm_team *team, struct shm_errand *errand)
{
    struct run run = round_of(team, errand->position, team->batch.count);
    struct run mine = part_of(team, run.count, team->members.rank);
    char *copy = slots_result(&team->slots, team->members.rank, errand->position);
    errand->leg =
        (struct shm_leg){MOVE_REDUCE, run.begin + mine.begin, mine.count, copy, bytes_of(team, mine.begin)};
}

static void take_parts(const struct shm_team *team, struct shm_errand *errand)
{
    int member = errand->next;
    struct run run = round_of(team, errand->position, team->batch.count);
    struct run part = part_of(team, run.count, member);
    errand->leg =
        (struct shm_leg){MOVE_GET, run.begin + part.begin, member == team->members.rank ? 0 : part.count,
                         slots_result(&team->slots, member, errand->position), 0};
}

static void give_whole(const struct shm_team *team, struct shm_errand *errand)
{
    struct run run = round_of(team, errand->position, team->batch.count);
    errand->leg = (struct shm_leg){MOVE_PUT, run.begin, run.count, own_slot(team, errand->position), 0};
}

static void mix_whole(const struct shm_team *team, struct shm_errand *errand)
{
    struct run run = round_of(team, errand->position, team->batch.count);
    errand->leg = (struct shm_leg){MOVE_REDUCE, run.begin, run.count, NULL, 0};
}

static void mix_broadcast(const struct shm_team *team, struct shm_errand *errand)
{
    struct run run = round_of(team, errand->position, team->batch.count);
    if (team->members.rank == team->batch.root)
        errand->leg = keep(team, run.begin, run.begin, run.count);
    else
        errand->leg = (struct shm_leg){MOVE_GET, run.begin, run.count,
                                       slots_given(&team->slots, team->batch.root, errand->position), 0};
}

static void give_own(const struct shm_team *team, struct shm_errand *errand)
{
    struct run run = round_of(team, errand->position, team->batch.counts[team->members.rank]);
    errand->leg = (struct shm_leg){MOVE_PUT, run.begin, run.count, own_slot(team, errand->position), 0};
}

static void mix_allgather(const struct shm_team *team, struct shm_errand *errand)
{
    int member = errand->next;
    struct run run = round_of(team, errand->position, team->batch.counts[member]);
    int64_t begin = errand->offset + run.begin;
    if (member == team->members.rank)
        errand->leg = keep(team, begin, run.begin, run.count);
    else
        errand->leg = (struct shm_leg){MOVE_GET, begin, run.count,
                                       slots_given(&team->slots, member, errand->position), 0};
    errand->offset += team->batch.counts[member];
}

/* Alltoall and reducescatter: a slot holds a little for each member. */
static int64_t shift_to(const struct shm_team *team, int member)
{
    return bytes_of(team, member * team->per_round);
}

static void give_each(const struct shm_team *team, struct shm_errand *errand)
{
    int member = errand->next;
    struct run run = round_of(team, errand->position, team->batch.counts[member]);
    errand->leg =
        (struct shm_leg){MOVE_PUT, errand->offset + run.begin, member == team->members.rank ? 0 : run.count,
                         own_slot(team, errand->position) + shift_to(team, member), 0};
    errand->offset += team->batch.counts[member];
}

static void mix_alltoall(const struct shm_team *team, struct shm_errand *errand)
{
    int member = errand->next;
    int rank = team->members.rank;
    struct run run = round_of(team, errand->position, team->batch.receive_counts[member]);
    int64_t begin = errand->offset + run.begin;
    if (member == rank)
        errand->leg = keep(team, begin, offset_of(team->batch.counts, rank) + run.begin, run.count);
    else
        errand->leg =
            (struct shm_leg){MOVE_GET, begin, run.count,
                             slots_given(&team->slots, member, errand->position) + shift_to(team, rank), 0};
    errand->offset += team->batch.receive_counts[member];
}

static void mix_share(const struct shm_team *team, struct shm_errand *errand)
{
    int rank = team->members.rank;
    struct run run = round_of(team, errand->position, team->batch.counts[rank]);
    int64_t begin = offset_of(team->batch.counts, rank) + run.begin;
    errand->leg = (struct shm_leg){MOVE_REDUCE, begin, run.count, NULL, shift_to(team, rank)};
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

/* One leg for each member. */
#define EACH (-1)

/* How many legs a walk has in a chunk, and how it finds the next; none: it has nothing to do. */
struct legs {
    int count;
    void (*find)(const struct shm_team *team, struct shm_errand *errand);
};

struct kind {
    struct legs walks[WALKS];
};

static const struct kind kinds[] = {
    [PLANE_ALLREDUCE] = {{{2, give_parts}, {1, mix_parts}, {EACH, take_parts}}},
    [PLANE_BROADCAST] = {{{1, give_whole}, {1, mix_broadcast}}},
    [PLANE_ALLGATHER] = {{{1, give_own}, {EACH, mix_allgather}}},
    [PLANE_ALLTOALL] = {{{EACH, give_each}, {EACH, mix_alltoall}}},
    [PLANE_REDUCESCATTER] = {{{EACH, give_each}, {1, mix_share}}},
};

static const struct kind whole_kind = {{{1, give_whole}, {1, mix_whole}}};

static const struct kind *kind_of(const struct shm_team *team)
{
    return team->whole ? &whole_kind : &kinds[team->batch.need.kind];
}

bool shm_walks(const struct shm_team *team, enum shm_walk walk)
{
    bool gives = team->batch.need.kind != PLANE_BROADCAST || team->members.rank == team->batch.root;
    return kind_of(team)->walks[walk].count != 0 && (walk != WALK_GIVE || gives);
}

bool shm_next_leg(const struct shm_team *team, enum shm_walk walk, struct shm_errand *errand)
{
    const struct legs *legs = &kind_of(team)->walks[walk];
    if (errand->next == (legs->count == EACH ? team->members.size : legs->count))
        return false;
    legs->find(team, errand);
    errand->next++;
    return true;
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
    int64_t least = (int64_t)team->members.size * CACHE_LINE_BYTES;
    int64_t told = team->batch.chunk_bytes != 0 ? team->batch.chunk_bytes : team->chunk_bytes;
    int64_t wanted = told / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    if (wanted > most)
        return most;
    return wanted > least ? wanted : least;
}

uint64_t shm_cut(struct shm_team *team)
{
    const struct plane_batch *batch = &team->batch;
    enum plane_kind kind = batch->need.kind;
    int64_t chunk_bytes = chunk_of(team);
    if (kind == PLANE_ALLTOALL || kind == PLANE_REDUCESCATTER)
        chunk_bytes = chunk_bytes / team->members.size / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    int64_t count = kind == PLANE_ALLREDUCE || kind == PLANE_BROADCAST ? batch->count : most(team);
    team->per_round = chunk_bytes / team->element_bytes;
    team->whole = is_whole(team);
    for (int walk = 0; walk < WALKS; walk++)
        team->errands[walk] = (struct shm_errand){.places = {&team->batch, team->element_bytes, 0}};
    return (uint64_t)((count + team->per_round - 1) / team->per_round);
}
