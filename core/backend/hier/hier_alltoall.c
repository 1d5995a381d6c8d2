/* hier_alltoall.c: the part of a hierarchical alltoall inside a node: it brings what the node's members send
 * to another node together at the one member that sends it there, and passes on what stays on the node.
 *
 * The j-th member of a node sends, in one piece, what all members of its node have for the j-th member of
 * another node. The members of a node follow each other in the team, so all this data is adjacent and in
 * order in the receiver's output, and the receiver has nothing left to do.
 *
 * So each member owns two streams, and all members of its node publish to them: STREAM_OUT, what the owner
 * sends, for the next node first, and STREAM_OWN, what it keeps. A stream consists of runs, and a run of
 * chunks. There are two runs for each receiver: first the parts of the members from the owner on, then those
 * of the members before the owner. So where parts are large, the members publish to different owners at a
 * time, and no member waits for all the others.
 *
 * Chunks are numbered over all batches. Chunk p lies in slot p % SLOTS of its stream, and each member writes
 * its part of the chunk there. Each member's counters only ever grow:
 *
 *   announced  alltoalls for which it has written down how many elements it has for whom
 *   published  for each stream: chunks in which its part is in place
 *   sent       for each of its own two streams: chunks that are no longer read
 * What each step waits for, so that no slot is overwritten while a member still needs it:
 *   begin      all have announced this alltoall: then each member knows where the parts lie in a run
 *   publish p  the owner has sent p - SLOTS
 *   send p     all have published p
 * There is room to announce two alltoalls. A member announces alltoall t + 2 after it has completed t + 1,
 * which all had announced by then. So all have completed t, in whose room t + 2 is announced.
 *
 * There is no deadlock. A member that must wait in one stream goes on in any other that can go on, and an
 * owner's chunks are in the order in which pairwise.h sends them. So members never wait for each other in a
 * circle.
 *
 * A member that overwrites the shared memory can spoil results, or keep the others waiting until they learn
 * that it failed. It cannot make them read or write elsewhere: they check what it announces, and that only
 * says which part of a chunk is whose. */
#include "backend/hier/hier_alltoall.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/dtype.h"
#include "base/round_up.h"

#define RUNS 16 /* the most runs that one step enters */

enum hier_stream { STREAM_OUT, STREAM_OWN, STREAMS };

/* One member's counters, except published, which has a table of its own; it alone writes them. */
struct alltoall_counters {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t announced;
    _Atomic uint64_t sent[STREAMS];
};

/* How far this member has come in publishing to a stream. */
struct stream_writer {
    struct counters sent; /* the owner's counter of chunks of this stream that are no longer read */
    uint64_t at;          /* chunks published, over all batches */
    int run, end;         /* the next run, and the end of the runs: two for each node, this node first */
    int64_t count;        /* elements of the current run, */
    int64_t within;       /* of which these are published */
    struct range mine;
    int64_t input; /* where [mine], this member's part of the run, begins in the input */
};

struct hier_alltoall {
    struct hier_params params;
    int first, size; /* this node's members of the team */
    int self;        /* this member's place among them, from 0 */
    int64_t chunk_bytes;
    struct alltoall_counters *counters; /* [size], in the arena, as the next three tables */
    _Atomic uint64_t *published;        /* [size] rows of [size][STREAMS], by owner */
    size_t published_words;             /* of a row: whole cache lines */
    _Atomic int64_t *announced;         /* [2][size][members of the team]; the first by turn % 2 */
    char *slots;                        /* [size][STREAMS][SLOTS] of chunk_bytes */
    uint64_t turn;                      /* alltoalls begun */
    uint64_t sent[STREAMS];             /* of this member's own streams */
    struct counters all_announced, all_published[STREAMS]; /* all_published: to this member's own streams */
    bool sent_early[SLOTS];        /* sent, but an earlier one is not; by position % SLOTS */
    struct stream_writer *writers; /* [size][STREAMS]; by owner */
    int next;                      /* the writer to look at first */
    /* the batch that runs */
    struct backend_batch batch;
    int64_t element_bytes, longest; /* longest: elements of a chunk */
    int64_t *offsets;               /* [members of the team]: where the data for each begins in the input */
    bool all_have_announced;        /* this alltoall: the members know where parts lie */
    bool handed_out;                /* the slice, or it was found empty */
    int left;                       /* streams to which this member still has to publish */
    struct range own[2]; /* what is left to collect from STREAM_OWN, by run, as ranges of the output; empty
                            until the slice is handed out */
    /* this member's slice */
    uint64_t begin; /* position of its first chunk in STREAM_OUT */
    struct backend_batch slice;
    struct backend_feed feed;
    int64_t *counts, *begins, *receive_counts, *receive_begins; /* [nodes] */
};

