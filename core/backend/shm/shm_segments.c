/* shm_segments.c: which segments of a chunk a member publishes, reduces and collects, by kind of batch. Each
 * element is folded in the order of members, wherever chunks and parts begin. So all members get the same
 * bits, and the same as from any other backend. */
#include "backend/range.h"
#include "backend/shm/shm_team.h"

/* If an allreduce fits into one chunk, and its size times the number of other members is at most this, each
 * member reduces all of it for itself: reading all inputs costs less than waiting for parts of the result. */
#define WHOLE_BYTES (INT64_C(32) << 10)

/* ---- Layout --------------------------------------------------------------------------------- */

/* The elements of round [position], where [count] elements are cut into rounds. */
static struct range round_of(const struct shm_team *team, uint64_t position, int64_t count)
{
    int64_t begin = (int64_t)(position - team->begin) * team->per_round;
    int64_t left = count > begin ? count - begin : 0;
    return (struct range){begin, left < team->per_round ? left : team->per_round};
}

/* The part of a chunk of [count] elements that [member] reduces: whole cache lines. */
static struct range part_of(const struct shm_team *team, int64_t count, int member)
{
    int64_t per_line = CACHE_LINE_BYTES / team->element_bytes;
    int64_t lines = (count + per_line - 1) / per_line;
    int64_t size = team->members.size;
    int64_t begin = lines * member / size * per_line;
    int64_t end = lines * (member + 1) / size * per_line;
    return (struct range){begin, (end < count ? end : count) - begin};
}

static int64_t bytes_of(const struct shm_team *team, int64_t count)
{
    return count * team->element_bytes;
}

/* ---- Segments ------------------------------------------------------------------------------- */

static char *own_slot(const struct shm_team *team, uint64_t position)
{
    return slots_input(&team->slots, team->members.rank, position);
}

/* Copy what this member has for itself, from element [from] of its input to element [to] of its output. Such
 * batches have no spans. */
static struct shm_segment copy_own(const struct shm_team *team, int64_t to, int64_t from, int64_t count)
{
    char *input = (char *)team->batch.input;
    return (struct shm_segment){SEGMENT_GET, to, count, count > 0 ? input + bytes_of(team, from) : input, 0};
}

/* Where the elements of [member] begin, where each member i has counts[i] of them. */
static int64_t offset_of(const int64_t *counts, int member)
{
    int64_t offset = 0;
    for (int i = 0; i < member; i++)
        offset += counts[i];
    return offset;
}

/* Publish all but this member's own part: the first segment is what lies before that part, the second what
 * lies behind it. */
static void publish_parts(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct range range = round_of(team, cursor->position, team->batch.count);
    struct range mine = part_of(team, range.count, team->members.rank);
    int64_t begin = cursor->next == 0 ? 0 : mine.begin + mine.count;
    int64_t end = cursor->next == 0 ? mine.begin : range.count;
    char *slot = own_slot(team, cursor->position) + bytes_of(team, begin);
    cursor->segment = (struct shm_segment){SEGMENT_PUT, range.begin + begin, end - begin, slot, 0};
}

static void reduce_parts(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct range range = round_of(team, cursor->position, team->batch.count);
    struct range mine = part_of(team, range.count, team->members.rank);
    char *copy = slots_result(&team->slots, team->members.rank, cursor->position);
    cursor->segment = (struct shm_segment){SEGMENT_REDUCE, range.begin + mine.begin, mine.count, copy,
                                           bytes_of(team, mine.begin)};
}

static void collect_parts(const struct shm_team *team, struct shm_cursor *cursor)
{
    int member = cursor->next;
    struct range range = round_of(team, cursor->position, team->batch.count);
    struct range part = part_of(team, range.count, member);
    cursor->segment = (struct shm_segment){SEGMENT_GET, range.begin + part.begin,
                                           member == team->members.rank ? 0 : part.count,
                                           slots_result(&team->slots, member, cursor->position), 0};
}

static void publish_whole(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct range range = round_of(team, cursor->position, team->batch.count);
    cursor->segment =
        (struct shm_segment){SEGMENT_PUT, range.begin, range.count, own_slot(team, cursor->position), 0};
}

static void reduce_whole(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct range range = round_of(team, cursor->position, team->batch.count);
    cursor->segment = (struct shm_segment){SEGMENT_REDUCE, range.begin, range.count, NULL, 0};
}

static void receive_broadcast(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct range range = round_of(team, cursor->position, team->batch.count);
    if (team->members.rank == team->batch.root)
        cursor->segment = copy_own(team, range.begin, range.begin, range.count);
    else
        cursor->segment =
            (struct shm_segment){SEGMENT_GET, range.begin, range.count,
                                 slots_input(&team->slots, team->batch.root, cursor->position), 0};
}

static void publish_own(const struct shm_team *team, struct shm_cursor *cursor)
{
    struct range range = round_of(team, cursor->position, team->batch.counts[team->members.rank]);
    cursor->segment =
        (struct shm_segment){SEGMENT_PUT, range.begin, range.count, own_slot(team, cursor->position), 0};
}

static void receive_allgather(const struct shm_team *team, struct shm_cursor *cursor)
{
    int member = cursor->next;
    struct range range = round_of(team, cursor->position, team->batch.counts[member]);
    int64_t begin = cursor->offset + range.begin;
    if (member == team->members.rank)
        cursor->segment = copy_own(team, begin, range.begin, range.count);
    else
        cursor->segment = (struct shm_segment){SEGMENT_GET, begin, range.count,
                                               slots_input(&team->slots, member, cursor->position), 0};
    cursor->offset += team->batch.counts[member];
}

