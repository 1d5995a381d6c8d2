/* test_bruck.c: the schedule of small batches, driven by a random but repeatable world of messages in
 * memory.
 */
#include "unit.h"

#include "batches.h"
#include "backend/sched/bruck.h"

#define CHUNK   64 /* bytes; counts are around multiples of it */
#define RANKS   33
#define STEPS   6 /* of so many ranks */
#define BATCHES 3
#define TURNS   2000000 /* far more than any of these batches takes: past it nothing moves any more */

/* What a member has sent in a step; there is room for one. */
struct message {
    bool there;
    uint64_t sequence;
    size_t length;
    char bytes[BRUCK_BYTES];
};

struct seat {
    struct bruck bruck;
    int batch; /* how many it has finished */
    struct batch_part part;
    int sent;          /* messages in this batch */
    bool holds[STEPS]; /* its message of that step has not been taken */
};

struct world {
    int size;
    bool shares_nodes;
    int sent[BATCHES]; /* messages of all in each batch */
    bool patient;      /* a message is through at its sender when it was taken */
    uint64_t random;
    struct batch_plan plans[BATCHES];
    struct seat seats[RANKS];
    struct message messages[RANKS][STEPS];
};

static void begin_batch(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    batch_part_open(&seat->part, &world->plans[seat->batch], rank);
    ck_assert(bruck_supports(&seat->part.batch));
    seat->sent = 0;
    bruck_start(&seat->bruck, &seat->part.batch);
}

static void end_batch(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    const struct batch_plan *plan = &world->plans[seat->batch];
    ck_assert(batch_part_close(&seat->part, plan, rank));
    ck_assert_int_le(seat->sent, 2 * bruck_step_count(world->size));
    world->sent[seat->batch] += seat->sent;
    seat->batch++;
    if (seat->batch < BATCHES)
        begin_batch(world, rank);
}

static void send_one(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    struct bruck_message piece;
    if (!bruck_next(&seat->bruck, BRUCK_SEND, &piece))
        return;
    struct message *message = &world->messages[rank][piece.step];
    if (message->there)
        return;
    bool taken = seat->holds[piece.step];
    if (!taken) {
        message->there = true;
        message->sequence = seat->bruck.batch.sequence;
        message->length = piece.length;
        memcpy(message->bytes, piece.bytes, piece.length);
        seat->holds[piece.step] = world->patient;
        if (world->patient)
            return;
    }
    seat->holds[piece.step] = false;
    seat->sent++;
    bruck_message_done(&seat->bruck, BRUCK_SEND);
}

static void receive_one(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    struct bruck_message due;
    if (!bruck_next(&seat->bruck, BRUCK_RECEIVE, &due))
        return;
    int from = (rank - (1 << due.step) + world->size) % world->size;
    struct message *message = &world->messages[from][due.step];
    if (!message->there || message->sequence != seat->bruck.batch.sequence)
        return;
    ck_assert_uint_eq(message->length, due.length);
    memcpy(due.bytes, message->bytes, due.length);
    message->there = false;
    bruck_message_done(&seat->bruck, BRUCK_RECEIVE);
}

static bool is_over(const struct world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        if (world->seats[rank].batch < BATCHES)
            return false;
    }
    return true;
}

/* All messages of a batch, as many as there are to be. */
static int messages_of(const struct world *world, enum backend_kind kind)
{
    int size = world->size;
    if (kind == COLL_BROADCAST)
        return size - 1;
    return world->shares_nodes ? 2 * (size - 1) : size * bruck_step_count(size);
}

static void run_world(struct world *world)
{
    memset(world->seats, 0, sizeof(world->seats));
    memset(world->sent, 0, sizeof(world->sent));
    for (int rank = 0; rank < world->size; rank++) {
        struct bruck *bruck = &world->seats[rank].bruck;
        ck_assert_int_eq(bruck_init(bruck, rank, world->size, world->shares_nodes, NULL), HVD_OK);
        begin_batch(world, rank);
    }
    for (int i = 0; i < TURNS && !is_over(world); i++) {
        int rank = batch_plan_random_below(&world->random, world->size);
        if (world->seats[rank].batch == BATCHES)
            continue;
        if (batch_plan_random_below(&world->random, 2) == 0)
            send_one(world, rank);
        else
            receive_one(world, rank);
        if (!bruck_left(&world->seats[rank].bruck))
            end_batch(world, rank);
    }
    ck_assert(is_over(world));
    for (int i = 0; i < BATCHES; i++)
        ck_assert_int_eq(world->sent[i], messages_of(world, world->plans[i].need.kind));
    for (int rank = 0; rank < world->size; rank++)
        bruck_fini(&world->seats[rank].bruck);
}