/* ---- Layout --------------------------------------------------------------------------------- */

static char *slot_of(const struct hier_alltoall *alltoall, int owner, enum hier_stream stream,
                     uint64_t position)
{
    int64_t slot = ((int64_t)owner * STREAMS + stream) * SLOTS + (int64_t)(position % SLOTS);
    return alltoall->slots + slot * alltoall->chunk_bytes;
}

static _Atomic uint64_t *published_by(const struct hier_alltoall *alltoall, int member, int owner,
                                      enum hier_stream stream)
{
    return &alltoall
                ->published[(size_t)member * alltoall->published_words + (size_t)owner * STREAMS + stream];
}

static _Atomic int64_t *announced_by(const struct hier_alltoall *alltoall, int member)
{
    int64_t row = (int64_t)(alltoall->turn % 2) * alltoall->size + member;
    return &alltoall->announced[row * alltoall->params.team->size];
}

static struct stream_writer *writer_to(const struct hier_alltoall *alltoall, int owner,
                                       enum hier_stream stream)
{
    return &alltoall->writers[owner * STREAMS + stream];
}

static size_t bytes_of(const struct hier_alltoall *alltoall, int64_t count)
{
    return (size_t)(count * alltoall->element_bytes);
}

/* ---- Announcing ----------------------------------------------------------------------------- */

static void announce(struct hier_alltoall *alltoall)
{
    _Atomic int64_t *row = announced_by(alltoall, alltoall->self);
    for (int to = 0; to < alltoall->params.team->size; to++)
        atomic_store_explicit(&row[to], alltoall->batch.counts[to], memory_order_relaxed);
    counter_advance(&alltoall->counters[alltoall->self].announced, alltoall->turn);
}

/* Add to *sump how many elements [member] of this node has for [to]. Fails if the sum would be more than
 * memory can hold. */
static int add_announced(const struct hier_alltoall *alltoall, int member, int to, int64_t *sump,
                         struct hvd_error *err)
{
    int64_t most = INT64_MAX / alltoall->element_bytes - *sump;
    int64_t count = member == alltoall->self
                        ? alltoall->batch.counts[to]
                        : atomic_load_explicit(&announced_by(alltoall, member)[to], memory_order_relaxed);
    if (count < 0 || count > most) {
        const struct team *team = alltoall->params.team;
        return error_set(
            err, HVD_ERR_SYSTEM,
            "backend hier: rank %d announced %lld elements for rank %d in an alltoall of process "
            "set %d, expected 0 to %lld: this node's shared memory was overwritten",
            team->ranks[alltoall->first + member], (long long)count, team->ranks[to], team->set,
            (long long)most);
    }
    *sump += count;
    return HVD_OK;
}

/* ---- Publishing ----------------------------------------------------------------------------- */

static int enter_run(const struct hier_alltoall *alltoall, int owner, struct stream_writer *writer,
                     struct hvd_error *err)
{
    const struct hier_nodes *nodes = alltoall->params.nodes;
    int to = nodes->firsts[(nodes->node + writer->run / 2) % nodes->count] + owner;
    int first = writer->run % 2 == 0 ? owner : 0;
    int end = writer->run % 2 == 0 ? alltoall->size : owner;
    int rc = HVD_OK;
    writer->run++;
    writer->count = writer->within = 0;
    writer->mine = (struct range){0, 0};
    writer->input = alltoall->offsets[to];
    for (int member = first; member < end && rc == HVD_OK; member++) {
        int64_t before = writer->count;
        rc = add_announced(alltoall, member, to, &writer->count, err);
        if (member == alltoall->self)
            writer->mine = (struct range){before, writer->count - before};
    }
    return rc;
}

