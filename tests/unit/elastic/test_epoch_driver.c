/* test_epoch_driver.c: which epochs follow from what processes do. */
#include "config.h"

#include "unit.h"

#include <stdlib.h>

#include "elastic/epoch_driver.h"

enum { SLOTS = 6 };

static void check_rank(const struct epoch_driver *driver, int slot, int rank)
{
    ck_assert_int_eq(epoch_driver_rank(driver, slot), rank);
    if (rank >= 0)
        ck_assert_int_eq(epoch_driver_slot(driver, rank), slot);
}

START_TEST(survivors_keep_their_order)
{
    struct epoch_driver *driver = epoch_driver_create(4, 4, 2);
    check_rank(driver, 3, 3);
    epoch_driver_ask(driver, 3);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS); /* 1 is not known to have ended */
    epoch_driver_lose(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_ask(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    ck_assert_int_eq(epoch_driver_epoch(driver), 1);
    ck_assert_int_eq(epoch_driver_size(driver), 3);
    check_rank(driver, 0, 0);
    check_rank(driver, 1, -1);
    check_rank(driver, 2, 1);
    check_rank(driver, 3, 2);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(too_few_are_refused)
{
    struct epoch_driver *driver = epoch_driver_create(2, 2, 2);
    epoch_driver_lose(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS); /* nobody asks */
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_REFUSES);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(one_that_gives_up_is_waited_for)
{
    struct epoch_driver *driver = epoch_driver_create(2, 2, 1);
    epoch_driver_ask(driver, 0);
    epoch_driver_give_up(driver, 0);
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    ck_assert_int_eq(epoch_driver_size(driver), 2);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(newcomers_come_after_the_members)
{
    struct epoch_driver *driver = epoch_driver_create(3, 3, 2);
    epoch_driver_lose(driver, 0);
    epoch_driver_expect(driver, 0);
    epoch_driver_ask(driver, 2);
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS); /* enough are left without the newcomer */
    check_rank(driver, 0, -1);
    ck_assert(!epoch_driver_has_news(driver));
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    ck_assert(epoch_driver_has_news(driver));
    epoch_driver_ask(driver, 1);
    epoch_driver_ask(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    ck_assert(!epoch_driver_has_news(driver));
    check_rank(driver, 1, 0);
    check_rank(driver, 2, 1);
    check_rank(driver, 0, 2);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(too_few_wait_for_a_newcomer)
{
    struct epoch_driver *driver = epoch_driver_create(2, 2, 2);
    epoch_driver_lose(driver, 0);
    epoch_driver_expect(driver, 0);
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    check_rank(driver, 1, 0);
    check_rank(driver, 0, 1);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(newcomers_alone_begin_together)
{
    struct epoch_driver *driver = epoch_driver_create(3, 3, 1);
    for (int slot = 0; slot < 3; slot++)
        epoch_driver_lose(driver, slot);
    epoch_driver_expect(driver, 0);
    epoch_driver_expect(driver, 2);
    epoch_driver_ask(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    check_rank(driver, 0, 0);
    check_rank(driver, 2, 1);
    epoch_driver_destroy(driver);
}
END_TEST

/* [slots] processes that all ask for the first epoch, which [most] of them begin. */
static struct epoch_driver *begin_with_spares(int slots, int fewest, int most)
{
    struct epoch_driver *driver = epoch_driver_create(slots, slots, fewest);
    epoch_driver_limit(driver, most);
    for (int slot = 0; slot < slots; slot++)
        epoch_driver_expect(driver, slot);
    for (int slot = slots - 1; slot >= 0; slot--) {
        ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
        epoch_driver_ask(driver, slot);
    }
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    ck_assert_int_eq(epoch_driver_size(driver), most);
    return driver;
}

START_TEST(a_spare_takes_the_place_of_one_that_is_lost)
{
    struct epoch_driver *driver = begin_with_spares(5, 2, 3);
    for (int slot = 0; slot < 5; slot++)
        check_rank(driver, slot, slot < 3 ? slot : -1);
    ck_assert(!epoch_driver_has_news(driver)); /* there is no room for them */
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_lose(driver, 1);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_ask(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    ck_assert_int_eq(epoch_driver_size(driver), 3);
    check_rank(driver, 0, 0);
    check_rank(driver, 2, 1);
    check_rank(driver, 3, 2);
    check_rank(driver, 4, -1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_destroy(driver);
}
END_TEST

/* The last one that is left counts, and a spare that is lost is missed by nobody. */
START_TEST(spares_are_used_up)
{
    struct epoch_driver *driver = begin_with_spares(4, 2, 2);
    epoch_driver_lose(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_lose(driver, 0);
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    check_rank(driver, 1, 0);
    check_rank(driver, 3, 1);
    epoch_driver_lose(driver, 1);
    epoch_driver_ask(driver, 3);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_REFUSES);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(spares_end_with_the_members)
{
    struct epoch_driver *driver = begin_with_spares(4, 3, 3);
    for (int slot = 0; slot < 3; slot++) {
        ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
        epoch_driver_lose(driver, slot);
    }
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_IS_LAST);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(who_comes_after_the_end_waits)
{
    struct epoch_driver *driver = epoch_driver_create(2, 2, 1);
    epoch_driver_lose(driver, 0);
    epoch_driver_expect(driver, 0);
    epoch_driver_finish(driver);
    epoch_driver_ask(driver, 0);
    ck_assert(!epoch_driver_has_news(driver));
    epoch_driver_lose(driver, 1);
    ck_assert_int_eq(epoch_driver_members(driver), 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(a_job_grows_into_empty_slots)
{
    struct epoch_driver *driver = epoch_driver_create(4, 2, 1);
    ck_assert_int_eq(epoch_driver_size(driver), 2);
    ck_assert_int_eq(epoch_driver_left(driver), 2);
    check_rank(driver, 2, -1);
    epoch_driver_expect(driver, 3);
    epoch_driver_expect(driver, 2);
    epoch_driver_ask(driver, 3);
    ck_assert(epoch_driver_has_news(driver));
    ck_assert(epoch_driver_is_on_its_way(driver, 2) && !epoch_driver_is_on_its_way(driver, 3));
    ck_assert(epoch_driver_waits(driver, 3) && !epoch_driver_waits(driver, 2));
    epoch_driver_ask(driver, 2);
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    for (int slot = 0; slot < 4; slot++)
        check_rank(driver, slot, slot);
    /* and out of the lower ones again */
    epoch_driver_lose(driver, 0);
    for (int slot = 1; slot < 4; slot++)
        epoch_driver_ask(driver, slot);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    check_rank(driver, 1, 0);
    check_rank(driver, 3, 2);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(members_leave_when_all_have_asked)
{
    struct epoch_driver *driver = epoch_driver_create(3, 3, 2);
    epoch_driver_dismiss(driver, 1, true);
    ck_assert(epoch_driver_has_news(driver));
    ck_assert_int_eq(epoch_driver_left(driver), 2);
    ck_assert_int_eq(epoch_driver_members(driver), 3);
    epoch_driver_ask(driver, 0);
    epoch_driver_ask(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS); /* the one that leaves works still */
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    check_rank(driver, 0, 0);
    check_rank(driver, 1, -1);
    check_rank(driver, 2, 1);
    ck_assert(!epoch_driver_has_news(driver));
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS); /* it waits in vain */
    epoch_driver_lose(driver, 1);
    epoch_driver_expect(driver, 1);
    epoch_driver_ask(driver, 1);
    ck_assert(epoch_driver_has_news(driver)); /* a newcomer does not */
    epoch_driver_dismiss(driver, 2, true);
    epoch_driver_dismiss(driver, 2, false);
    epoch_driver_ask(driver, 0);
    epoch_driver_ask(driver, 2);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_BEGINS);
    ck_assert_int_eq(epoch_driver_size(driver), 3);
    epoch_driver_destroy(driver);
}
END_TEST

START_TEST(too_few_wait_while_there_is_hope)
{
    struct epoch_driver *driver = epoch_driver_create(3, 2, 2);
    epoch_driver_hope(driver, true);
    epoch_driver_lose(driver, 0);
    epoch_driver_ask(driver, 1);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS);
    epoch_driver_lose(driver, 1);
    epoch_driver_expect(driver, 0);
    epoch_driver_ask(driver, 0);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_WAITS); /* newcomers alone are not enough either */
    epoch_driver_hope(driver, false);
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_REFUSES);
    epoch_driver_destroy(driver);
}
END_TEST

/* All members are on a node that is stopped, so that none of them finds another silent. */
START_TEST(the_last_members_are_silent_and_spares_wait_in_vain)
{
    struct epoch_driver *driver = begin_with_spares(3, 1, 1);
    ck_assert(!epoch_driver_has_beats(driver));
    epoch_driver_hear(driver, 0);
    epoch_driver_hear(driver, 1); /* a spare waits, and is not counted */
    for (int i = 0; i < 7; i++)
        epoch_driver_count_beats(driver);
    epoch_driver_hear(driver, 0);
    for (int i = 0; i < 7; i++)
        epoch_driver_count_beats(driver);
    ck_assert(!epoch_driver_is_silent(driver, 0));
    epoch_driver_count_beats(driver);
    ck_assert(epoch_driver_is_silent(driver, 0) && !epoch_driver_is_silent(driver, 1));
    epoch_driver_lose(driver, 0);
    ck_assert(!epoch_driver_has_beats(driver));
    ck_assert_int_eq(epoch_driver_decide(driver), EPOCH_IS_LAST);
    epoch_driver_destroy(driver);
}
END_TEST

/* What a host knows of its processes in any schedule. */
struct model {
    bool waits[SLOTS], ended[SLOTS], late[SLOTS], leaves[SLOTS]; /* late: it is in no epoch */
    int order[SLOTS], members;                                   /* the slots of the epoch, by rank */
    int left;
    bool hopes;
    int missed[SLOTS]; /* intervals since the last beat; -1: it sends none */
};

/* All members have waited, and come first. */
static void check_epoch(const struct epoch_driver *driver, struct model *model)
{
    int rank = 0;
    for (int i = 0; i < model->members; i++) {
        int slot = model->order[i];
        if (model->ended[slot] || model->late[slot])
            continue;
        ck_assert(model->waits[slot]);
        if (model->leaves[slot]) {
            model->late[slot] = true;
            continue;
        }
        check_rank(driver, slot, rank);
        model->order[rank++] = slot;
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        bool joins = model->late[slot] && model->waits[slot] && !model->leaves[slot];
        if (model->ended[slot] || (model->late[slot] && !joins))
            check_rank(driver, slot, -1);
        if (!joins)
            continue;
        check_rank(driver, slot, rank);
        model->order[rank++] = slot;
        model->late[slot] = false;
    }
    ck_assert_int_eq(epoch_driver_size(driver), rank);
    model->members = rank;
}

/* Beats of a process come, stop, or are counted, whatever else happens to it. */
static void take_random_beat(struct epoch_driver *driver, struct model *model, unsigned *seed)
{
    int slot = rand_r(seed) % SLOTS;
    int event = rand_r(seed) % 24;
    if (event == 0 && !model->ended[slot]) {
        epoch_driver_hush(driver, slot);
        model->missed[slot] = -1;
    } else if (event <= 2 && !model->ended[slot]) {
        epoch_driver_hear(driver, slot);
        model->missed[slot] = model->waits[slot] ? -1 : 0;
    } else {
        epoch_driver_count_beats(driver);
        for (int other = 0; other < SLOTS; other++)
            model->missed[other] += model->missed[other] >= 0;
    }
}

static void check_beats(const struct epoch_driver *driver, const struct model *model)
{
    bool has_beats = false;
    for (int slot = 0; slot < SLOTS; slot++) {
        ck_assert_int_eq(epoch_driver_is_silent(driver, slot), model->missed[slot] >= 8);
        has_beats = has_beats || model->missed[slot] >= 0;
    }
    ck_assert_int_eq(epoch_driver_has_beats(driver), has_beats);
}

static void take_random_event(struct epoch_driver *driver, struct model *model, unsigned *seed)
{
    int slot = rand_r(seed) % SLOTS;
    int event = rand_r(seed) % 8;
    if (rand_r(seed) % 30 == 0)
        epoch_driver_hope(driver, model->hopes = !model->hopes);
    if (model->ended[slot] && event == 0) {
        epoch_driver_expect(driver, slot);
        model->ended[slot] = model->leaves[slot] = false;
        model->late[slot] = true;
        model->missed[slot] = -1;
        model->left++;
    } else if (model->ended[slot]) {
        return;
    } else if (event == 0) {
        epoch_driver_lose(driver, slot);
        model->ended[slot] = true;
        model->waits[slot] = model->late[slot] = false;
        model->missed[slot] = -1;
        model->left -= !model->leaves[slot];
    } else if (event == 2) {
        model->leaves[slot] = !model->leaves[slot];
        epoch_driver_dismiss(driver, slot, model->leaves[slot]);
        model->left += model->leaves[slot] ? -1 : 1;
    } else if (event == 1) {
        epoch_driver_give_up(driver, slot);
        model->waits[slot] = false;
    } else {
        epoch_driver_ask(driver, slot);
        model->waits[slot] = true;
        model->missed[slot] = -1;
    }
}

static int count_waiting(const struct model *model)
{
    int waiting = 0;
    for (int slot = 0; slot < SLOTS; slot++)
        waiting += model->waits[slot] && !model->leaves[slot];
    return waiting;
}

static int count_members(const struct model *model, bool waiting)
{
    int members = 0;
    for (int i = 0; i < model->members; i++) {
        int slot = model->order[i];
        members += !model->ended[slot] && !model->late[slot] && (!waiting || model->waits[slot]);
    }
    return members;
}

static bool members_work(const struct model *model)
{
    return count_members(model, true) < count_members(model, false);
}

/* Does a member work that is left, or is none left? */
static bool members_hold_up(const struct model *model)
{
    return count_members(model, false) == 0 || members_work(model);
}

static void check_newcomers(const struct epoch_driver *driver, const struct model *model)
{
    bool newcomer_waits = false, member_stays = false, member_leaves = false;
    for (int slot = 0; slot < SLOTS; slot++) {
        bool late = model->late[slot] && !model->ended[slot];
        bool member = epoch_driver_rank(driver, slot) >= 0 && !model->ended[slot];
        ck_assert_int_eq(epoch_driver_is_on_its_way(driver, slot), late && !model->waits[slot]);
        newcomer_waits = newcomer_waits || (late && model->waits[slot] && !model->leaves[slot]);
        member_stays = member_stays || (member && !model->leaves[slot]);
        member_leaves = member_leaves || (member && model->leaves[slot]);
    }
    ck_assert_int_eq(epoch_driver_has_news(driver), member_stays && (newcomer_waits || member_leaves));
}

static void check_schedule(unsigned seed)
{
    int fewest = 1 + (int)(seed % SLOTS);
    uint32_t epoch = 0;
    int members = fewest + rand_r(&seed) % (SLOTS - fewest + 1);
    struct model model = {.order = {0, 1, 2, 3, 4, 5}, .members = members, .left = members};
    struct epoch_driver *driver = epoch_driver_create(SLOTS, members, fewest);
    for (int slot = members; slot < SLOTS; slot++)
        model.ended[slot] = true;
    for (int slot = 0; slot < SLOTS; slot++)
        model.missed[slot] = -1;
    for (int i = 0; i < 200; i++) {
        for (int beats = rand_r(&seed) % 8; beats > 0; beats--)
            take_random_beat(driver, &model, &seed);
        check_beats(driver, &model);
        take_random_event(driver, &model, &seed);
        int waiting = count_waiting(&model);
        enum epoch_decision decision = epoch_driver_decide(driver);
        if (decision == EPOCH_BEGINS) {
            ck_assert_int_ge(model.left, fewest);
            check_epoch(driver, &model);
            epoch++;
        } else if (decision == EPOCH_REFUSES) {
            ck_assert(model.left < fewest && !model.hopes);
        } else {
            bool too_few = model.left < fewest && model.hopes;
            bool some_work = waiting < model.left || members_work(&model);
            ck_assert(waiting == 0 || too_few || (some_work && model.left >= fewest));
            ck_assert(waiting < fewest || members_hold_up(&model));
        }
        if (decision != EPOCH_WAITS)
            for (int slot = 0; slot < SLOTS; slot++)
                model.waits[slot] = decision == EPOCH_BEGINS && model.waits[slot] && model.leaves[slot];
        check_newcomers(driver, &model);
        check_beats(driver, &model);
        ck_assert_int_eq(epoch_driver_epoch(driver), epoch);
        ck_assert_int_eq(epoch_driver_left(driver), model.left);
    }
    epoch_driver_destroy(driver);
}

START_TEST(any_schedule_ends_all_waiting)
{
    for (unsigned seed = 0; seed < 1000; seed++)
        check_schedule(seed);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("epoch_driver");
    tcase_add_test(tcase, survivors_keep_their_order);
    tcase_add_test(tcase, too_few_are_refused);
    tcase_add_test(tcase, one_that_gives_up_is_waited_for);
    tcase_add_test(tcase, newcomers_come_after_the_members);
    tcase_add_test(tcase, too_few_wait_for_a_newcomer);
    tcase_add_test(tcase, newcomers_alone_begin_together);
    tcase_add_test(tcase, a_spare_takes_the_place_of_one_that_is_lost);
    tcase_add_test(tcase, spares_are_used_up);
    tcase_add_test(tcase, spares_end_with_the_members);
    tcase_add_test(tcase, the_last_members_are_silent_and_spares_wait_in_vain);
    tcase_add_test(tcase, who_comes_after_the_end_waits);
    tcase_add_test(tcase, a_job_grows_into_empty_slots);
    tcase_add_test(tcase, members_leave_when_all_have_asked);
    tcase_add_test(tcase, too_few_wait_while_there_is_hope);
    tcase_add_test(tcase, any_schedule_ends_all_waiting);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("epoch_driver", fill);
}
