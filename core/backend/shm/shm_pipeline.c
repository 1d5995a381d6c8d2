/* shm_pipeline.c: the course of a batch in the plane of shared memory. Each member walks through its chunks
 * three times: it gives what others need, mixes what all have given, and takes what others have mixed.
 *
 * Walks that can go on do so in turn, block by block: what one needs comes from far memory, what another
 * needs from another core's cache, and a processor waits for both at once where the reads are close together.
 * To do a whole chunk of one and then of the other takes up to a fifth longer. */
#include <string.h>

#include "base/cache_line.h"
#include "base/clock.h"
#include "base/streaming_copy.h"
#include "base/prefetch.h"
#include "backend/shm/shm_team.h"

/* What a walk does before others are looked at again, and how much of it before it is another's turn. */
#define PIECE_BYTES  ((int64_t)16 * 1024)
#define PIECE_PLACES 256
#define BLOCK_BYTES  ((int64_t)2048)

/* Results of smaller batches are still in a cache when they are used. */
#define LARGE_BYTES ((int64_t)4 << 20)

/* ---- Pieces --------------------------------------------------------------------------------- */

/* Elements that lie together in shared memory. Those of small tensors are in several places. */
struct piece {
    enum shm_move move;
    struct places *places;
    int64_t begin, count;
    char *memory;      /* put: goes there; get: is there; reduce: the result goes there too, unless NULL */
    uint64_t position; /* of the chunk */
    int64_t shift;     /* reduce: where it begins in each member's slot of the chunk, in bytes */
    bool past;         /* the result, or what others read, goes past the cache */
};

/* The members' elements from [at] bytes on. */
static void reduce(struct shm_team *team, const struct piece *piece, int64_t at, const struct place *place)
{
    for (int i = 0; i < team->members.size; i++)
        team->inputs[i] = slots_given(&team->slots, i, piece->position) + piece->shift + at;
    team->inputs[team->members.rank] = place->input;
    char *copy = piece->memory == NULL ? NULL : piece->memory + at;
    reduce_inputs(&team->steps, place->output, piece->past ? NULL : copy, team->inputs, team->members.size,
                  place->count);
    if (piece->past && copy != NULL)
        past_cache_copy(copy, place->output, place->count * team->element_bytes);
}

static void move(char *to, const char *from, int64_t bytes, bool past)
{
    if (from != to && past)
        past_cache_copy(to, from, bytes);
    else if (from != to)
        memcpy(to, from, (size_t)bytes);
}

/* Its elements from [at] on. */
static void do_block(struct shm_team *team, const struct piece *piece, int64_t at, int64_t count)
{
    while (count > 0) {
        struct place place = place_at(piece->places, piece->begin + at, count);
        int64_t at_bytes = at * team->element_bytes;
        int64_t bytes = place.count * team->element_bytes;
        if (piece->move == MOVE_REDUCE)
            reduce(team, piece, at_bytes, &place);
        else if (piece->move == MOVE_PUT)
            move(piece->memory + at_bytes, place.input, bytes, piece->past);
        else
            move(place.output, piece->memory + at_bytes, bytes, piece->past);
        at += place.count;
        count -= place.count;
    }
}

/* Of what a member gives the next block is asked for before it is due: its own input comes from far memory,
 * and the slot's lines from whoever has read them last, unless they are written past the cache. They may lie
 * behind the end of the slot. */
static void ask_for(struct shm_team *team, const struct piece *piece, int64_t at)
{
    if (piece->begin + at >= team->batch.count)
        return;
    struct place place = place_at(piece->places, piece->begin + at, BLOCK_BYTES / team->element_bytes);
    char *to = piece->memory + at * team->element_bytes;
    for (int64_t line = 0; line < place.count * team->element_bytes; line += CACHE_LINE_BYTES) {
        prefetch_to_read(place.input + line);
        if (!piece->past)
            prefetch_to_write(to + line);
    }
}

static void do_in_turn(struct shm_team *team, const struct piece *pieces, int count)
{
    int64_t block = BLOCK_BYTES / team->element_bytes;
    bool goes_on = true;
    for (int64_t at = 0; goes_on; at += block) {
        goes_on = false;
        for (int i = 0; i < count; i++) {
            int64_t left = pieces[i].count - at;
            if (left <= 0)
                continue;
            do_block(team, &pieces[i], at, left < block ? left : block);
            if (pieces[i].move == MOVE_PUT)
                ask_for(team, &pieces[i], at + block);
            goes_on = true;
        }
    }
}

