/* shm_pipeline.c: batches chunk by chunk through the slots. Each member passes through the chunks in three
 * phases: it publishes what others need, reduces what all have published, and collects what others have
 * reduced.
 *
 * Phases that can go on do so in turn, block by block. What one phase needs comes from far memory, what
 * another needs comes from another core's cache, and a processor waits for both at once if the reads are
 * close together. Doing a whole chunk of one phase and then a whole chunk of the other takes up to a fifth
 * longer. */
#include <string.h>

#include "base/cpu.h"
#include "base/clock.h"
#include "backend/shm/shm_team.h"
#include "base/dtype.h"

/* How much a phase does before the other phases are looked at again, and how much of that before it is
 * another phase's turn. */
#define BURST_BYTES   ((int64_t)16 * 1024)
#define BURST_CONTIGS 256
#define BLOCK_BYTES   ((int64_t)2048)

/* Results of smaller batches are still in a cache when they are used. */
#define LARGE_BYTES ((int64_t)4 << 20)

/* ---- Bursts --------------------------------------------------------------------------------- */

/* Elements that are contiguous in shared memory. If they are of small tensors, they are in several spans of
 * private memory. */
struct burst {
    enum shm_segment_kind move;
    struct span_cursor *spans;
    int64_t begin, count;
    char *memory;      /* put: destination; get: source; reduce: a second place for the result, or NULL */
    uint64_t position; /* of the chunk */
    int64_t shift;     /* reduce: where they begin in each member's slot of the chunk, in bytes */
    bool streaming;    /* write the result, or what others read, with streaming stores */
};

/* Reduce the members' elements that begin [at] bytes into the burst. */
static void reduce(struct shm_team *team, const struct burst *burst, int64_t at, const struct contig *place)
{
    for (int i = 0; i < team->members.size; i++)
        team->inputs[i] = slots_input(&team->slots, i, burst->position) + burst->shift + at;
    team->inputs[team->members.rank] = place->input;
    char *copy = burst->memory == NULL ? NULL : burst->memory + at;
    reduce_inputs(&team->steps, place->output, burst->streaming ? NULL : copy, team->inputs,
                  team->members.size, place->count);
    if (burst->streaming && copy != NULL)
        streaming_copy(copy, place->output, place->count * team->element_bytes);
}

static void move(char *to, const char *from, int64_t bytes, bool streaming)
{
    if (from != to && streaming)
        streaming_copy(to, from, bytes);
    else if (from != to)
        memcpy(to, from, (size_t)bytes);
}

/* Process [count] elements of the burst, from element [at] on. */
static void run_block(struct shm_team *team, const struct burst *burst, int64_t at, int64_t count)
{
    while (count > 0) {
        struct contig place = spans_at(burst->spans, burst->begin + at, count);
        int64_t at_bytes = at * team->element_bytes;
        int64_t bytes = place.count * team->element_bytes;
        if (burst->move == SEGMENT_REDUCE)
            reduce(team, burst, at_bytes, &place);
        else if (burst->move == SEGMENT_PUT)
            move(burst->memory + at_bytes, place.input, bytes, burst->streaming);
        else
            move(place.output, burst->memory + at_bytes, bytes, burst->streaming);
        at += place.count;
        count -= place.count;
    }
}

/* Prefetch the next block that this member publishes: its input comes from far memory, and the slot's cache
 * lines from the core that read them last, unless streaming stores bypass the cache. The lines may lie behind
 * the end of the slot. */
static void prefetch_next(struct shm_team *team, const struct burst *burst, int64_t at)
{
    if (burst->begin + at >= team->batch.count)
        return;
    struct contig place = spans_at(burst->spans, burst->begin + at, BLOCK_BYTES / team->element_bytes);
    char *to = burst->memory + at * team->element_bytes;
    for (int64_t line = 0; line < place.count * team->element_bytes; line += CACHE_LINE_BYTES) {
        prefetch_to_read(place.input + line);
        if (!burst->streaming)
            prefetch_to_write(to + line);
    }
}

static void run_interleaved(struct shm_team *team, const struct burst *bursts, int count)
{
    int64_t block = BLOCK_BYTES / team->element_bytes;
    bool goes_on = true;
    for (int64_t at = 0; goes_on; at += block) {
        goes_on = false;
        for (int i = 0; i < count; i++) {
            int64_t left = bursts[i].count - at;
            if (left <= 0)
                continue;
            run_block(team, &bursts[i], at, left < block ? left : block);
            if (bursts[i].move == SEGMENT_PUT)
                prefetch_next(team, &bursts[i], at + block);
            goes_on = true;
        }
    }
}

/* Run the bursts. The thread that drives next may be on another core, so this core's streaming stores must be
 * complete before. */