/* In alltoall and reducescatter a slot holds per_round elements for each member. */
static int64_t shift_to(const struct shm_team *team, int member)
{
    return bytes_of(team, member * team->per_round);
}

static void publish_each(const struct shm_team *team, struct shm_cursor *cursor)
{
    int member = cursor->next;
    struct range range = round_of(team, cursor->position, team->batch.counts[member]);
    cursor->segment = (struct shm_segment){SEGMENT_PUT, cursor->offset + range.begin,
                                           member == team->members.rank ? 0 : range.count,
                                           own_slot(team, cursor->position) + shift_to(team, member), 0};
    cursor->offset += team->batch.counts[member];
}

static void receive_alltoall(const struct shm_team *team, struct shm_cursor *cursor)
{
    int member = cursor->next;
    int rank = team->members.rank;
    struct range range = round_of(team, cursor->position, team->batch.receive_counts[member]);
    int64_t begin = cursor->offset + range.begin;
    if (member == rank)
        cursor->segment =
            copy_own(team, begin, offset_of(team->batch.counts, rank) + range.begin, range.count);
    else
        cursor->segment = (struct shm_segment){
            SEGMENT_GET, begin, range.count,
            slots_input(&team->slots, member, cursor->position) + shift_to(team, rank), 0};
    cursor->offset += team->batch.receive_counts[member];
}

static void reduce_share(const struct shm_team *team, struct shm_cursor *cursor)
{
    int rank = team->members.rank;
    struct range range = round_of(team, cursor->position, team->batch.counts[rank]);
    int64_t begin = offset_of(team->batch.counts, rank) + range.begin;
    cursor->segment = (struct shm_segment){SEGMENT_REDUCE, begin, range.count, NULL, shift_to(team, rank)};
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

/* One segment for each member. */
#define EACH (-1)

/* How many segments a phase has in a chunk, and how to find the next; 0: the phase has nothing to do. */
struct segments {
    int count;
    void (*find)(const struct shm_team *team, struct shm_cursor *cursor);
};

struct kind {
    struct segments phases[PHASES];
};

static const struct kind kinds[] = {
    [COLL_ALLREDUCE] = {{{2, publish_parts}, {1, reduce_parts}, {EACH, collect_parts}}},
    [COLL_BROADCAST] = {{{1, publish_whole}, {1, receive_broadcast}}},
    [COLL_ALLGATHER] = {{{1, publish_own}, {EACH, receive_allgather}}},
    [COLL_ALLTOALL] = {{{EACH, publish_each}, {EACH, receive_alltoall}}},
    [COLL_REDUCESCATTER] = {{{EACH, publish_each}, {1, reduce_share}}},
};

static const struct kind whole_kind = {{{1, publish_whole}, {1, reduce_whole}}};

static const struct kind *kind_of(const struct shm_team *team)
{
    return team->whole ? &whole_kind : &kinds[team->batch.need.kind];
}

bool shm_has_phase(const struct shm_team *team, enum shm_phase phase)
{
    bool publishes = team->batch.need.kind != COLL_BROADCAST || team->members.rank == team->batch.root;
    return kind_of(team)->phases[phase].count != 0 && (phase != PHASE_PUBLISH || publishes);
}

bool shm_next_segment(const struct shm_team *team, enum shm_phase phase, struct shm_cursor *cursor)
{
    const struct segments *segments = &kind_of(team)->phases[phase];
    if (cursor->next == (segments->count == EACH ? team->members.size : segments->count))
        return false;
    segments->find(team, cursor);
    cursor->next++;
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

/* Does each member reduce all of the batch for itself? Between two members that moves as many bytes from core
 * to core as reducing by parts, in one step less; doing all of the arithmetic twice costs less than that
 * step. The same answer on all members. */
static bool is_whole(const struct shm_team *team)
{
    const struct backend_batch *batch = &team->batch;
    int others = team->members.size - 1;
    if (batch->need.kind != COLL_ALLREDUCE)
        return false;
    if (others == 1)
        return true;
    return batch->count <= WHOLE_BYTES / team->element_bytes / others && batch->count <= team->per_round;
}

/* How many bytes of a slot the batch uses: as many as the job wants, but at least a cache line for each
 * member. */
static int64_t chunk_of(const struct shm_team *team)
{
    int64_t most = team->slots.chunk_bytes;
    int64_t least = (int64_t)team->members.size * CACHE_LINE_BYTES;
    int64_t asked = team->batch.chunk_bytes != 0 ? team->batch.chunk_bytes : team->chunk_bytes;
    int64_t wanted = asked / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    if (wanted > most)
        return most;
    return wanted > least ? wanted : least;
}

uint64_t shm_split(struct shm_team *team)
{
    const struct backend_batch *batch = &team->batch;
    enum backend_kind kind = batch->need.kind;
    int64_t chunk_bytes = chunk_of(team);
    if (kind == COLL_ALLTOALL || kind == COLL_REDUCESCATTER)
        chunk_bytes = chunk_bytes / team->members.size / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    int64_t count = kind == COLL_ALLREDUCE || kind == COLL_BROADCAST ? batch->count : most(team);
    team->per_round = chunk_bytes / team->element_bytes;
    team->whole = is_whole(team);
    for (int phase = 0; phase < PHASES; phase++)
        team->cursors[phase] = (struct shm_cursor){.spans = {&team->batch, team->element_bytes, 0}};
    return (uint64_t)((count + team->per_round - 1) / team->per_round);
}