/* The next may be done by another thread on another core: what went past this one's cache is out before. */
static void do_pieces(struct shm_team *team, const struct piece *pieces, int count)
{
    if (count == 1)
        do_block(team, &pieces[0], 0, pieces[0].count);
    else
        do_in_turn(team, pieces, count);
    past_cache_done();
}

static int64_t bytes_of(const struct shm_team *team, const struct piece *pieces, int count)
{
    int64_t elements = 0;
    for (int i = 0; i < count; i++)
        elements += pieces[i].count;
    return elements * team->element_bytes;
}

/* The same in a trial, which is of chunk [position]. */
static void try_pieces(struct shm_team *team, const struct piece *pieces, int count, uint64_t position)
{
    int64_t begin_ns = clock_ns();
    do_pieces(team, pieces, count);
    gait_note(&team->gait, position, clock_ns() - begin_ns, bytes_of(team, pieces, count));
}

static bool goes_past(const struct shm_team *team, enum shm_move move, uint64_t position)
{
    enum gait_way way = gait_way(&team->gait, position);
    return move == MOVE_GET ? way != GAIT_NOTHING_PAST && team->is_large : way == GAIT_ALL_PAST;
}

/* The next piece of the errand, which is past it then. */
static struct piece take_piece(const struct shm_team *team, struct shm_errand *errand)
{
    struct shm_leg *leg = &errand->leg;
    int64_t most = PIECE_BYTES / team->element_bytes;
    int64_t count = leg->count < most ? leg->count : most;
    struct piece piece = {.move = leg->move,
                          .places = &errand->places,
                          .begin = leg->begin,
                          .count = places_within(&errand->places, leg->begin, count, PIECE_PLACES),
                          .memory = leg->memory,
                          .position = errand->position,
                          .shift = leg->shift,
                          .past = goes_past(team, leg->move, errand->position)};
    int64_t bytes = piece.count * team->element_bytes;
    leg->begin += piece.count;
    leg->count -= piece.count;
    leg->shift += bytes;
    if (leg->memory != NULL)
        leg->memory += bytes;
    return piece;
}

/* ---- Walks ---------------------------------------------------------------------------------- */

static uint64_t position_of(const struct shm_team *team, enum shm_walk walk)
{
    switch (walk) {
    case WALK_GIVE:
        return team->slots.at[STEP_GIVEN];
    case WALK_MIX:
        return team->slots.at[STEP_MIXED];
    default:
        return team->taken;
    }
}

static void come_to(struct shm_team *team, enum shm_walk walk, uint64_t position)
{
    if (walk == WALK_TAKE)
        team->taken = position;
    else
        slots_come_to(&team->slots, walk == WALK_GIVE ? STEP_GIVEN : STEP_MIXED, position);
}

/* Can chunk [position] be begun?
 *
 * Who has given a chunk has taken the results in whose slot the next ones go, which are mixed once all have
 * given it. Others come further at any time: that it could not be taken just now says nothing. */
static bool may_begin(struct shm_team *team, enum shm_walk walk, uint64_t position)
{
    struct slots *slots = &team->slots;
    if (position == team->end)
        return false;
    if (walk == WALK_MIX)
        return slots_all_have(slots, STEP_GIVEN, position + 1);
    if (walk == WALK_TAKE)
        return slots_all_have(slots, STEP_MIXED, position + 1);
    return position < team->taken + SLOTS && slots_all_have(slots, STEP_MIXED, slots_before(position));
}

static bool find_leg(const struct shm_team *team, enum shm_walk walk, struct shm_errand *errand)
{
    while (errand->leg.count == 0) {
        if (!shm_next_leg(team, walk, errand))
            return false;
    }
    return true;
}

static bool can_go(struct shm_team *team, enum shm_walk walk)
{
    struct shm_errand *errand = &team->errands[walk];
    uint64_t position = position_of(team, walk);
    if (errand->under_way || !may_begin(team, walk, position))
        return errand->under_way;
    *errand = (struct shm_errand){.places = errand->places, .under_way = true, .position = position};
    return true;
}

/* A piece of each walk that can go on: the last of the three first, as others wait for what is mixed. Adds
 * their bytes to *bytesp. */
