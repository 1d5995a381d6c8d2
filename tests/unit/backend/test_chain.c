/* test_chain.c: the schedule of chunks, driven by a random but repeatable world of messages in memory. */
#include "unit.h"

#include "batches.h"
#include "backend/sched/chain.h"
#include "base/dtype.h"

#define CHUNK   64 /* bytes */
#define WINDOW  3  /* messages of a kind that are on their way at most */
#define SLOTS   2  /* window of the chain: narrower, so that receiving has to wait for room */
#define RANKS   8
#define BATCHES 3
#define SOURCES 2       /* ranks that a member stands for where its inputs are a source's */
#define STEPS   2000000 /* far more than any of these batches takes: past it nothing moves any more */

/* A chunk between two ranks, or still at its sender. */
struct message {
    enum chain_kind kind;
    uint64_t sequence;
    struct chain_chunk piece;
    const void *at; /* at the sender */
    char bytes[CHUNK];
};

/* Messages in order. */
struct fifo {
    struct message *items;
    int64_t first, count, room;
};

struct posted {
    void *at;
    struct chain_chunk piece;
};

/* How messages travel. A stream: one message at a time, one order for both kinds, and what has left is with
 * the other rank. Messages: several at a time, an order for each kind, and the sender hears late that one has
 * left. */
enum manner { STREAM, MESSAGES, MANNERS };

struct seat {
    struct chain chain;
    int batch; /* how many it has finished */
    struct batch_part parts[SOURCES];
    struct backend_span spans[BATCHES_SPANS];
    struct backend_source source;
    int64_t counts[RANKS];
    int64_t there, folded, told;      /* of a source: pieces */
    struct fifo leaving[CHAIN_KINDS]; /* begun and not yet known to have left; the first [arrived] are with
                                         the next */
    int64_t arrived[CHAIN_KINDS];
    struct fifo coming[CHAIN_KINDS]; /* from the previous rank; a stream uses the first only */
    struct posted posted[CHAIN_KINDS][WINDOW];
    int posted_count[CHAIN_KINDS];
};

struct world {
    int size;
    int sources; /* ranks for each member: 1, and they have no source */
    enum manner manner;
    uint64_t random;
    struct batch_plan plans[BATCHES];
    struct seat seats[RANKS];
};

static void fifo_push(struct fifo *fifo, const struct message *message)
{
    if (fifo->first + fifo->count == fifo->room) {
        fifo->room = fifo->room * 2 + 16;
        fifo->items = realloc(fifo->items, (size_t)fifo->room * sizeof(*fifo->items));
    }
    fifo->items[fifo->first + fifo->count++] = *message;
}

static struct message *fifo_at(struct fifo *fifo, int64_t i)
{
    return &fifo->items[fifo->first + i];
}

static void fifo_pop(struct fifo *fifo)
{
    fifo->first++;
    fifo->count--;
}

static bool source_ready(void *arg, int64_t number)
{
    const struct seat *seat = arg;
    return number < seat->there;
}

static bool reduces(const struct seat *seat)
{
    enum backend_kind kind = seat->parts[0].batch.need.kind;
    return kind == COLL_ALLREDUCE || kind == COLL_REDUCESCATTER;
}

/* The [number]-th piece of those that begin here, or are added to here. */
static struct block_segment piece_at(const struct seat *seat, int64_t number)
{
    const struct chain *chain = &seat->chain;
    bool gathers = seat->parts[0].batch.need.kind == COLL_ALLGATHER;
    struct block_cursor walk = block_cursor_begin(&chain->blocks, gathers ? chain->rank : 0, 1);
    struct block_segment span = {0};
    for (int64_t i = 0; i <= number; i++)
        span = block_cursor_next(&chain->blocks, &walk, chain->chunk_count);
    return span;
}

static void add_inputs(const struct seat *seat, const struct block_segment *span, void *out, void *left)
{
    const struct chain *chain = &seat->chain;
    void *sum = left != NULL ? left : out;
    for (int i = 0; i < SOURCES; i++) {
        const char *input = seat->parts[i].batch.input;
        input += span->offset * (int64_t)chain->element_bytes;
        if (i == 0 && left == NULL)
            reduce_begin(&chain->reduction, sum, input, span->count);
        else
            reduce_fold(&chain->reduction, i == SOURCES - 1 ? out : sum, sum, input, span->count);
    }
}