static const enum backend_kind kinds[] = {COLL_ALLREDUCE, COLL_REDUCESCATTER, COLL_ALLGATHER, COLL_BROADCAST};

/* Batches of several kinds in a row, so that members are in different ones. */
START_TEST(everybody_gets_what_is_due)
{
    struct world *world = calloc(1, sizeof(*world));
    for (int i = 0; i < 20; i++) {
        world->size = _i;
        world->patient = i % 2 == 0;
        world->shares_nodes = i / 2 % 2 == 0;
        world->random = (uint64_t)(_i * 1000 + i + 1);
        for (int k = 0; k < BATCHES; k++) {
            world->plans[k] = batch_plan_random(&world->random, kinds[(i + k) % 4], _i, CHUNK);
            world->plans[k].sequence = (uint64_t)k;
        }
        run_world(world);
    }
    free(world);
}
END_TEST

START_TEST(reaches_all_in_the_fewest_steps)
{
    static const int rows[][2] = {{1, 0},  {2, 1},     {3, 2},     {4, 2},         {5, 3},     {8, 3},
                                  {9, 4},  {16, 4},    {17, 5},    {33, 6},        {1024, 10}, {1025, 11},
                                  {64, 6}, {4096, 12}, {4097, 13}, {INT32_MAX, 31}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_int_eq(bruck_step_count(rows[i][0]), rows[i][1]);
}
END_TEST

/* The largest batch of each kind goes this way, and one of an element more does not. */
START_TEST(is_for_small_batches)
{
    const int64_t bytes = BRUCK_BYTES;
    const struct {
        struct backend_need need;
        int64_t most;
    } rows[] = {
        {{COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 2}, bytes / 8},
        {{COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 3}, bytes / 12},
        {{COLL_ALLREDUCE, HVD_FLOAT16, HVD_FLOAT32, HVD_SUM, 2}, bytes / 4},
        {{COLL_ALLREDUCE, HVD_FLOAT16, HVD_FLOAT16, HVD_SUM, 33}, bytes / 66},
        {{COLL_ALLREDUCE, HVD_INT8, HVD_INT8, HVD_MAX, 1 << 18}, bytes >> 18},
        {{COLL_ALLREDUCE, HVD_FLOAT64, HVD_FLOAT64, HVD_SUM, 1 << 16}, 0},
        {{COLL_REDUCESCATTER, HVD_FLOAT64, HVD_FLOAT64, HVD_SUM, 16}, bytes / 128},
        {{COLL_ALLGATHER, HVD_INT32, HVD_INT32, HVD_SUM, 7}, bytes / 4},
        {{COLL_BROADCAST, HVD_UINT8, HVD_UINT8, HVD_SUM, 7}, bytes},
        {{COLL_ALLTOALL, HVD_UINT8, HVD_UINT8, HVD_SUM, 7}, -1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct backend_batch batch = {.need = rows[i].need, .count = rows[i].most};
        ck_assert_msg(batch.count < 0 || bruck_supports(&batch), "row %zu", i);
        batch.count++;
        ck_assert_msg(!bruck_supports(&batch), "row %zu", i);
        batch.count = INT64_MAX;
        ck_assert_msg(!bruck_supports(&batch), "row %zu", i);
    }
}
END_TEST

/* The largest batch there is, and members that have nothing. */
START_TEST(carries_the_largest_batches)
{
    struct world *world = calloc(1, sizeof(*world));
    world->size = _i / 2;
    world->shares_nodes = _i % 2 == 0;
    world->random = 99;
    for (int k = 0; k < BATCHES; k++) {
        struct batch_plan *plan = &world->plans[k];
        *plan = (struct batch_plan){.need = {kinds[k], HVD_BFLOAT16, HVD_FLOAT32, HVD_SUM, world->size},
                                    .sequence = (uint64_t)k,
                                    .prescale = 1,
                                    .postscale = 0.5};
        plan->count = BRUCK_BYTES / 2 / (k < 2 ? world->size : 1);
        plan->counts[0][world->size - 1] = plan->count;
    }
    run_world(world);
    free(world);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("bruck");
    tcase_set_timeout(tcase, 120);
    unit_add_rounds(tcase, everybody_gets_what_is_due, 2, RANKS + 1);
    tcase_add_test(tcase, reaches_all_in_the_fewest_steps);
    tcase_add_test(tcase, is_for_small_batches);
    unit_add_rounds(tcase, carries_the_largest_batches, 4, 12);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("bruck", fill);
}