static bool walk_on(struct shm_team *team, int64_t *bytesp)
{
    struct piece pieces[WALKS];
    bool goes[WALKS];
    int count = 0;
    bool moved = false;
    uint64_t position = position_of(team, WALK_MIX);
    for (int walk = WALKS - 1; walk >= 0; walk--) {
        goes[walk] = can_go(team, (enum shm_walk)walk);
        moved = moved || goes[walk];
        if (goes[walk] && find_leg(team, (enum shm_walk)walk, &team->errands[walk]))
            pieces[count++] = take_piece(team, &team->errands[walk]);
    }
    if (gait_is_trial(position))
        try_pieces(team, pieces, count, position);
    else
        do_pieces(team, pieces, count);
    *bytesp += bytes_of(team, pieces, count);
    for (int walk = WALKS - 1; walk >= 0; walk--) {
        struct shm_errand *errand = &team->errands[walk];
        if (!goes[walk] || find_leg(team, (enum shm_walk)walk, errand))
            continue;
        errand->under_way = false;
        come_to(team, (enum shm_walk)walk, errand->position + 1);
    }
    return moved;
}

/* ---- The batch ------------------------------------------------------------------------------ */

/* From here on the batch's last chunk is known. What this member has no part in it has done. */
static void agree(struct shm_team *team, uint64_t rounds)
{
    team->end = team->begin + rounds;
    team->agreed = true;
    for (int walk = 0; walk < WALKS; walk++) {
        if (!shm_walks(team, (enum shm_walk)walk))
            come_to(team, (enum shm_walk)walk, team->end);
    }
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

static struct reduce_steps steps_of(const struct plane_batch *batch)
{
    const struct reduction reduction = {batch->need.dtype, batch->need.partial, batch->need.op,
                                        batch->prescale,   batch->postscale,    batch->need.ranks};
    bool reduces = batch->need.kind == PLANE_ALLREDUCE || batch->need.kind == PLANE_REDUCESCATTER;
    return reduces ? reduce_steps_of(&reduction) : (struct reduce_steps){0};
}

void shm_copies_begin(struct shm_team *team)
{
    team->begin = team->end;
    team->agreed = false;
    uint64_t rounds = shm_cut(team);
    team->is_large = (int64_t)rounds >= LARGE_BYTES / team->element_bytes / team->per_round;
    if (team->batch.need.kind == PLANE_ALLTOALL)
        announce(team, rounds);
    else
        agree(team, rounds);
}

void shm_begin(struct shm_team *team, const struct plane_batch *batch)
{
    team->batch = *batch;
    team->steps = steps_of(batch);
    team->element_bytes = (int64_t)dtype_bytes(batch->need.dtype);
    team->begin = team->end;
    if (!shm_direct_begin(team))
        shm_copies_begin(team);
}

static bool is_done(const struct shm_team *team)
{
    const uint64_t *at = team->slots.at;
    return at[STEP_GIVEN] == team->end && at[STEP_MIXED] == team->end && team->taken == team->end;
}

int shm_go_on(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    if (team->direct.stage != DIRECT_NOT)
        return shm_direct_go_on(team, movedp, err);
    if (!team->agreed && !slots_all_have(&team->slots, STEP_ANNOUNCED, team->turn))
        return HVD_IN_PROGRESS;
    int rc = team->agreed ? HVD_OK : hear_announced(team, err);
    if (rc != HVD_OK)
        return rc;
    int64_t bytes = 0;
    bool moves = walk_on(team, &bytes);
    *movedp = moves;
    while (moves && bytes < PIECE_BYTES && !is_done(team))
        moves = walk_on(team, &bytes);
    return is_done(team) ? HVD_OK : HVD_IN_PROGRESS;
}

/* [position], if not all have come there. */
static uint64_t unless_met(struct shm_team *team, enum slots_step step, uint64_t position)
{
    return slots_all_have(&team->slots, step, position) ? 0 : position;
}

void shm_wants(struct shm_team *team, uint64_t wants[STEPS])
{
    uint64_t given = team->slots.at[STEP_GIVEN];
    uint64_t mixed = team->slots.at[STEP_MIXED];
    memset(wants, 0, STEPS * sizeof(wants[0]));
    if (team->direct.stage != DIRECT_NOT) {
        shm_direct_wants(team, wants);
        return;
    }
    if (!team->agreed)
        wants[STEP_ANNOUNCED] = team->turn;
    if (team->agreed && mixed < team->end)
        wants[STEP_GIVEN] = unless_met(team, STEP_GIVEN, mixed + 1);
    if (team->agreed && given < team->end)
        wants[STEP_MIXED] = unless_met(team, STEP_MIXED, slots_before(given));
    if (team->agreed && wants[STEP_MIXED] == 0 && team->taken < team->end)
        wants[STEP_MIXED] = unless_met(team, STEP_MIXED, team->taken + 1);
}
