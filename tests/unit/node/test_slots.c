/* test_slots.c: members of a team in the memory of a node, each in a thread: they look again and again, or
 * sleep until whoever does the last of what they wait for wakes them. */
#include "config.h"
#include "unit.h"

#include "shm_world.h"

#define BATCHES 60

/* ---- Members in threads ------------------------------------------------------------------------ */

/* [_i] is how many there are; from SIZE_SLEEPS on they sleep where they find nothing to do. */
#define SIZE_SLEEPS 10

START_TEST(members_in_threads_are_right)
{
    struct batch_plan *plans = calloc(BATCHES, sizeof(*plans));
    int size = _i % SIZE_SLEEPS;
    struct shm_world *world = shm_world_open(size, 1024);
    world->random = (uint64_t)size;
    for (int i = 0; i < BATCHES; i++) {
        enum backend_kind kind =
            (enum backend_kind)batch_plan_random_below(&world->random, COLL_REDUCESCATTER + 1);
        plans[i] = batch_plan_random(&world->random, kind, size, edge_bytes(kind, size, 1024));
    }
    shm_world_carry_in_threads(world, plans, BATCHES, _i > SIZE_SLEEPS);
    shm_world_close(world);
    free(plans);
}
END_TEST

/* ---- Claiming ----------------------------------------------------------------------------------- */

#define PARTS 20000

struct claimer {
    struct slots *slots;
    uint8_t *taken; /* of each part; only who claimed it writes there */
    pthread_t thread;
};

static void *claim_all(void *arg)
{
    const struct claimer *self = arg;
    uint64_t part;
    while (slots_claim(self->slots, 0, PARTS, &part))
        self->taken[part]++;
    return NULL;
}

START_TEST(each_part_is_claimed_once)
{
    struct shm_world *world = shm_world_open(3, 512);
    struct claimer claimers[3];
    uint8_t *taken = calloc(PARTS, 1);
    uint64_t part;
    for (int i = 0; i < 3; i++) {
        struct shm_team *team = world->seats[i].team;
        claimers[i] = (struct claimer){.slots = &team->slots, .taken = taken};
        ck_assert_int_eq(pthread_create(&claimers[i].thread, NULL, claim_all, &claimers[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(claimers[i].thread, NULL);
    for (int i = 0; i < PARTS; i++)
        ck_assert_int_eq(taken[i], 1);
    ck_assert(!slots_claim(claimers[0].slots, PARTS, PARTS, &part));
    ck_assert(slots_claim(claimers[0].slots, PARTS, PARTS + 1, &part));
    ck_assert_uint_eq(part, PARTS);
    ck_assert(slots_claim(claimers[0].slots, PARTS + 7, PARTS + 8, &part));
    ck_assert_uint_eq(part, PARTS + 7);
    free(taken);
    shm_world_close(world);
}
END_TEST

/* ---- Sleeping ------------------------------------------------------------------------------------ */

/* Whoever waits sleeps on when others come further, until all have come to what it waits for. */
START_TEST(only_the_last_one_wakes)
{
    struct shm_world *world = shm_world_open(3, 512);
    const struct batch_plan plan = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 3},
                                    .prescale = 1,
                                    .postscale = 1,
                                    .count = 128 * 2};
    world->plans = &plan;
    world->plan_count = 1;
    run_until_idle(world, 0);
    backend_shm.arm(world->seats[0].state, true);
    ck_assert(!shm_world_step(world, 0));
    run_until_idle(world, 1);
    ck_assert(!is_woken(&world->seats[0], 0));
    run_until_idle(world, 2);
    ck_assert(is_woken(&world->seats[0], SLEEP_MS));
    run_until_idle(world, 1);
    ck_assert(!is_woken(&world->seats[0], 0));
    backend_shm.arm(world->seats[0].state, false);
    for (int i = 0; i < TURNS && (world->seats[0].runs || world->seats[1].runs || world->seats[2].runs); i++)
        shm_world_step(world, i % 3);
    shm_world_close(world);
}
END_TEST

/* Nobody knocks at the doorbell of one that does not wait, and not twice for the same. */
START_TEST(who_is_awake_is_not_woken)
{
    struct shm_world *world = shm_world_open(2, 512);
    struct batch_plan plans[20];
    for (int i = 0; i < 20; i++)
        plans[i] = batch_plan_random(&world->random, COLL_ALLREDUCE, 2, 512);
    shm_world_carry(world, plans, 20);
    ck_assert(!is_woken(&world->seats[0], 0) && !is_woken(&world->seats[1], 0));
    shm_world_close(world);
}
END_TEST

/* An alltoall waits to hear how long it is. */
START_TEST(what_is_announced_wakes)
{
    struct shm_world *world = shm_world_open(2, 512);
    struct batch_plan plan = {.need = {COLL_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, 2}, .count = 7};
    plan.counts[0][0] = plan.counts[0][1] = plan.counts[1][0] = 7;
    world->plans = &plan;
    world->plan_count = 1;
    run_until_idle(world, 0);
    backend_shm.arm(world->seats[0].state, true);
    ck_assert(!shm_world_step(world, 0));
    ck_assert(!is_woken(&world->seats[0], 0));
    ck_assert(shm_world_step(world, 1));
    ck_assert(is_woken(&world->seats[0], SLEEP_MS));
    backend_shm.arm(world->seats[0].state, false);
    for (int i = 0; i < TURNS && (world->seats[0].runs || world->seats[1].runs); i++)
        shm_world_step(world, i % 2);
    shm_world_close(world);
}
END_TEST

/* A team may be removed while its member sleeps, and whoever sleeps may be a stranger to its next team. */
START_TEST(a_sleeper_can_give_up)
{
    struct shm_world *world = shm_world_open(2, 512);
    struct batch_plan plan = batch_plan_random(&world->random, COLL_ALLREDUCE, 2, 512);
    plan.count = 5000;
    world->plans = &plan;
    world->plan_count = 1;
    run_until_idle(world, 0);
    struct shm_member *seat = &world->seats[0];
    backend_shm.arm(seat->state, true);
    ck_assert(!shm_world_step(world, 0));
    struct slots_common *common = ((struct shm_team *)seat->team)->slots.common;
    ck_assert_uint_eq(atomic_load(&common->sleepers), 1);
    backend_shm.remove_team(seat->state, seat->team);
    seat->team = NULL;
    ck_assert_uint_eq(atomic_load(&common->sleepers), 0);
    backend_shm.arm(seat->state, false);
    seat->runs = false;
    guarded_free(seat->part.output, seat->part.output_bytes);
    guarded_free(seat->part.input, seat->part.input_bytes);
    shm_world_close(world);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("slots");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, members_in_threads_are_right, 2, 8);
    tcase_add_loop_test(tcase, members_in_threads_are_right, SIZE_SLEEPS + 2, SIZE_SLEEPS + 8);
    tcase_add_test(tcase, each_part_is_claimed_once);
    tcase_add_test(tcase, only_the_last_one_wakes);
    tcase_add_test(tcase, who_is_awake_is_not_woken);
    tcase_add_test(tcase, what_is_announced_wakes);
    tcase_add_test(tcase, a_sleeper_can_give_up);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("slots", fill);
}
