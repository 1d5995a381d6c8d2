/* test_gait.c: through the cache or past it: what took less in the last trials. */
#include "unit.h"

#include "plane/gait.h"

#define PIECE  (32 * 1024)
#define CHUNKS 10000

/* Go through chunks, each in four pieces that take so long for each of the two. */
static uint64_t walk(struct gait *gait, uint64_t chunk, uint64_t end, int64_t through_ns, int64_t past_ns)
{
    for (; chunk < end; chunk++) {
        for (int piece = 0; gait_is_trial(chunk) && piece < 4; piece++)
            gait_note(gait, chunk, gait_is_past(gait, chunk) ? past_ns : through_ns, PIECE);
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

START_TEST(few_chunks_are_trials_of_both)
{
    const struct gait gait = {0};
    int trials[2] = {0, 0};
    for (uint64_t chunk = 0; chunk < 4096; chunk++)
        trials[gait_is_past(&gait, chunk)] += gait_is_trial(chunk);
    ck_assert_int_eq(trials[0], trials[1]);
    ck_assert_int_gt(trials[0], 0);
    ck_assert_int_le(trials[0], 4096 / 32);
    ck_assert(!gait_is_trial(0));
}
END_TEST

START_TEST(keeps_what_took_less)
{
    struct gait gait = {0};
    uint64_t chunk = 0;
    ck_assert(!gait_is_past(&gait, chunk));
    chunk = walk(&gait, chunk, CHUNKS, 8000, 4000);
    ck_assert(gait.past);
    ck_assert(gait_is_past(&gait, next_trial(chunk) - 1));
    chunk = walk(&gait, chunk, 2 * CHUNKS, 4000, 4000);
    ck_assert(!gait.past);
    ck_assert(!gait_is_past(&gait, next_trial(chunk) - 1));
}
END_TEST

START_TEST(a_little_less_changes_nothing)
{
    struct gait gait = {0};
    walk(&gait, 0, CHUNKS, 5000, 4600);
    ck_assert(!gait.past);
    walk(&gait, 0, CHUNKS, 5000, 4400);
    ck_assert(gait.past);
}
END_TEST

/* Where cores come near to each other again, one trial says so, however many said otherwise. */
START_TEST(the_last_trial_counts)
{
    struct gait gait = {0};
    uint64_t chunk = walk(&gait, 0, CHUNKS, 5000, 4000);
    ck_assert(gait.past);
    for (chunk = next_trial(chunk); gait_is_trial(chunk);)
        chunk = walk(&gait, chunk, chunk + 1, 4000, 5000);
    ck_assert(!gait.past);
}
END_TEST

/* A rank that loses its core in the middle of a piece has measured something else. */
START_TEST(what_was_torn_does_not_count)
{
    struct gait gait = {0};
    uint64_t chunk = next_trial(0);
    gait_note(&gait, chunk, 4000000, PIECE);
    gait_note(&gait, chunk, -1, PIECE);
    walk(&gait, chunk, CHUNKS, 4000, 5000);
    ck_assert(!gait.past);
}
END_TEST

/* Of small tensors time says nothing about memory. */
START_TEST(few_bytes_say_nothing)
{
    struct gait gait = {0};
    for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
        if (gait_is_trial(chunk))
            gait_note(&gait, chunk, gait_is_past(&gait, chunk) ? 100 : 1000, 64);
    }
    ck_assert(!gait.past);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("gait");
    tcase_add_test(tcase, few_chunks_are_trials_of_both);
    tcase_add_test(tcase, keeps_what_took_less);
    tcase_add_test(tcase, a_little_less_changes_nothing);
    tcase_add_test(tcase, the_last_trial_counts);
    tcase_add_test(tcase, what_was_torn_does_not_count);
    tcase_add_test(tcase, few_bytes_say_nothing);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("gait", fill);
}
