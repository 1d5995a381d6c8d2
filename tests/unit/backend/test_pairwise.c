/* test_pairwise.c: the schedule of alltoalls, driven by a random but repeatable world of messages in memory.
 */
#include "unit.h"

#include "batches.h"
#include "backend/sched/pairwise.h"
#include "base/dtype.h"

#define CHUNK       64 /* bytes */
#define RANKS       12
#define BATCHES     3
#define FED_CHUNKS  400
#define FED_AT_ONCE 3
#define STEPS       4000000 /* far more than any of these batches takes: past it nothing moves any more */

/* The message between two members; a sender has one at a time for each. */
struct message {
    bool there, taken;
    uint64_t sequence;
    struct pairwise_chunk piece;
    char bytes[CHUNK];
};

/* Input that comes piece by piece, in chunks of half the size. */
struct fed {
    struct backend_feed feed;
    int64_t counts[RANKS], begins[RANKS], receive_begins[RANKS];
    const char *chunks[FED_CHUNKS];
    bool sent[FED_CHUNKS];
    int64_t count, shown,
        behind; /* chunks; those that were there; those before the first that was not sent */
};

struct seat {
    struct pairwise pairwise;
    int batch; /* how many it has finished */
    struct batch_part part;
    struct fed fed;
};

struct world {
    int size;
    bool patient; /* a message has left only when it was taken */
    bool fed;     /* input comes piece by piece */
    uint64_t random;
    struct batch_plan plans[BATCHES];
    struct seat seats[RANKS];
    struct message messages[RANKS][RANKS]; /* from, to */
};

/* ---- Input that comes piece by piece --------------------------------------------------------- */

static const void *fed_chunk(void *arg, int64_t number)
{
    const struct fed *fed = arg;
    ck_assert_int_ge(number, fed->behind);
    return number < fed->shown ? fed->chunks[number] : NULL;
}

static void fed_sent(void *arg, int64_t number)
{
    struct fed *fed = arg;
    ck_assert_int_lt(number, fed->shown);
    ck_assert(!fed->sent[number]);
    fed->sent[number] = true;
    while (fed->behind < fed->count && fed->sent[fed->behind])
        fed->behind++;
}

static void show_one(struct fed *fed)
{
    if (fed->shown < fed->count && fed->shown < fed->behind + FED_AT_ONCE)
        fed->shown++;
}

static void cut_run(struct fed *fed, const char *input, int64_t count, int64_t element)
{
    for (int64_t done = 0; done < count; done += fed->feed.longest) {
        ck_assert_int_lt(fed->count, FED_CHUNKS);
        fed->chunks[fed->count++] = input + done * element;
    }
}

/* Where what goes from one to the other begins: anywhere, and at its end too. */
static int64_t begin_between(const struct batch_plan *plan, int from, int to)
{
    return (from * 7 + to * 5) % (plan->counts[from][to] + 1);
}

/* Where its own part begins in the output of [rank]. */
static int64_t offset_at(const struct batch_plan *plan, int rank)
{
    int64_t offset = 0;
    for (int from = 0; from < rank; from++)
        offset += plan->counts[from][rank];
    return offset;
}

