/* test_shm_direct.c: allreduces of ranks that share a node's memory and have their tensors in windows: all
 * members in one process, turn by turn in random but repeatable order, or each in a thread. */
#include "config.h"
#include "unit.h"

#include "backend/shm/shm_team.h"
#include "shm_world.h"

#define WINDOW_BYTES ((int64_t)2 << 20)
#define CHUNK_BYTES  ((int64_t)16 * 1024) /* of those that are reduced where they lie: the least */
#define BATCHES      60

static const int sizes[] = {2, 3, 4, 5, 6, 7, 33};

#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static struct shm_team *team_of(const struct shm_world *world, int rank)
{
    return world->seats[rank].team;
}

/* Each member has a window, and allreduces from [least_bytes] on are reduced there. */
static struct shm_world *direct_open(int size, int64_t least_bytes, bool (*in_window)(int batch, int rank))
{
    struct shm_world *world = shm_world_open(size, 4096);
    size_t bytes = (size_t)size * (size_t)WINDOW_BYTES;
    char *base = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(mprotect(base + PAGE, bytes, PROT_READ | PROT_WRITE), 0);
    world->in_window = in_window;
    for (int rank = 0; rank < size; rank++) {
        struct shm_member *seat = &world->seats[rank];
        seat->windows = (struct windows){base + PAGE, WINDOW_BYTES, size, rank,
                                         calloc((size_t)size, sizeof(*seat->windows.opened))};
        ck_assert_int_eq(windows_open(&seat->windows, rank, WINDOW_BYTES, NULL), HVD_OK);
        team_of(world, rank)->direct.windows = &seat->windows;
        team_of(world, rank)->direct.least_bytes = least_bytes;
    }
    return world;
}

static void direct_close(struct shm_world *world)
{
    const struct windows windows = world->seats[0].windows;
    for (int rank = 0; rank < windows.count; rank++)
        free((void *)world->seats[rank].windows.opened);
    shm_world_close(world);
    munmap(windows.base - PAGE, (size_t)windows.count * (size_t)windows.bytes + 2 * PAGE);
}

static struct batch_plan allreduce_random(uint64_t *random, int size)
{
    static const int64_t edges[] = {CHUNK_BYTES, CHUNK_BYTES / 4, 2048};
    return batch_plan_random(random, COLL_ALLREDUCE, size, edges[batch_plan_random_below(random, 3)]);
}

/* How many chunks all members together have done where they lie. */
static uint64_t done_there(const struct shm_world *world)
{
    return atomic_load(&team_of(world, 0)->slots.common->claimed);
}

static bool always(int batch, int rank)
{
    (void)batch;
    (void)rank;
    return true;
}

/* All in a window, or all but one of them: which one changes. */
static bool now_and_then(int batch, int rank)
{
    return batch % 4 != 0 || rank != batch / 4 % 2;
}

/* ---- What is carried -------------------------------------------------------------------------- */

/* [_i] is the size. */
START_TEST(all_types_are_right_at_all_sizes)
{
    int size = sizes[_i];
    int count = size > 7 ? BATCHES / 6 : BATCHES;
    struct batch_plan *plans = calloc((size_t)count, sizeof(*plans));
    struct shm_world *world = direct_open(size, 0, always);
    world->random = (uint64_t)_i + 3;
    for (int i = 0; i < count; i++)
        plans[i] = allreduce_random(&world->random, size);
    shm_world_carry(world, plans, count);
    ck_assert_uint_ge(done_there(world), (uint64_t)count);
    direct_close(world);
    free(plans);
}
END_TEST

/* With other kinds in between, and batches that some have elsewhere: those are copied. [_i] is the size. */
START_TEST(ways_follow_each_other)
{
    int size = sizes[_i];
    int count = size > 7 ? BATCHES / 2 : 3 * BATCHES;
    struct batch_plan *plans = calloc((size_t)count, sizeof(*plans));
    struct shm_world *world = direct_open(size, 1000, now_and_then);
    world->random = (uint64_t)_i + 29;
    for (int i = 0; i < count; i++) {
        enum backend_kind kind =
            (enum backend_kind)batch_plan_random_below(&world->random, COLL_REDUCESCATTER + 1);
        plans[i] = kind == COLL_ALLREDUCE || i % 2 == 0
                       ? allreduce_random(&world->random, size)
                       : batch_plan_random(&world->random, kind, size, edge_bytes(kind, size, 4096));
    }
    shm_world_carry(world, plans, count);
    ck_assert_uint_gt(done_there(world), 0);
    direct_close(world);
    free(plans);
}
END_TEST