static void run_bursts(struct shm_team *team, const struct burst *bursts, int count)
{
    if (count == 1)
        run_block(team, &bursts[0], 0, bursts[0].count);
    else
        run_interleaved(team, bursts, count);
    streaming_copy_fence();
}

static int64_t bytes_of(const struct shm_team *team, const struct burst *bursts, int count)
{
    int64_t elements = 0;
    for (int i = 0; i < count; i++)
        elements += bursts[i].count;
    return elements * team->element_bytes;
}

/* Run and measure the bursts in a trial, which belongs to chunk [position]. */
static void time_bursts(struct shm_team *team, const struct burst *bursts, int count, uint64_t position)
{
    int64_t begin_ns = clock_ns();
    run_bursts(team, bursts, count);
    store_policy_record(&team->store_policy, position, clock_ns() - begin_ns, bytes_of(team, bursts, count));
}

static bool uses_streaming(const struct shm_team *team, enum shm_segment_kind move, uint64_t position)
{
    enum store_mode mode = store_policy_mode(&team->store_policy, position);
    return move == SEGMENT_GET ? mode != STORE_CACHED && team->is_large : mode == STORE_STREAM_ALL;
}

/* Take the next burst from the cursor. */
static struct burst next_burst(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct shm_segment *segment = &cursor->segment;
    int64_t most = BURST_BYTES / team->element_bytes;
    int64_t count = segment->count < most ? segment->count : most;
    struct burst burst = {.move = segment->move,
                          .spans = &cursor->spans,
                          .begin = segment->begin,
                          .count = spans_within(&cursor->spans, segment->begin, count, BURST_CONTIGS),
                          .memory = segment->memory,
                          .position = cursor->position,
                          .shift = segment->shift,
                          .streaming = uses_streaming(team, segment->move, cursor->position)};
    int64_t bytes = burst.count * team->element_bytes;
    segment->begin += burst.count;
    segment->count -= burst.count;
    segment->shift += bytes;
    if (segment->memory != NULL)
        segment->memory += bytes;
    return burst;
}

/* ---- Phases --------------------------------------------------------------------------------- */

static uint64_t position_of(const struct shm_team *team, enum shm_phase phase)
{
    switch (phase) {
    case PHASE_PUBLISH:
        return team->slots.reached[SLOTS_PUBLISHED];
    case PHASE_REDUCE:
        return team->slots.reached[SLOTS_REDUCED];
    default:
        return team->collected;
    }
}

static void advance_to(struct shm_team *team, enum shm_phase phase, uint64_t position)
{
    if (phase == PHASE_COLLECT)
        team->collected = position;
    else
        slots_advance(&team->slots, phase == PHASE_PUBLISH ? SLOTS_PUBLISHED : SLOTS_REDUCED, position);
}

/* May the phase begin chunk [position]?
 *
 * A member publishes chunk p only after it has collected the results of p - SLOTS. The results of p go into
 * the same slots, but only once all have published p, so nobody still reads there. That must be checked for
 * each chunk: collecting was tried just before, but the others may have reduced p - SLOTS since then. */
static bool may_begin(struct shm_team *team, enum shm_phase phase, uint64_t position)
{
    struct slots *slots = &team->slots;
    if (position == team->end)
        return false;
    if (phase == PHASE_REDUCE)
        return slots_all_reached(slots, SLOTS_PUBLISHED, position + 1);
    if (phase == PHASE_COLLECT)
        return slots_all_reached(slots, SLOTS_REDUCED, position + 1);
    return position < team->collected + SLOTS &&
           slots_all_reached(slots, SLOTS_REDUCED, counters_reusable_at(position));
}

static bool find_segment(const struct shm_team *team, enum shm_phase phase, struct shm_cursor *cursor)
{
    while (cursor->segment.count == 0) {
        if (!shm_next_segment(team, phase, cursor))
            return false;
    }
    return true;
}

static bool can_progress(struct shm_team *team, enum shm_phase phase)
{
    struct shm_cursor *cursor = &team->cursors[phase];
    uint64_t position = position_of(team, phase);
    if (cursor->under_way || !may_begin(team, phase, position))
        return cursor->under_way;
    *cursor = (struct shm_cursor){.spans = cursor->spans, .under_way = true, .position = position};
    return true;
}

/* Run a burst of each phase that can go on, the last phase first, because others wait for what is reduced.
 * Adds the bytes to *bytesp. */