static void feed(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    struct fed *fed = &seat->fed;
    const struct batch_plan *plan = &world->plans[seat->batch];
    struct backend_batch *batch = &seat->part.batch;
    int64_t element = (int64_t)dtype_bytes(plan->need.dtype);
    *fed = (struct fed){.feed = {.arg = fed,
                                 .longest = CHUNK / 2 / element,
                                 .begins = fed->begins,
                                 .receive_begins = fed->receive_begins,
                                 .chunk = fed_chunk,
                                 .sent = fed_sent}};
    for (int i = 0; i < world->size; i++) {
        fed->counts[i] = i == rank ? 0 : batch->counts[i];
        fed->begins[i] = begin_between(plan, rank, i);
        fed->receive_begins[i] = begin_between(plan, i, rank);
    }
    for (int i = 1; i < world->size; i++) {
        int to = (rank + i) % world->size;
        const char *input = (const char *)batch->input + batch_plan_offset(plan, rank, to) * element;
        cut_run(fed, input + fed->begins[to] * element, fed->counts[to] - fed->begins[to], element);
        cut_run(fed, input, fed->begins[to], element);
    }
    /* what is its own no pairwise carries then */
    memcpy((char *)batch->output + offset_at(plan, rank) * element,
           (const char *)batch->input + batch_plan_offset(plan, rank, rank) * element,
           (size_t)(plan->counts[rank][rank] * element));
    batch->input = NULL;
    batch->counts = fed->counts;
    batch->feed = &fed->feed;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void begin_batch(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    batch_part_open(&seat->part, &world->plans[seat->batch], rank);
    if (world->fed)
        feed(world, rank);
    pairwise_start(&seat->pairwise, &seat->part.batch);
}

static void end_batches(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    while (seat->batch < BATCHES && !pairwise_left(&seat->pairwise)) {
        ck_assert_int_eq(seat->fed.behind, seat->fed.count);
        ck_assert(batch_part_close(&seat->part, &world->plans[seat->batch], rank));
        seat->batch++;
        if (seat->batch < BATCHES)
            begin_batch(world, rank);
    }
}

static void send_lane(struct world *world, int rank, int lane)
{
    struct seat *seat = &world->seats[rank];
    struct pairwise_chunk piece;
    if (!pairwise_next(&seat->pairwise, PAIRWISE_SEND, lane, &piece))
        return;
    ck_assert_int_ne(piece.member, rank);
    ck_assert_uint_gt(piece.length, 0);
    ck_assert_uint_le(piece.length, CHUNK);
    struct message *message = &world->messages[rank][piece.member];
    bool ours = message->there && message->sequence == seat->pairwise.batch.sequence &&
                message->piece.chunk == piece.chunk;
    if (!message->there) {
        *message = (struct message){true, false, seat->pairwise.batch.sequence, piece, ""};
        memcpy(message->bytes, piece.bytes, piece.length);
        if (!world->patient)
            pairwise_chunk_done(&seat->pairwise, PAIRWISE_SEND, lane);
    } else if (world->patient && ours && message->taken) {
        message->there = false;
        pairwise_chunk_done(&seat->pairwise, PAIRWISE_SEND, lane);
    }
}

static void receive_lane(struct world *world, int rank, int lane)
{
    struct seat *seat = &world->seats[rank];
    struct pairwise_chunk due;
    if (!pairwise_next(&seat->pairwise, PAIRWISE_RECEIVE, lane, &due))
        return;
    struct message *message = &world->messages[due.member][rank];
    if (!message->there || message->taken || message->sequence != seat->pairwise.batch.sequence)
        return;
    ck_assert_int_eq(message->piece.member, rank);
    ck_assert_int_eq(message->piece.chunk, due.chunk);
    ck_assert_uint_eq(message->piece.length, due.length);
    memcpy(due.bytes, message->bytes, due.length);
    message->taken = true;
    message->there = world->patient;
    bool last = pairwise_is_last(&seat->pairwise, PAIRWISE_RECEIVE, lane);
    int64_t chunk = due.chunk;
    pairwise_chunk_done(&seat->pairwise, PAIRWISE_RECEIVE, lane);
    bool goes_on = pairwise_next(&seat->pairwise, PAIRWISE_RECEIVE, lane, &due) && due.chunk == chunk + 1;
    ck_assert(last == !goes_on);
}

/* One random thing at one random member. */
static void step(struct world *world)
{
    int rank = batch_plan_random_below(&world->random, world->size);
    int lane = batch_plan_random_below(&world->random, PAIRWISE_LANES);
    if (world->seats[rank].batch == BATCHES)
        return;
    show_one(&world->seats[batch_plan_random_below(&world->random, world->size)].fed);
    switch (batch_plan_random_below(&world->random, 5)) {
    case 0:
        pairwise_copy_own(&world->seats[rank].pairwise);
        break;
    case 1:
    case 2:
        send_lane(world, rank, lane);
        break;
    default:
        receive_lane(world, rank, lane);
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
    for (int rank = 0; rank < world->size; rank++) {
        pairwise_init(&world->seats[rank].pairwise, rank, world->size, CHUNK);
        begin_batch(world, rank);
    }
    for (int rank = 0; rank < world->size; rank++)
        end_batches(world, rank);
    for (int i = 0; i < STEPS && !is_over(world); i++)
        step(world);
    ck_assert(is_over(world));
}

/* From PAIRWISE_LANES + 2 members on pairs have to wait for lanes; with twice as many all of a member's lanes
 * may be taken by pairs that others have not come to. */
static const int sizes[] = {2, 3, 4, 7, 10, 12, RANKS};

START_TEST(everybody_gets_its_part_of_all)
{
    int size = sizes[_i];
    for (int i = 0; i < 40; i++) {
        struct world *world = calloc(1, sizeof(*world));
        world->size = size;
        world->patient = i % 2 == 0;
        world->fed = i % 8 >= 4;
        world->random = (uint64_t)(size * 1000 + i + 1);
        for (int k = 0; k < BATCHES; k++) {
            world->plans[k] = batch_plan_random(&world->random, COLL_ALLTOALL, size, CHUNK);
            world->plans[k].sequence = (uint64_t)k + 1;
            for (int pair = 0; i % 4 == 2 && pair < size * size; pair++)
                world->plans[k].counts[pair / size][pair % size] += 1;
        }
        run_world(world);
        free(world);
    }
}
END_TEST

START_TEST(nothing_to_say_is_done_at_once)
{
    const int64_t none[3] = {0};
    struct pairwise pairwise;
    struct pairwise_chunk piece;
    struct backend_batch batch = {.need = {.kind = COLL_ALLTOALL, .dtype = HVD_FLOAT32, .ranks = 3},
                                  .counts = none,
                                  .receive_counts = none};
    pairwise_init(&pairwise, 1, 3, CHUNK);
    pairwise_start(&pairwise, &batch);
    ck_assert(!pairwise_left(&pairwise));
    ck_assert(!pairwise_next(&pairwise, PAIRWISE_SEND, 0, &piece));
    ck_assert(!pairwise_copy_own(&pairwise));
}
END_TEST

START_TEST(counts_beyond_32_bits)
{
    const int64_t counts[2] = {INT64_C(3000000000), INT64_C(5000000001)};
    struct pairwise pairwise;
    struct pairwise_chunk piece;
    char byte;
    struct backend_batch batch = {.need = {.kind = COLL_ALLTOALL, .dtype = HVD_FLOAT64, .ranks = 2},
                                  .input = &byte,
                                  .output = &byte,
                                  .counts = counts,
                                  .receive_counts = counts};
    pairwise_init(&pairwise, 0, 2, 256 * 1024);
    pairwise_start(&pairwise, &batch);
    for (int64_t i = 0; i < 152587; i++)
        pairwise_chunk_done(&pairwise, PAIRWISE_SEND, 0);
    ck_assert(pairwise_is_last(&pairwise, PAIRWISE_SEND, 0));
    ck_assert(pairwise_next(&pairwise, PAIRWISE_SEND, 0, &piece));
    ck_assert_int_eq(piece.chunk, 152587);
    ck_assert_int_eq((intptr_t)piece.bytes - (intptr_t)&byte,
                     INT64_C(24000000000) + INT64_C(152587) * 256 * 1024);
    ck_assert_uint_eq(piece.length, 40000000008 - UINT64_C(152587) * 256 * 1024);
    pairwise_chunk_done(&pairwise, PAIRWISE_SEND, 0);
    ck_assert(!pairwise_next(&pairwise, PAIRWISE_SEND, 0, &piece));
}
END_TEST

START_TEST(knows_what_it_can)
{
    struct backend_need need = {.kind = COLL_ALLTOALL, .dtype = HVD_BOOL, .ranks = 2};
    ck_assert(pairwise_supports(&need));
    need.ranks = 1;
    ck_assert(!pairwise_supports(&need));
    need.ranks = 2;
    need.kind = COLL_ALLGATHER;
    ck_assert(!pairwise_supports(&need));
    need.kind = COLL_ALLTOALL;
    need.dtype = (enum hvd_dtype)99;
    ck_assert(!pairwise_supports(&need));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("pairwise");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, everybody_gets_its_part_of_all, 0, sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_test(tcase, nothing_to_say_is_done_at_once);
    tcase_add_test(tcase, counts_beyond_32_bits);
    tcase_add_test(tcase, knows_what_it_can);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("pairwise", fill);
}