static void copy_inputs(const struct seat *seat, const struct block_segment *span, char *out)
{
    int64_t element = (int64_t)seat->chain.element_bytes;
    for (int i = 0; i < SOURCES; i++) {
        const struct backend_batch *batch = &seat->parts[i].batch;
        int self = seat->chain.rank * SOURCES + i;
        bool gathers = batch->need.kind == COLL_ALLGATHER;
        int64_t begin = 0;
        int64_t count = self == batch->root ? batch->count : 0;
        for (int member = 0; gathers && member < self; member++)
            begin += batch->counts[member];
        if (gathers)
            count = batch->counts[self];
        for (int64_t at = span->offset; at < span->offset + span->count; at++)
            if (at >= begin && at < begin + count)
                memmove(out + (at - span->offset) * element,
                        (const char *)batch->input + (at - begin) * element, (size_t)element);
    }
}

static void source_fold(void *arg, void *out, void *left)
{
    struct seat *seat = arg;
    struct block_segment span = piece_at(seat, seat->folded++);
    ck_assert_int_le(seat->folded, seat->there);
    ck_assert(reduces(seat) || left == NULL);
    if (reduces(seat))
        add_inputs(seat, &span, out, left);
    else
        copy_inputs(seat, &span, out);
}

static void *source_place(void *arg, const struct block_segment *span)
{
    const struct seat *seat = arg;
    return (char *)seat->parts[0].batch.output + span->offset * (int64_t)seat->chain.element_bytes;
}

static void source_arrived(void *arg)
{
    struct seat *seat = arg;
    seat->told++;
}

/* The batch of members that stand for several ranks each. */
static struct backend_batch sourced(struct seat *seat, int size)
{
    struct backend_batch batch = seat->parts[0].batch;
    size_t bytes = dtype_bytes(batch.need.dtype);
    if (reduces(seat) && dtype_bytes(batch.need.partial) > bytes)
        bytes = dtype_bytes(batch.need.partial);
    seat->there = seat->folded = seat->told = 0;
    memset(seat->counts, 0, sizeof(seat->counts));
    for (int i = 0; i < size * SOURCES; i++)
        seat->counts[i / SOURCES] += batch.counts[i];
    seat->source = (struct backend_source){seat,        CHUNK / (int64_t)bytes, source_ready,
                                           source_fold, source_place,           source_arrived};
    batch.input = batch.output = NULL;
    batch.root /= SOURCES;
    batch.counts = seat->counts;
    batch.source = &seat->source;
    return batch;
}

static void begin_batch(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    const struct batch_plan *plan = &world->plans[seat->batch];
    for (int i = 0; i < world->sources; i++)
        batch_part_open(&seat->parts[i], plan, rank * world->sources + i);
    ck_assert(chain_supports(&seat->parts[0].batch.need));
    if (world->sources == 1 && (rank + seat->batch) % 2 == 0)
        batch_part_split_into_spans(&seat->parts[0], seat->spans);
    struct backend_batch batch = world->sources > 1 ? sourced(seat, world->size) : seat->parts[0].batch;
    ck_assert_int_eq(chain_start(&seat->chain, &batch, NULL), HVD_OK);
}

/* A source is told of each result that came for it. */
static void expect_told(const struct seat *seat)
{
    const struct chain *chain = &seat->chain;
    int rank = chain->rank;
    int64_t all = blocks_chunks(&chain->blocks, 0, chain->blocks.count, chain->chunk_count);
    switch (chain->batch.need.kind) {
    case COLL_BROADCAST:
        ck_assert_int_eq(seat->told, rank == chain->batch.root ? 0 : all);
        break;
    case COLL_ALLGATHER:
        all -= blocks_chunks(&chain->blocks, rank, rank + 1, chain->chunk_count);
        ck_assert_int_eq(seat->told, all);
        break;
    case COLL_REDUCESCATTER:
        ck_assert_int_eq(seat->told, blocks_chunks(&chain->blocks, rank, rank + 1, chain->chunk_count));
        break;
    default:
        ck_assert_int_eq(seat->told, all);
    }
}