static bool progress_phases(struct shm_team *team, int64_t *bytesp)
{
    struct burst bursts[PHASES];
    bool goes[PHASES];
    int count = 0;
    bool moved = false;
    uint64_t position = position_of(team, PHASE_REDUCE);
    for (int phase = PHASES - 1; phase >= 0; phase--) {
        goes[phase] = can_progress(team, (enum shm_phase)phase);
        moved = moved || goes[phase];
        if (goes[phase] && find_segment(team, (enum shm_phase)phase, &team->cursors[phase]))
            bursts[count++] = next_burst(team, &team->cursors[phase]);
    }
    if (store_policy_is_trial(position))
        time_bursts(team, bursts, count, position);
    else
        run_bursts(team, bursts, count);
    *bytesp += bytes_of(team, bursts, count);
    for (int phase = PHASES - 1; phase >= 0; phase--) {
        struct shm_cursor *cursor = &team->cursors[phase];
        if (!goes[phase] || find_segment(team, (enum shm_phase)phase, cursor))
            continue;
        cursor->under_way = false;
        advance_to(team, (enum shm_phase)phase, cursor->position + 1);
    }
    return moved;
}

/* ---- The batch ------------------------------------------------------------------------------ */

/* From now on the batch's last chunk is known. A phase in which this member has no part counts as done. */
static void agree(struct shm_team *team, uint64_t rounds)
{
    team->end = team->begin + rounds;
    team->agreed = true;
    for (int phase = 0; phase < PHASES; phase++) {
        if (!shm_has_phase(team, (enum shm_phase)phase))
            advance_to(team, (enum shm_phase)phase, team->end);
    }
}

/* Only all members together know how many rounds an alltoall takes, because what one receives another one
 * sends. Each announces the rounds that it needs to send. */
static void announce(struct shm_team *team, uint64_t rounds)
{
    uint64_t turn = ++team->turn;
    atomic_store_explicit(&team->slots.members[team->members.rank].rounds[turn % 2], rounds,
                          memory_order_relaxed);
    slots_advance(&team->slots, SLOTS_ANNOUNCED, turn);
}

/* All have announced the alltoall: it takes the most rounds that any of them needs. */
static int read_announced(struct shm_team *team, struct hvd_error *err)
{
    uint64_t most_rounds = (uint64_t)(INT64_MAX / team->element_bytes / team->per_round);
    uint64_t rounds = 0;
    for (int i = 0; i < team->members.size; i++) {
        uint64_t wanted =
            atomic_load_explicit(&team->slots.members[i].rounds[team->turn % 2], memory_order_relaxed);
        if (wanted > most_rounds)
            return error_set(
                err, HVD_ERR_SYSTEM,
                "backend shm: rank %d announced an alltoall of %llu rounds in process set %d, more "
                "than there can be: this node's shared memory was overwritten",
                team->members.ranks[i], (unsigned long long)wanted, team->members.set);
        rounds = wanted > rounds ? wanted : rounds;
    }
    agree(team, rounds);
    return HVD_OK;
}

void shm_pipeline_begin(struct shm_team *team)
{
    team->begin = team->end;
    team->agreed = false;
    uint64_t rounds = shm_split(team);
    team->is_large = (int64_t)rounds >= LARGE_BYTES / team->element_bytes / team->per_round;
    if (team->batch.need.kind == COLL_ALLTOALL)
        announce(team, rounds);
    else
        agree(team, rounds);
}

static bool is_done(const struct shm_team *team)
{
    const uint64_t *reached = team->slots.reached;
    return reached[SLOTS_PUBLISHED] == team->end && reached[SLOTS_REDUCED] == team->end &&
           team->collected == team->end;
}

int shm_pipeline_progress(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    if (!team->agreed && !slots_all_reached(&team->slots, SLOTS_ANNOUNCED, team->turn))
        return HVD_IN_PROGRESS;
    int rc = team->agreed ? HVD_OK : read_announced(team, err);
    if (rc != HVD_OK)
        return rc;
    int64_t bytes = 0;
    bool moves = progress_phases(team, &bytes);
    *movedp = moves;
    while (moves && bytes < BURST_BYTES && !is_done(team))
        moves = progress_phases(team, &bytes);
    return is_done(team) ? HVD_OK : HVD_IN_PROGRESS;
}

/* [position], or 0 if all have reached it. */
static uint64_t unless_reached(struct shm_team *team, enum slots_counter step, uint64_t position)
{
    return slots_all_reached(&team->slots, step, position) ? 0 : position;
}

void shm_pipeline_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS])
{
    uint64_t published = team->slots.reached[SLOTS_PUBLISHED];
    uint64_t reduced = team->slots.reached[SLOTS_REDUCED];
    if (!team->agreed)
        awaited[SLOTS_ANNOUNCED] = team->turn;
    if (team->agreed && reduced < team->end)
        awaited[SLOTS_PUBLISHED] = unless_reached(team, SLOTS_PUBLISHED, reduced + 1);
    if (team->agreed && published < team->end)
        awaited[SLOTS_REDUCED] = unless_reached(team, SLOTS_REDUCED, counters_reusable_at(published));
    if (team->agreed && awaited[SLOTS_REDUCED] == 0 && team->collected < team->end)
        awaited[SLOTS_REDUCED] = unless_reached(team, SLOTS_REDUCED, team->collected + 1);
}
