/* test_autotune.c: looking for better settings. */
#include "unit.h"

#include "flow/autotuner.h"

#define MIB (INT64_C(1) << 20)

static const struct tuned_settings usual = {64 * MIB, 128 << 10, 2};

/* A machine: bytes a microsecond that it carries with these settings, after so many steps. */
typedef double machine_f(const struct tuned_settings *settings, int64_t steps);

/* Steps until it is over. What is tried must be told. */
static int64_t search(struct autotuner *tune, machine_f *machine)
{
    int64_t bytes = 100 * MIB;
    autotuner_begin(tune, &usual);
    while (!autotuner_over(tune)) {
        struct tuned_settings before = tune->now;
        bool told = autotuner_step(tune, bytes, (int64_t)((double)bytes / machine(&tune->now, tune->steps)));
        ck_assert_int_eq(told, before.fusion_bytes != tune->now.fusion_bytes ||
                                   before.chunk_bytes != tune->now.chunk_bytes ||
                                   before.inflight != tune->now.inflight);
        ck_assert_int_le(tune->steps, AUTOTUNER_MAX_STEPS);
    }
    return tune->steps;
}

static double steady(const struct tuned_settings *settings, int64_t steps)
{
    (void)settings;
    return 5000 + (double)(steps * 7 % 11); /* noise that never is a gain */
}

START_TEST(keeps_what_was_set_where_nothing_is_better)
{
    struct autotuner tune;
    search(&tune, steady);
    ck_assert_mem_eq(&tune.now, &usual, sizeof(usual));
    ck_assert_double_eq(autotuner_gain(&tune), 1);
}
END_TEST

static double likes_small(const struct tuned_settings *settings, int64_t steps)
{
    double rate = steady(settings, steps);
    rate *= settings->fusion_bytes == 8 * MIB ? 1.3 : 1;
    return rate * (settings->chunk_bytes == 64 << 10 ? 1.2 : 1) * (settings->inflight == 4 ? 1.1 : 1);
}

START_TEST(finds_what_is_better_in_each_setting)
{
    struct autotuner tune;
    search(&tune, likes_small);
    ck_assert_int_eq(tune.now.fusion_bytes, 8 * MIB);
    ck_assert_int_eq(tune.now.chunk_bytes, 64 << 10);
    ck_assert_int_eq(tune.now.inflight, 4);
    ck_assert_double_eq_tol(autotuner_gain(&tune), 1.3 * 1.2 * 1.1, 0.01);
}
END_TEST

/* The others on this machine went away: whatever is tried then seems better. */
static double gets_faster(const struct tuned_settings *settings, int64_t steps)
{
    return steady(settings, steps) * (steps < 20 ? 1 : 2);
}

START_TEST(is_not_fooled_by_a_machine_that_gets_faster)
{
    struct autotuner tune;
    search(&tune, gets_faster);
    ck_assert_mem_eq(&tune.now, &usual, sizeof(usual));
}
END_TEST

/* One step in four is three times as slow. */
static double stumbles(const struct tuned_settings *settings, int64_t steps)
{
    return likes_small(settings, steps) / (steps % 4 == 0 ? 3 : 1);
}

START_TEST(does_not_mind_a_slow_step)
{
    struct autotuner tune;
    search(&tune, stumbles);
    ck_assert_int_eq(tune.now.fusion_bytes, 8 * MIB);
}
END_TEST

START_TEST(learns_nothing_where_nothing_was_carried)
{
    struct autotuner tune;
    autotuner_begin(&tune, &usual);
    ck_assert(!autotuner_step(&tune, 0, 100));
    ck_assert(!autotuner_step(&tune, 100, 0));
    ck_assert_int_eq(tune.steps, 0);
}
END_TEST

START_TEST(stays_where_it_is_when_it_is_over)
{
    struct autotuner tune;
    search(&tune, likes_small);
    struct tuned_settings found = tune.now;
    ck_assert(!autotuner_step(&tune, 100 * MIB, 1));
    ck_assert_mem_eq(&tune.now, &found, sizeof(found));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("autotune");
    tcase_add_test(tcase, keeps_what_was_set_where_nothing_is_better);
    tcase_add_test(tcase, finds_what_is_better_in_each_setting);
    tcase_add_test(tcase, is_not_fooled_by_a_machine_that_gets_faster);
    tcase_add_test(tcase, does_not_mind_a_slow_step);
    tcase_add_test(tcase, learns_nothing_where_nothing_was_carried);
    tcase_add_test(tcase, stays_where_it_is_when_it_is_over);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("autotune", fill);
}