/* [_i]: they sleep while they wait. */
START_TEST(threads_agree)
{
    struct batch_plan *plans = calloc(BATCHES, sizeof(*plans));
    struct shm_world *world = direct_open(4, 0, now_and_then);
    for (int i = 0; i < BATCHES; i++)
        plans[i] = allreduce_random(&world->random, 4);
    shm_world_carry_in_threads(world, plans, BATCHES, _i == 1);
    ck_assert_uint_gt(done_there(world), 0);
    direct_close(world);
    free(plans);
}
END_TEST

static struct batch_plan sum_of_floats(int size, int64_t count)
{
    return (struct batch_plan){.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, size},
                               .prescale = 1,
                               .postscale = 1,
                               .in_place = true,
                               .count = count};
}

/* Once all have told, the others may stand still: whoever is free does all of it. */
START_TEST(who_is_free_does_all_of_it)
{
    struct batch_plan plan = sum_of_floats(3, 20 * CHUNK_BYTES / 4 + 7);
    struct shm_world *world = direct_open(3, 0, always);
    world->plans = &plan;
    world->plan_count = 1;
    for (int i = 0; i < 2 * 3; i++)
        shm_world_step(world, i % 3);
    run_until_idle(world, 1);
    for (int rank = 0; rank < 3; rank++)
        ck_assert(batch_part_is_right(&world->seats[rank].part, &plan, rank));
    ck_assert(world->seats[1].runs); /* until all say that they do nothing any more */
    for (int i = 0; i < 2 * 3; i++)
        run_until_idle(world, i % 3);
    ck_assert(!world->seats[1].runs);
    direct_close(world);
}
END_TEST

/* ---- What goes another way -------------------------------------------------------------------- */

static bool only_first(int batch, int rank)
{
    (void)batch;
    return rank == 0;
}

/* Who has no window for its elements begins to copy at once, and the other one when it has heard so. */
START_TEST(who_cannot_does_not_wait)
{
    struct batch_plan plan = sum_of_floats(2, 10000);
    struct shm_world *world = direct_open(2, 0, only_first);
    world->plans = &plan;
    world->plan_count = 1;
    run_until_idle(world, 0);
    ck_assert_uint_eq(team_of(world, 0)->slots.reached[SLOTS_PUBLISHED], 1);
    ck_assert_uint_eq(team_of(world, 0)->slots.reached[SLOTS_REDUCED], 0);
    run_until_idle(world, 1);
    ck_assert_uint_gt(team_of(world, 1)->slots.reached[SLOTS_PUBLISHED], 1);
    for (int i = 0; i < TURNS && (world->seats[0].runs || world->seats[1].runs); i++)
        run_until_idle(world, i % 2);
    ck_assert(!world->seats[0].runs && !world->seats[1].runs);
    ck_assert_uint_eq(done_there(world), 0);
    direct_close(world);
}
END_TEST

/* Chunks of slots that [plan] took more than its copies do. */
static int asked(struct shm_world *world, const struct batch_plan *plan)
{
    uint64_t before = team_of(world, 0)->slots.reached[SLOTS_PUBLISHED];
    shm_world_carry(world, plan, 1);
    uint64_t chunks = (uint64_t)(plan->count * 4 + 4095) / 4096;
    return (int)(team_of(world, 0)->slots.reached[SLOTS_PUBLISHED] - before - chunks);
}

START_TEST(small_ones_are_not_asked_for)
{
    struct batch_plan plan = sum_of_floats(2, 1000);
    struct shm_world *world = direct_open(2, 4004, always);
    ck_assert_int_eq(asked(world, &plan), 0);
    world->in_window = only_first;
    plan.count = 1001;
    ck_assert_int_eq(asked(world, &plan), 1);
    ck_assert_uint_eq(done_there(world), 0);
    world->in_window = always;
    shm_world_carry(world, &plan, 1);
    ck_assert_uint_gt(done_there(world), 0);
    direct_close(world);
}
END_TEST

/* Every other element lies by itself, so that there is no room to tell of them. */
START_TEST(too_many_places_are_copied)
{
    enum { SPANS = SHM_CHUNK_BYTES / sizeof(struct direct_range) + 1 };
    struct backend_span *spans[2];
    struct shm_world *world = direct_open(2, 0, always);
    struct hvd_error err = {""};
    bool moved = false;
    int lost = -1;
    for (int rank = 0; rank < 2; rank++) {
        struct shm_member *seat = &world->seats[rank];
        int8_t *window = (int8_t *)windows_pointer(&seat->windows, rank, 0, (int64_t)2 * SPANS);
        spans[rank] = calloc(SPANS, sizeof(*spans[rank]));
        for (int i = 0; i < SPANS; i++) {
            spans[rank][i] = (struct backend_span){&window[2 * i], &window[2 * i], i, 1};
            window[2 * i] = (int8_t)(i + rank);
        }
        struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_INT8, HVD_INT8, HVD_SUM, 2},
                                      .prescale = 1,
                                      .postscale = 1,
                                      .count = SPANS,
                                      .spans = spans[rank],
                                      .span_count = SPANS};
        ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &batch, &err), HVD_OK);
        seat->runs = true;
    }
    for (int i = 0; i < TURNS && (world->seats[0].runs || world->seats[1].runs); i++) {
        struct shm_member *seat = &world->seats[i % 2];
        seat->runs = seat->runs && backend_shm.test(seat->state, seat->team, &moved, &lost, &err) != HVD_OK;
    }
    for (int i = 0; i < SPANS; i++)
        ck_assert_int_eq(*(const int8_t *)spans[1][i].output, (int8_t)(2 * i + 1));
    ck_assert_uint_eq(done_there(world), 0);
    free(spans[0]);
    free(spans[1]);
    direct_close(world);
}
END_TEST