/* Each of the ranks has what came for all of them. */
static void end_batch(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    const struct batch_plan *plan = &world->plans[seat->batch];
    if (world->sources > 1)
        expect_told(seat);
    for (int i = world->sources - 1; i >= 0; i--) {
        if (i > 0)
            memcpy(seat->parts[i].output, seat->parts[0].output, seat->parts[0].output_bytes);
        ck_assert(batch_part_close(&seat->parts[i], plan, rank * world->sources + i));
    }
}

static bool is_done(const struct seat *seat)
{
    return !chain_sends_left(&seat->chain) && !chain_receives_left(&seat->chain);
}

/* A member may have nothing to do at all. */
static void end_batches(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    while (seat->batch < BATCHES && is_done(seat)) {
        end_batch(world, rank);
        seat->batch++;
        if (seat->batch < BATCHES)
            begin_batch(world, rank);
    }
}

static int window_of(const struct world *world)
{
    return world->manner == STREAM ? 1 : WINDOW;
}

static int64_t leaving_count(const struct world *world, const struct seat *seat, enum chain_kind kind)
{
    if (world->manner == STREAM)
        return seat->leaving[CHAIN_PARTIAL].count + seat->leaving[CHAIN_RESULT].count;
    return seat->leaving[kind].count;
}

static void begin_send(struct world *world, struct seat *seat, enum chain_kind kind)
{
    if (leaving_count(world, seat, kind) >= window_of(world) || !chain_can_send(&seat->chain, kind))
        return;
    struct message message = {.kind = kind, .sequence = seat->chain.batch.sequence};
    message.at = chain_send(&seat->chain, kind, &message.piece);
    ck_assert_uint_gt(message.piece.length, 0);
    ck_assert_uint_le(message.piece.length, CHUNK);
    memcpy(message.bytes, message.at, message.piece.length);
    fifo_push(&seat->leaving[kind], &message);
}

/* The bytes go over to the next rank; they must be those of the beginning. */
static void arrive(struct world *world, int rank, enum chain_kind kind)
{
    struct seat *seat = &world->seats[rank];
    struct seat *next = &world->seats[(rank + 1) % world->size];
    if (seat->arrived[kind] == seat->leaving[kind].count)
        return;
    struct message *message = fifo_at(&seat->leaving[kind], seat->arrived[kind]++);
    ck_assert_mem_eq(message->at, message->bytes, message->piece.length);
    fifo_push(&next->coming[world->manner == STREAM ? 0 : kind], message);
}

static void note_sent(struct seat *seat, enum chain_kind kind)
{
    if (seat->arrived[kind] == 0)
        return;
    struct message *message = fifo_at(&seat->leaving[kind], 0);
    ck_assert_mem_eq(message->at, message->bytes, message->piece.length);
    fifo_pop(&seat->leaving[kind]);
    seat->arrived[kind]--;
    chain_sent(&seat->chain, kind);
}

static void post_receive(struct world *world, struct seat *seat, enum chain_kind kind)
{
    int count = seat->posted_count[kind];
    if (count >= window_of(world) || !chain_can_receive(&seat->chain, kind))
        return;
    seat->posted[kind][count].at = chain_receive(&seat->chain, kind, &seat->posted[kind][count].piece);
    /* The bytes may come at any time from now on: nobody else may have the place. */
    for (int i = 0; i < count; i++)
        ck_assert_ptr_ne(seat->posted[kind][i].at, seat->posted[kind][count].at);
    seat->posted_count[kind]++;
}

static void complete_receive(struct world *world, struct seat *seat, enum chain_kind kind)
{
    struct fifo *coming = &seat->coming[world->manner == STREAM ? 0 : kind];
    if (coming->count == 0 || fifo_at(coming, 0)->sequence != seat->chain.batch.sequence)
        return;
    struct message *message = fifo_at(coming, 0);
    /* A stream cannot be told to wait: whatever comes first must be welcome, or become so. */
    if (world->manner == STREAM && message->kind == kind && seat->posted_count[kind] == 0)
        ck_assert(chain_can_receive(&seat->chain, kind) ||
                  (kind == CHAIN_PARTIAL && chain_must_wait(&seat->chain)));
    if (message->kind != kind || seat->posted_count[kind] == 0)
        return;
    struct posted posted = seat->posted[kind][0];
    ck_assert_int_eq(message->piece.chunk, posted.piece.chunk);
    ck_assert_uint_eq(message->piece.length, posted.piece.length);
    memcpy(posted.at, message->bytes, posted.piece.length);
    fifo_pop(coming);
    seat->posted_count[kind]--;
    memmove(seat->posted[kind], seat->posted[kind] + 1, (WINDOW - 1) * sizeof(struct posted));
    chain_received(&seat->chain, kind);
}