static void begin_writing(struct hier_alltoall *alltoall)
{
    alltoall->left = alltoall->size * STREAMS;
    alltoall->next = alltoall->self * STREAMS;
    for (int owner = 0; owner < alltoall->size; owner++) {
        writer_to(alltoall, owner, STREAM_OUT)->run = 2;
        writer_to(alltoall, owner, STREAM_OUT)->end = 2 * alltoall->params.nodes->count;
        writer_to(alltoall, owner, STREAM_OWN)->run = 0;
        writer_to(alltoall, owner, STREAM_OWN)->end = 2;
    }
}

static bool is_through(const struct stream_writer *writer)
{
    return writer->within == writer->count && writer->run == writer->end;
}

static bool may_write(struct stream_writer *writer)
{
    if (writer->within == writer->count)
        return writer->run < writer->end;
    return counters_all_reached(&writer->sent, counters_reusable_at(writer->at));
}

static void write_chunk(struct hier_alltoall *alltoall, int owner, enum hier_stream stream)
{
    struct stream_writer *writer = writer_to(alltoall, owner, stream);
    int64_t left = writer->count - writer->within;
    struct range chunk = {writer->within, left < alltoall->longest ? left : alltoall->longest};
    struct range mine = range_overlap(chunk, writer->mine);
    if (mine.count > 0)
        memcpy(slot_of(alltoall, owner, stream, writer->at) + bytes_of(alltoall, mine.begin - chunk.begin),
               (const char *)alltoall->batch.input +
                   bytes_of(alltoall, writer->input + mine.begin - writer->mine.begin),
               bytes_of(alltoall, mine.count));
    writer->within += chunk.count;
    counter_advance(published_by(alltoall, alltoall->self, owner, stream), ++writer->at);
}

/* Publish a chunk if the current run has one left, then enter the next run that is not empty. Enters at most
 * RUNS runs, because many of them may be empty. */
static int publish(struct hier_alltoall *alltoall, int owner, enum hier_stream stream, struct hvd_error *err)
{
    struct stream_writer *writer = writer_to(alltoall, owner, stream);
    int rc = HVD_OK;
    if (writer->within < writer->count)
        write_chunk(alltoall, owner, stream);
    for (int i = 0; i < RUNS && rc == HVD_OK && writer->within == writer->count && !is_through(writer); i++)
        rc = enter_run(alltoall, owner, writer, err);
    alltoall->left -= is_through(writer);
    return rc;
}

/* Do one step for the next stream that can go on. */
static int write_some(struct hier_alltoall *alltoall, bool *movedp, struct hvd_error *err)
{
    int streams = alltoall->size * STREAMS;
    for (int i = 0; i < streams && alltoall->left > 0; i++) {
        int next = (alltoall->next + i) % streams;
        if (!may_write(&alltoall->writers[next]))
            continue;
        alltoall->next = next + 1;
        *movedp = true;
        return publish(alltoall, next / STREAMS, (enum hier_stream)(next % STREAMS), err);
    }
    return HVD_OK;
}

/* ---- Sending and collecting ----------------------------------------------------------------- */

/* Have all members published chunk [position] of this member's stream? */
static bool all_published(struct hier_alltoall *alltoall, enum hier_stream stream, uint64_t position)
{
    return counters_all_reached(&alltoall->all_published[stream], position + 1);
}

static void advance_to(struct hier_alltoall *alltoall, enum hier_stream stream, uint64_t position)
{
    alltoall->sent[stream] = position;
    counter_advance(&alltoall->counters[alltoall->self].sent[stream], position);
}