/* ---- What goes wrong -------------------------------------------------------------------------- */

/* Member 0 of two begins, and member 1 tells of [count] floats as well, but does nothing else. Returns its
 * words: how many runs, how much of its window is open, which that is, then begin, count, input and output of
 * the first. */
static uint64_t *begin_beside_a_stranger(struct shm_world *world, const struct batch_plan *plan)
{
    struct slots *slots = &team_of(world, 0)->slots;
    uint64_t *told = (uint64_t *)(void *)slots_input(slots, 1, 0);
    const uint64_t words[] = {1, WINDOW_BYTES, 1, 0, (uint64_t)plan->count, 0, 0};
    world->plans = plan;
    world->plan_count = 1;
    shm_world_step(world, 0);
    memcpy(told, words, sizeof(words));
    atomic_store(&slots->members[1].counts[SLOTS_PUBLISHED].position, 1);
    return told;
}

/* [_i] is the word that is overwritten, and with what. */
START_TEST(places_outside_the_window_are_an_error)
{
    static const struct {
        int word;
        uint64_t value;
    } wrong[] = {{0, UINT64_MAX},
                 {0, SHM_CHUNK_BYTES},
                 {1, WINDOW_BYTES + 1},
                 {1, 0},
                 {2, 2},
                 {2, UINT32_MAX},
                 {3, 1},
                 {3, UINT64_MAX},
                 {4, 0},
                 {4, INT64_MAX},
                 {5, UINT64_MAX},
                 {5, WINDOW_BYTES},
                 {6, UINT64_MAX},
                 {6, WINDOW_BYTES - 4},
                 {1, 4096}};
    struct batch_plan plan = sum_of_floats(2, 10000);
    struct shm_world *world = direct_open(2, 0, always);
    struct hvd_error err = {""};
    struct shm_member *seat = &world->seats[0];
    bool moved = true;
    int lost = -1;
    int rc = HVD_IN_PROGRESS;
    begin_beside_a_stranger(world, &plan)[wrong[_i].word] = wrong[_i].value;
    for (int i = 0; i < 100 && rc == HVD_IN_PROGRESS; i++)
        rc = backend_shm.test(seat->state, seat->team, &moved, &lost, &err);
    ck_assert_int_eq(rc, HVD_ERR_SYSTEM);
    ck_assert_str_eq(err.text,
                     "backend shm: rank 1 published memory outside its window in process set 0: this "
                     "node's shared memory was overwritten");
    direct_close(world);
}
END_TEST

/* In the middle of it: from then on its memory is the caller's. */
START_TEST(a_batch_can_be_given_up)
{
    struct batch_plan plan = sum_of_floats(2, 20 * CHUNK_BYTES / 4);
    struct shm_world *world = direct_open(2, 0, always);
    struct shm_member *seat = &world->seats[0];
    begin_beside_a_stranger(world, &plan);
    run_until_idle(world, 0);
    ck_assert(seat->runs);
    ck_assert_uint_gt(done_there(world), 0);
    backend_shm.remove_team(seat->state, seat->team);
    seat->team = NULL;
    batch_part_abandon(&seat->part);
    ck_assert(batch_part_close_untouched(&seat->part));
    direct_close(world);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("shm_direct");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, all_types_are_right_at_all_sizes, 0, SIZES);
    tcase_add_loop_test(tcase, ways_follow_each_other, 0, SIZES);
    tcase_add_test(tcase, who_is_free_does_all_of_it);
    tcase_add_test(tcase, who_cannot_does_not_wait);
    tcase_add_test(tcase, small_ones_are_not_asked_for);
    tcase_add_test(tcase, too_many_places_are_copied);
    tcase_add_loop_test(tcase, places_outside_the_window_are_an_error, 0, 15);
    tcase_add_test(tcase, a_batch_can_be_given_up);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create(UNIT_THREADS);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, threads_agree, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("shm_direct", fill);
}