/* One random thing at one random rank. */
static void step(struct world *world)
{
    uint64_t dice = reference_random(&world->random) >> 16;
    int rank = (int)(dice % (uint64_t)world->size);
    struct seat *seat = &world->seats[rank];
    enum chain_kind kind = (enum chain_kind)(dice >> 8 & 1);
    if (seat->batch == BATCHES)
        return;
    seat->there += (int64_t)(dice >> 20 & 1);
    switch (dice >> 16 & 3) {
    case 0:
        begin_send(world, seat, kind);
        if (world->manner == STREAM) {
            arrive(world, rank, kind);
            note_sent(seat, kind);
        }
        break;
    case 1:
        arrive(world, rank, kind);
        break;
    case 2:
        note_sent(seat, kind);
        break;
    default:
        post_receive(world, seat, kind);
        complete_receive(world, seat, kind);
        break;
    }
    end_batches(world, rank);
}

static bool is_over(const struct world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        if (world->seats[rank].batch < BATCHES)
            return false;
    }
    return true;
}

static void run_world(struct world *world)
{
    struct hvd_error err;
    int window = world->manner == STREAM ? 1 : SLOTS;
    for (int rank = 0; rank < world->size; rank++) {
        int status = chain_init(&world->seats[rank].chain, rank, world->size, CHUNK, window, &err);
        ck_assert_int_eq(status, HVD_OK);
        begin_batch(world, rank);
    }
    for (int rank = 0; rank < world->size; rank++)
        end_batches(world, rank);
    for (int i = 0; i < STEPS && !is_over(world); i++)
        step(world);
    ck_assert(is_over(world));
    for (int rank = 0; rank < world->size; rank++) {
        struct seat *seat = &world->seats[rank];
        for (int kind = 0; kind < CHAIN_KINDS; kind++) {
            ck_assert_int_eq(seat->coming[kind].count, 0);
            free(seat->coming[kind].items);
            free(seat->leaving[kind].items);
        }
        chain_fini(&seat->chain);
    }
}

/* Batches of [kind], with one of another between them. */
static void run_all(int size, enum backend_kind kind, int runs)
{
    for (int i = 0; i < runs; i++) {
        struct world *world = calloc(1, sizeof(*world));
        world->size = size;
        world->sources = i / MANNERS % 2 == 0 ? 1 : SOURCES;
        world->manner = (enum manner)(i % MANNERS);
        world->random = (uint64_t)(size * 1000 + i) * 8 + kind;
        for (int k = 0; k < BATCHES; k++) {
            enum backend_kind other = (kind + i) % 2 == 0 ? COLL_BROADCAST : COLL_REDUCESCATTER;
            world->plans[k] =
                batch_plan_random(&world->random, k == 1 ? other : kind, size * world->sources, CHUNK);
        }
        run_world(world);
        free(world);
    }
}

START_TEST(allreduce_is_the_same_from_left_to_right)
{
    run_all(_i, COLL_ALLREDUCE, 200);
}
END_TEST

START_TEST(broadcast_is_the_roots_input)
{
    run_all(_i, COLL_BROADCAST, 50);
}
END_TEST

START_TEST(allgather_puts_blocks_together)
{
    run_all(_i, COLL_ALLGATHER, 100);
}
END_TEST

START_TEST(reducescatter_leaves_each_its_share)
{
    run_all(_i, COLL_REDUCESCATTER, 200);
}
END_TEST