static const void *feed_chunk(void *arg, int64_t number)
{
    struct hier_alltoall *alltoall = arg;
    uint64_t position = alltoall->begin + (uint64_t)number;
    return all_published(alltoall, STREAM_OUT, position)
               ? slot_of(alltoall, alltoall->self, STREAM_OUT, position)
               : NULL;
}

static void feed_sent(void *arg, int64_t number)
{
    struct hier_alltoall *alltoall = arg;
    uint64_t position = alltoall->sent[STREAM_OUT];
    alltoall->sent_early[(alltoall->begin + (uint64_t)number) % SLOTS] = true;
    while (alltoall->sent_early[position % SLOTS])
        alltoall->sent_early[position++ % SLOTS] = false;
    advance_to(alltoall, STREAM_OUT, position);
}

static void collect_some(struct hier_alltoall *alltoall, bool *movedp)
{
    struct range *run = &alltoall->own[alltoall->own[0].count > 0 ? 0 : 1];
    uint64_t position = alltoall->sent[STREAM_OWN];
    int64_t count = run->count < alltoall->longest ? run->count : alltoall->longest;
    if (count == 0 || !all_published(alltoall, STREAM_OWN, position))
        return;
    memcpy((char *)alltoall->batch.output + bytes_of(alltoall, run->begin),
           slot_of(alltoall, alltoall->self, STREAM_OWN, position), bytes_of(alltoall, count));
    run->begin += count;
    run->count -= count;
    advance_to(alltoall, STREAM_OWN, position + 1);
    *movedp = true;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* How much comes from each node, and how much of that is from the members before the one that sends it. */
static void plan_receiving(struct hier_alltoall *alltoall)
{
    const struct hier_nodes *nodes = alltoall->params.nodes;
    const int64_t *from = alltoall->batch.receive_counts;
    int64_t offset = 0;
    for (int node = 0; node < nodes->count; node++) {
        int64_t count = 0;
        for (int member = 0; member < alltoall->size; member++) {
            if (member == alltoall->self)
                alltoall->receive_begins[node] = count;
            count += from[nodes->firsts[node] + member];
        }
        alltoall->receive_counts[node] = count;
        if (node == nodes->node) {
            int64_t begin = alltoall->receive_begins[node];
            alltoall->own[0] = (struct range){offset + begin, count - begin};
            alltoall->own[1] = (struct range){offset, begin};
        }
        offset += count;
    }
}

static int plan_sending(struct hier_alltoall *alltoall, struct hvd_error *err)
{
    const struct hier_nodes *nodes = alltoall->params.nodes;
    int rc = HVD_OK;
    for (int node = 0; node < nodes->count; node++) {
        alltoall->counts[node] = alltoall->begins[node] = 0;
        for (int member = 0; member < alltoall->size && rc == HVD_OK && node != nodes->node; member++) {
            if (member == alltoall->self)
                alltoall->begins[node] = alltoall->counts[node];
            rc = add_announced(alltoall, member, nodes->firsts[node] + alltoall->self,
                               &alltoall->counts[node], err);
        }
    }
    return rc;
}

const struct backend_batch *hier_alltoall_start(struct hier_alltoall *alltoall,
                                                const struct backend_batch *batch)
{
    size_t node_bytes = (size_t)alltoall->params.nodes->count * sizeof(int64_t);
    int64_t offset = 0;
    alltoall->turn++;
    alltoall->batch = *batch;
    alltoall->element_bytes = (int64_t)dtype_bytes(batch->need.dtype);
    alltoall->longest = alltoall->chunk_bytes / alltoall->element_bytes;
    alltoall->all_have_announced = alltoall->handed_out = false;
    for (int to = 0; to < alltoall->params.team->size; to++) {
        alltoall->offsets[to] = offset;
        offset += batch->counts[to];
    }
    memset(alltoall->counts, 0, node_bytes);
    memset(alltoall->receive_counts, 0, node_bytes);
    alltoall->slice = (struct backend_batch){.need = batch->need,
                                             .sequence = batch->sequence,
                                             .output = batch->output,
                                             .counts = alltoall->counts,
                                             .receive_counts = alltoall->receive_counts,
                                             .feed = &alltoall->feed};
    alltoall->feed.longest = alltoall->longest;
    alltoall->begin = alltoall->sent[STREAM_OUT];
    announce(alltoall);
    return &alltoall->slice;
}

int hier_alltoall_slice(struct hier_alltoall *alltoall, const struct backend_batch **slicep,
                        struct hvd_error *err)
{
    bool something = false;
    *slicep = NULL;
    if (!alltoall->all_have_announced || alltoall->handed_out)
        return HVD_OK;
    plan_receiving(alltoall);
    int rc = plan_sending(alltoall, err);
    for (int node = 0; node < alltoall->params.nodes->count; node++)
        something = something || alltoall->counts[node] > 0 ||
                    (node != alltoall->params.nodes->node && alltoall->receive_counts[node] > 0);
    alltoall->handed_out = true;
    if (rc == HVD_OK && something)
        *slicep = &alltoall->slice;
    return rc;
}

int hier_alltoall_progress(struct hier_alltoall *alltoall, bool *movedp, struct hvd_error *err)
{
    if (!alltoall->all_have_announced && !counters_all_reached(&alltoall->all_announced, alltoall->turn))
        return HVD_OK;
    if (!alltoall->all_have_announced) {
        alltoall->all_have_announced = *movedp = true;
        begin_writing(alltoall);
    }
    collect_some(alltoall, movedp);
    return write_some(alltoall, movedp, err);
}

int hier_alltoall_waits_for_input(const struct hier_alltoall *alltoall)
{
    int member = -1;
    if (!alltoall->all_have_announced)
        member = counters_behind(&alltoall->all_announced, alltoall->self, alltoall->turn);
    for (int stream = 0; stream < STREAMS && member < 0 && alltoall->all_have_announced; stream++) {
        uint64_t sent = alltoall->sent[stream];
        if (sent < writer_to(alltoall, alltoall->self, (enum hier_stream)stream)->at)
            member = counters_behind(&alltoall->all_published[stream], alltoall->self, sent + 1);
    }
    return member < 0 ? -1 : alltoall->first + member;
}

/* A stream that this member cannot publish to waits for its owner. */
int hier_alltoall_waits_for(const struct hier_alltoall *alltoall)
{
    for (int i = 0; i < alltoall->size * STREAMS && alltoall->all_have_announced; i++) {
        struct stream_writer *writer = &alltoall->writers[i];
        if (i / STREAMS != alltoall->self && writer->within < writer->count && !may_write(writer))
            return alltoall->first + i / STREAMS;
    }
    return -1;
}

bool hier_alltoall_is_done(const struct hier_alltoall *alltoall)
{
    return alltoall->handed_out && alltoall->left == 0 && alltoall->own[0].count == 0 &&
           alltoall->own[1].count == 0;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

void hier_alltoall_set_chunk(struct hier_alltoall *alltoall, int64_t bytes)
{
    alltoall->chunk_bytes = bytes;
}

static void watch_counters(struct hier_alltoall *alltoall)
{
    alltoall->all_announced = (struct counters){.first = &alltoall->counters[0].announced,
                                                .stride = sizeof(struct alltoall_counters),
                                                .count = alltoall->size};
    for (enum hier_stream stream = 0; stream < STREAMS; stream++) {
        alltoall->all_published[stream] =
            (struct counters){.first = published_by(alltoall, 0, alltoall->self, stream),
                              .stride = alltoall->published_words * sizeof(uint64_t),
                              .count = alltoall->size};
        for (int owner = 0; owner < alltoall->size; owner++)
            writer_to(alltoall, owner, stream)->sent =
                (struct counters){.first = &alltoall->counters[owner].sent[stream], .count = 1};
    }
}

static int enter(struct hier_alltoall *alltoall, int64_t deadline_us, struct hvd_error *err)
{
    size_t size = (size_t)alltoall->size;
    size_t heads_bytes = size * sizeof(struct alltoall_counters);
    size_t published_bytes = (size_t)round_up(size * STREAMS * sizeof(uint64_t), CACHE_LINE_BYTES) * size;
    size_t table_bytes =
        (size_t)round_up(2 * size * (size_t)alltoall->params.team->size * sizeof(int64_t), CACHE_LINE_BYTES);
    size_t slots_bytes = size * STREAMS * SLOTS * (size_t)alltoall->chunk_bytes;
    const struct arena_request request = {.set = alltoall->params.claim,
                                          .users = alltoall->size,
                                          .bytes = heads_bytes + published_bytes + table_bytes + slots_bytes,
                                          .zeroed = heads_bytes + published_bytes};
    void *region = NULL;
    int rc = arena_acquire(alltoall->params.arena, &request, deadline_us, &region, err);
    if (rc != HVD_OK)
        return rc;
    char *at = region;
    alltoall->counters = region;
    alltoall->published = (void *)(at + heads_bytes);
    alltoall->published_words = published_bytes / size / sizeof(uint64_t);
    alltoall->announced = (void *)(at + heads_bytes + published_bytes);
    alltoall->slots = at + heads_bytes + published_bytes + table_bytes;
    watch_counters(alltoall);
    return HVD_OK;
}

static bool allocate_tables(struct hier_alltoall *alltoall)
{
    size_t nodes = (size_t)alltoall->params.nodes->count;
    alltoall->writers = calloc((size_t)alltoall->size * STREAMS, sizeof(*alltoall->writers));
    alltoall->offsets = calloc((size_t)alltoall->params.team->size, sizeof(*alltoall->offsets));
    alltoall->counts = calloc(nodes, sizeof(*alltoall->counts));
    alltoall->begins = calloc(nodes, sizeof(*alltoall->begins));
    alltoall->receive_counts = calloc(nodes, sizeof(*alltoall->receive_counts));
    alltoall->receive_begins = calloc(nodes, sizeof(*alltoall->receive_begins));
    return alltoall->writers != NULL && alltoall->offsets != NULL && alltoall->counts != NULL &&
           alltoall->begins != NULL && alltoall->receive_counts != NULL && alltoall->receive_begins != NULL;
}

int hier_alltoall_open(struct hier_alltoall **alltoallp, const struct hier_params *params,
                       int64_t deadline_us, struct hvd_error *err)
{
    const struct hier_nodes *nodes = params->nodes;
    struct hier_alltoall *alltoall = calloc(1, sizeof(*alltoall));
    if (alltoall == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*alltoall));
    alltoall->params = *params;
    alltoall->first = nodes->firsts[nodes->node];
    alltoall->size = nodes->slices;
    alltoall->self = params->team->rank - alltoall->first;
    alltoall->chunk_bytes = HIER_ALLTOALL_CHUNK_BYTES;
    int rc = allocate_tables(alltoall)
                 ? HVD_OK
                 : error_set_errno(err, "no memory for the alltoalls of %d ranks", params->team->size);
    if (rc == HVD_OK)
        rc = enter(alltoall, deadline_us, err);
    if (rc != HVD_OK) {
        hier_alltoall_close(alltoall);
        return rc;
    }
    alltoall->feed = (struct backend_feed){.arg = alltoall,
                                           .begins = alltoall->begins,
                                           .receive_begins = alltoall->receive_begins,
                                           .chunk = feed_chunk,
                                           .sent = feed_sent};
    *alltoallp = alltoall;
    return HVD_OK;
}

void hier_alltoall_close(struct hier_alltoall *alltoall)
{
    if (alltoall == NULL)
        return;
    if (alltoall->counters != NULL)
        arena_release(alltoall->params.arena, alltoall->params.claim);
    free(alltoall->writers);
    free(alltoall->offsets);
    free(alltoall->counts);
    free(alltoall->begins);
    free(alltoall->receive_counts);
    free(alltoall->receive_begins);
    free(alltoall);
}
