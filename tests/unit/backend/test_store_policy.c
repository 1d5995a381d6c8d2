/* test_store_policy.c: through the cache or past it: what took clearly less in the last trials. */
#include "unit.h"

#include "backend/shm/store_policy.h"

#define PIECE  (32 * 1024)
#define CHUNKS 10000

/* Go through chunks, each in four pieces that take so long by each mode. */
static uint64_t walk(struct store_policy *store_policy, uint64_t chunk, uint64_t end,
                     const int64_t piece_ns[STORE_MODES])
{
    for (; chunk < end; chunk++) {
        for (int piece = 0; store_policy_is_trial(chunk) && piece < 4; piece++)
            store_policy_record(store_policy, chunk, piece_ns[store_policy_mode(store_policy, chunk)], PIECE);
    }
    return chunk;
}

static uint64_t next_trial(uint64_t chunk)
{
    while (store_policy_is_trial(chunk))
        chunk++;
    while (!store_policy_is_trial(chunk))
        chunk++;
    return chunk;
}

/* The mode after many chunks of these times. */
static enum store_mode settled(struct store_policy *store_policy, int64_t results_ns, int64_t nothing_ns,
                               int64_t all_ns)
{
    uint64_t chunk = walk(store_policy, 0, CHUNKS, (const int64_t[]){results_ns, nothing_ns, all_ns});
    ck_assert_int_eq(store_policy_mode(store_policy, next_trial(chunk) - 1), store_policy->mode);
    return store_policy->mode;
}

START_TEST(few_chunks_are_trials_of_all)
{
    const struct store_policy store_policy = {0};
    int trials[STORE_MODES] = {0};
    for (uint64_t chunk = 0; chunk < 4096; chunk++)
        trials[store_policy_mode(&store_policy, chunk)] += store_policy_is_trial(chunk);
    for (int mode = 0; mode < STORE_MODES; mode++) {
        ck_assert_int_gt(trials[mode], 0);
        ck_assert_int_le(trials[mode], 4096 / 32);
    }
    ck_assert(!store_policy_is_trial(0));
}
END_TEST

START_TEST(keeps_what_took_less)
{
    struct store_policy store_policy = {0};
    ck_assert_int_eq(store_policy_mode(&store_policy, 0), STORE_STREAM_RESULTS);
    ck_assert_int_eq(settled(&store_policy, 8000, 8000, 4000), STORE_STREAM_ALL);
    ck_assert_int_eq(settled(&store_policy, 8000, 4000, 8000), STORE_CACHED);
    ck_assert_int_eq(settled(&store_policy, 8000, 6000, 4000), STORE_STREAM_ALL);
    ck_assert_int_eq(settled(&store_policy, 4000, 4000, 4000), STORE_STREAM_RESULTS);
}
END_TEST

START_TEST(a_little_less_changes_nothing)
{
    struct store_policy store_policy = {0};
    ck_assert_int_eq(settled(&store_policy, 5000, 4600, 4600), STORE_STREAM_RESULTS);
    ck_assert_int_eq(settled(&store_policy, 5000, 5000, 4400), STORE_STREAM_ALL);
}
END_TEST

/* Where cores come near to each other again, one trial says so, however many said otherwise. */
START_TEST(the_last_trials_count)
{
    static const int64_t near_ns[] = {4000, 4000, 5000}, far_ns[] = {5000, 5000, 4000};
    struct store_policy store_policy = {0};
    uint64_t chunk = walk(&store_policy, 0, CHUNKS, far_ns);
    ck_assert_int_eq(store_policy.mode, STORE_STREAM_ALL);
    for (chunk = next_trial(chunk); store_policy_is_trial(chunk);)
        chunk = walk(&store_policy, chunk, chunk + 1, near_ns);
    ck_assert_int_eq(store_policy.mode, STORE_STREAM_RESULTS);
}
END_TEST

/* A rank that loses its core in the middle of a piece has measured something else. */
START_TEST(what_was_torn_does_not_count)
{
    struct store_policy store_policy = {0};
    uint64_t chunk = next_trial(0);
    for (int i = 0; i < 1000; i++) {
        store_policy_record(&store_policy, chunk, 4000000, PIECE);
        store_policy_record(&store_policy, chunk, -1, PIECE);
    }
    walk(&store_policy, chunk, next_trial(chunk), (const int64_t[]){4000, 5000, 5000});
    ck_assert_int_eq(store_policy.mode, STORE_STREAM_RESULTS);
}
END_TEST

/* Of small tensors time says nothing about memory. */
START_TEST(few_bytes_say_nothing)
{
    struct store_policy store_policy = {0};
    for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
        if (store_policy_is_trial(chunk))
            store_policy_record(&store_policy, chunk,
                                store_policy_mode(&store_policy, chunk) == STORE_STREAM_RESULTS ? 1000 : 100,
                                64);
    }
    ck_assert_int_eq(store_policy.mode, STORE_STREAM_RESULTS);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("store_policy");
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
    return unit_run("store_policy", fill);
}