/* How many elements cross each edge of the ring: nobody is sent what it does not need. */
START_TEST(results_go_no_further_than_needed)
{
    static const int64_t counts[] = {10, 0, 30, 40};
    static const int64_t scattered[] = {10 + 0 + 30, 0 + 30, 30, 0}; /* into 0, 1, 2, 3 */
    static const int64_t gathered[] = {80 - 10, 80 - 0, 80 - 30, 80 - 40};
    char memory[80] = "";
    for (int rank = 0; rank < 4; rank++) {
        struct chain chain;
        struct backend_batch batch = {.need = {.kind = COLL_REDUCESCATTER, .dtype = HVD_UINT8, .ranks = 4},
                                      .input = memory,
                                      .output = memory,
                                      .prescale = 1,
                                      .postscale = 1,
                                      .count = 80,
                                      .counts = counts};
        batch.need.partial = HVD_UINT8;
        ck_assert_int_eq(chain_init(&chain, rank, 4, 64, 1, NULL), HVD_OK);
        chain.chunk_bytes = 1;
        ck_assert_int_eq(chain_start(&chain, &batch, NULL), HVD_OK);
        ck_assert_int_eq(chain.in[CHAIN_RESULT].total, scattered[rank]);
        ck_assert_int_eq(chain.out[CHAIN_RESULT].total, scattered[(rank + 1) % 4]);
        batch.need.kind = COLL_ALLGATHER;
        ck_assert_int_eq(chain_start(&chain, &batch, NULL), HVD_OK);
        ck_assert_int_eq(chain.in[CHAIN_RESULT].total, gathered[rank]);
        ck_assert_int_eq(chain.out[CHAIN_RESULT].total, gathered[(rank + 1) % 4]);
        chain_fini(&chain);
    }
}
END_TEST

START_TEST(knows_what_it_can)
{
    struct backend_need need = {COLL_ALLREDUCE, HVD_FLOAT16, HVD_FLOAT32, HVD_SUM, 2};
    ck_assert(chain_supports(&need));
    need.ranks = 1;
    ck_assert(!chain_supports(&need));
    need.ranks = 2;
    need.partial = HVD_FLOAT64;
    ck_assert(!chain_supports(&need));
    need = (struct backend_need){COLL_REDUCESCATTER, HVD_BOOL, HVD_BOOL, HVD_AVERAGE, 2};
    ck_assert(!chain_supports(&need));
    need.kind = COLL_ALLGATHER;
    ck_assert(chain_supports(&need));
    need.kind = COLL_ALLTOALL;
    ck_assert(!chain_supports(&need));
    need = (struct backend_need){COLL_BROADCAST, (enum hvd_dtype)99, HVD_BOOL, HVD_SUM, 2};
    ck_assert(!chain_supports(&need));
}
END_TEST

START_TEST(counts_beyond_32_bits)
{
    struct chain chain;
    struct chain_chunk piece;
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT64, HVD_FLOAT64, HVD_SUM, 2},
                                  .sequence = 1,
                                  .prescale = 1,
                                  .postscale = 1};
    char byte;
    batch.count = INT64_C(5000000001);
    batch.input = batch.output = &byte;
    ck_assert_int_eq(chain_init(&chain, 0, 2, 256 * 1024, 1, NULL), HVD_OK);
    ck_assert_int_eq(chain_start(&chain, &batch, NULL), HVD_OK);
    ck_assert_int_eq(chain.out[CHAIN_PARTIAL].total, 152588);
    chain.out[CHAIN_PARTIAL].begun = 152587;
    chain.out[CHAIN_PARTIAL].done = 152587;
    chain.out[CHAIN_PARTIAL].next.within = INT64_C(152587) * 32 * 1024;
    const char *at = chain_send(&chain, CHAIN_PARTIAL, &piece);
    ck_assert_int_eq((intptr_t)at - (intptr_t)&byte, INT64_C(152587) * 256 * 1024);
    ck_assert_uint_eq(piece.length, 40000000008 - UINT64_C(152587) * 256 * 1024);
    chain_fini(&chain);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("chain");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, allreduce_is_the_same_from_left_to_right, 2, RANKS + 1);
    tcase_add_loop_test(tcase, broadcast_is_the_roots_input, 2, RANKS + 1);
    tcase_add_loop_test(tcase, allgather_puts_blocks_together, 2, RANKS + 1);
    tcase_add_loop_test(tcase, reducescatter_leaves_each_its_share, 2, RANKS + 1);
    tcase_add_test(tcase, results_go_no_further_than_needed);
    tcase_add_test(tcase, knows_what_it_can);
    tcase_add_test(tcase, counts_beyond_32_bits);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("chain", fill);
}
