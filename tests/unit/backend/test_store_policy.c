/* test_store_policy.c: through the cache or past it: what took clearly less in the last trials. */
#include "unit.h"

#include "backend/shm/store_policy.h"

#define PIECE  (32 * 1024)
#define CHUNKS 10000

/* Go through chunks, each in four pieces that take so long by each way. */
static uint64_t walk(struct gait *gait, uint64_t chunk, uint64_t end, const int64_t piece_ns[GAIT_WAYS])
{
    for (; chunk < end; chunk++) {
        for (int piece = 0; gait_is_trial(chunk) && piece < 4; piece++)
            gait_note(gait, chunk, piece_ns[gait_way(gait, chunk)], PIECE);
    }
    return chunk;
}

static uint64_t next_trial(uint64_t chunk)
{
    while (gait_is_trial(chunk))
        chunk++;
    while (!gait_is_trial(chunk))
        chunk++;
    return chunk;
}

/* The way after many chunks of these times. */
static enum gait_way settled(struct gait *gait, int64_t results_ns, int64_t nothing_ns, int64_t all_ns)
{
    uint64_t chunk = walk(gait, 0, CHUNKS, (const int64_t[]){results_ns, nothing_ns, all_ns});
    ck_assert_int_eq(gait_way(gait, next_trial(chunk) - 1), gait->way);
    return gait->way;
}

START_TEST(few_chunks_are_trials_of_all)
{
    const struct gait gait = {0};
    int trials[GAIT_WAYS] = {0};
    for (uint64_t chunk = 0; chunk < 4096; chunk++)
        trials[gait_way(&gait, chunk)] += gait_is_trial(chunk);
    for (int way = 0; way < GAIT_WAYS; way++) {
        ck_assert_int_gt(trials[way], 0);
        ck_assert_int_le(trials[way], 4096 / 32);
    }
    ck_assert(!gait_is_trial(0));
}
END_TEST

START_TEST(keeps_what_took_less)
{
    struct gait gait = {0};
    ck_assert_int_eq(gait_way(&gait, 0), GAIT_RESULTS_PAST);
    ck_assert_int_eq(settled(&gait, 8000, 8000, 4000), GAIT_ALL_PAST);
    ck_assert_int_eq(settled(&gait, 8000, 4000, 8000), GAIT_NOTHING_PAST);
    ck_assert_int_eq(settled(&gait, 8000, 6000, 4000), GAIT_ALL_PAST);
    ck_assert_int_eq(settled(&gait, 4000, 4000, 4000), GAIT_RESULTS_PAST);
}
END_TEST

START_TEST(a_little_less_changes_nothing)
{
    struct gait gait = {0};
    ck_assert_int_eq(settled(&gait, 5000, 4600, 4600), GAIT_RESULTS_PAST);
    ck_assert_int_eq(settled(&gait, 5000, 5000, 4400), GAIT_ALL_PAST);
}
END_TEST

/* Where cores come near to each other again, one trial says so, however many said otherwise. */
START_TEST(the_last_trials_count)
{
    static const int64_t near_ns[] = {4000, 4000, 5000}, far_ns[] = {5000, 5000, 4000};
    struct gait gait = {0};
    uint64_t chunk = walk(&gait, 0, CHUNKS, far_ns);
    ck_assert_int_eq(gait.way, GAIT_ALL_PAST);
    for (chunk = next_trial(chunk); gait_is_trial(chunk);)
        chunk = walk(&gait, chunk, chunk + 1, near_ns);
    ck_assert_int_eq(gait.way, GAIT_RESULTS_PAST);
}
END_TEST

/* A rank that loses its core in the middle of a piece has measured something else. */
START_TEST(what_was_torn_does_not_count)
{
    struct gait gait = {0};
    uint64_t chunk = next_trial(0);
    for (int i = 0; i < 1000; i++) {
        gait_note(&gait, chunk, 4000000, PIECE);
        gait_note(&gait, chunk, -1, PIECE);
    }
    walk(&gait, chunk, next_trial(chunk), (const int64_t[]){4000, 5000, 5000});
    ck_assert_int_eq(gait.way, GAIT_RESULTS_PAST);
}
END_TEST

/* Of small tensors time says nothing about memory. */
START_TEST(few_bytes_say_nothing)
{
    struct gait gait = {0};
    for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
        if (gait_is_trial(chunk))
            gait_note(&gait, chunk, gait_way(&gait, chunk) == GAIT_RESULTS_PAST ? 1000 : 100, 64);
    }
    ck_assert_int_eq(gait.way, GAIT_RESULTS_PAST);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("gait");
    tcase_add_test(tcase, few_chunks_are_trials_of_all);
    tcase_add_test(tcase, keeps_what_took_less);
    tcase_add_test(tcase, a_little_less_changes_nothing);
    tcase_add_test(tcase, the_last_trials_count);
    tcase_add_test(tcase, what_was_torn_does_not_count);
    tcase_add_test(tcase, few_bytes_say_nothing);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("gait", fill);
}
