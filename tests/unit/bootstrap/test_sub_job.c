/* test_sub_job.c: parts of the launcher's job that are jobs of their own. */
#include "config.h"
#include "unit.h"

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/sub_job.h"
#include "forked_job.h"

#define SECOND INT64_C(1000000)

/* ---- The wire-up alone, around one that only counts ---- */

struct counts {
    int fences, gets, closes, last_rank;
    int fence_status;
};

static int count_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state, (void)key, (void)bytes, (void)length, (void)err;
    return HVD_OK;
}

static int count_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    struct counts *counts = state;
    (void)deadline_us;
    counts->fences++;
    return error_set(err, counts->fence_status, "counted");
}

static int count_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                     struct hvd_error *err)
{
    struct counts *counts = state;
    (void)key, (void)deadline_us, (void)blob, (void)err;
    counts->gets++;
    counts->last_rank = rank;
    return HVD_OK;
}

static void count_close(void *state)
{
    struct counts *counts = state;
    counts->closes++;
}

static const struct wireup_ops counting = {
    .name = "counting", .put = count_put, .fence = count_fence, .get = count_get, .close = count_close};

static struct counts counts;
static struct wireup wireup;
static struct hvd_job job_of_8;
static int *launcher_ranks;
static struct hvd_error err;

static void begin(void)
{
    counts = (struct counts){.last_rank = -1};
    wireup = (struct wireup){&counting, &counts, NULL};
    job_of_8 = (struct hvd_job){.rank = 5, .size = 8, .local_rank = 1, .local_size = 4};
    launcher_ranks = NULL;
}

START_TEST(ranks_are_those_of_the_list)
{
    static const int ranks[] = {7, 5, 0};
    struct wireup_blob blob = {NULL, 0};
    ck_assert_int_eq(
        sub_job_open(&wireup, &(struct hvd_ranks){ranks, 3}, 4, &job_of_8, &launcher_ranks, &err), HVD_OK);
    ck_assert_int_eq(job_of_8.rank, 1);
    ck_assert_int_eq(job_of_8.size, 3);
    ck_assert_int_eq(job_of_8.local_rank, -1);
    ck_assert_int_eq(job_of_8.local_size, -1);
    ck_assert_mem_eq(launcher_ranks, ranks, sizeof(ranks));
    for (int rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(wireup.ops->get(wireup.state, rank, "x", 0, &blob, &err), HVD_OK);
        ck_assert_int_eq(counts.last_rank, ranks[rank]);
    }
    ck_assert_int_eq(wireup.ops->get(wireup.state, 3, "x", 0, &blob, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(wireup.ops->get(wireup.state, -1, "x", 0, &blob, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(counts.gets, 3);
    wireup_close(&wireup);
    ck_assert_int_eq(counts.closes, 1);
    free(launcher_ranks);
}
END_TEST

/* However many fences a part makes by itself, in the end there are as many as in all others. */
START_TEST(all_parts_fence_equally_often)
{
    static const int ranks[] = {5};
    ck_assert_int_eq(
        sub_job_open(&wireup, &(struct hvd_ranks){ranks, 1}, 4, &job_of_8, &launcher_ranks, &err), HVD_OK);
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(wireup.ops->fence(wireup.state, 0, &err), HVD_OK);
    ck_assert_int_eq(sub_job_fence_remaining(&wireup, 0, &err), HVD_OK);
    ck_assert_int_eq(counts.fences, 4);
    ck_assert_int_eq(wireup.ops->fence(wireup.state, 0, &err), HVD_ERR_STATE);
    ck_assert_int_eq(counts.fences, 4);
    wireup_close(&wireup);
    free(launcher_ranks);
}
END_TEST

START_TEST(after_a_failed_fence_there_is_none)
{
    static const int ranks[] = {5};
    ck_assert_int_eq(
        sub_job_open(&wireup, &(struct hvd_ranks){ranks, 1}, 4, &job_of_8, &launcher_ranks, &err), HVD_OK);
    counts.fence_status = HVD_ERR_TIMEOUT;
    ck_assert_int_eq(sub_job_fence_remaining(&wireup, 0, &err), HVD_ERR_TIMEOUT);
    ck_assert_int_eq(sub_job_fence_remaining(&wireup, 0, &err), HVD_OK);
    ck_assert_int_eq(counts.fences, 1);
    wireup_close(&wireup);
    free(launcher_ranks);
}
END_TEST

START_TEST(what_is_no_part_does_not_fence)
{
    ck_assert_int_eq(sub_job_fence_remaining(&wireup, 0, &err), HVD_OK);
    ck_assert_int_eq(counts.fences, 0);
}
END_TEST

static const struct {
    int ranks[4], count;
    const char *text;
} bad_lists[] = {
    {{0, 1}, 2, "job has the ranks 0,1, but this process is rank 5 of the launcher's 8"},
    {{5, 8}, 2, "ranks[1] is 8; expected 0 to 7"},
    {{-1, 5}, 2, "ranks[0] is -1; expected 0 to 7"},
    {{5, 1, 5}, 3, "rank 5 is in the list twice"},
    {{5}, -1, "has no elements"},
};

/* The others are fenced with all the same. */
START_TEST(a_bad_list_is_refused)
{
    struct hvd_ranks list = {bad_lists[_i].ranks, bad_lists[_i].count};
    ck_assert_int_eq(sub_job_open(&wireup, &list, 4, &job_of_8, &launcher_ranks, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, bad_lists[_i].text) != NULL, "%s", err.text);
    ck_assert_ptr_null(launcher_ranks);
    ck_assert_int_eq(job_of_8.rank, 5);
    ck_assert_int_eq(sub_job_fence_remaining(&wireup, 0, NULL), HVD_OK);
    ck_assert_int_eq(counts.fences, 4);
    wireup_close(&wireup);
    ck_assert_int_eq(counts.closes, 1);
}
END_TEST

/* ---- Whole starts of jobs ---- */

/* What each process of the launcher's job gives. */
struct given {
    int ranks[4], count; /* -1: no list */
    int set[4], set_ranks, set_count;
};

static const struct given *given;

static void join_part(int rank, struct job_result *result)
{
    struct hvd_config config;
    struct bootstrap bootstrap;
    struct hvd_error why = {""};
    const struct hvd_log log = {LOG_ERROR, log_to_stderr, NULL};
    const struct given *mine = &given[rank];
    const struct hvd_ranks set = {mine->set, mine->set_ranks};
    struct hvd_start start = {.sets = &set, .set_count = mine->set_count};
    int fds_before = open_descriptors();
    int64_t begun_us = clock_us();
    if (mine->count >= 0)
        start.job = (struct hvd_ranks){mine->ranks, mine->count};
    setenv("HVD_START_TIMEOUT", "10s", 1);
    result->rc = config_load(&config, environ, NULL, &why);
    if (result->rc == HVD_OK)
        result->rc = bootstrap_open(&bootstrap, &config, &log, &start, &why);
    result->took_us = clock_us() - begun_us;
    if (result->rc == HVD_OK) {
        result->node = bootstrap.job.rank;
        result->local_size = bootstrap.shape.local_size;
        for (int i = 0; mine->count > 0 && i < mine->count; i++)
            if (bootstrap.launcher_ranks[i] != mine->ranks[i])
                result->rc = HVD_ERR_INVALID;
        bootstrap_close(&bootstrap);
    }
    memcpy(result->text, why.text, sizeof(why.text));
    result->fds_left = open_descriptors() - fds_before;
}

static struct job run(int size, const struct given *all)
{
    struct job job = {.size = size, .node_count = 1, .rank = join_part};
    given = all;
    job_run(&job);
    return job;
}

static void expect(const struct job *job, int rank, int rc, const char *text)
{
    const struct job_result *result = &job->results[rank];
    ck_assert_msg(result->rc == rc, "rank %d: status %d: %s", rank, result->rc, result->text);
    ck_assert_msg(strstr(result->text, text) != NULL, "rank %d: %s", rank, result->text);
    ck_assert_int_eq(result->fds_left, 0);
    ck_assert_int_eq(result->wait_status, 0);
    ck_assert_int_lt(result->took_us, 9 * SECOND);
}

START_TEST(parts_are_jobs_of_their_own)
{
    static const struct given all[] = {{.ranks = {3, 0}, .count = 2},    {.ranks = {1}, .count = 1},
                                       {.ranks = {2, 4, 5}, .count = 3}, {.ranks = {3, 0}, .count = 2},
                                       {.ranks = {2, 4, 5}, .count = 3}, {.ranks = {2, 4, 5}, .count = 3}};
    static const int ranks[] = {1, 0, 0, 0, 1, 2};
    struct job job = run(6, all);
    for (int rank = 0; rank < job.size; rank++) {
        expect(&job, rank, HVD_OK, "");
        ck_assert_int_eq(job.results[rank].node, ranks[rank]);
        ck_assert_int_eq(job.results[rank].local_size, all[rank].count);
    }
}
END_TEST

START_TEST(a_list_of_all_is_no_list)
{
    static const struct given all[] = {
        {.ranks = {0, 1, 2}, .count = 3}, {.count = -1}, {.ranks = {0, 1, 2}, .count = 3}};
    struct job job = run(3, all);
    for (int rank = 0; rank < job.size; rank++)
        expect(&job, rank, HVD_OK, "");
}
END_TEST

START_TEST(lists_that_differ_are_named)
{
    static const struct given all[] = {{.ranks = {0, 1}, .count = 2},
                                       {.ranks = {0, 1}, .count = 2},
                                       {.ranks = {0, 2}, .count = 2},
                                       {.ranks = {3}, .count = 1}};
    struct job job = run(4, all);
    expect(&job, 0, HVD_OK, "");
    expect(&job, 1, HVD_OK, "");
    expect(&job, 3, HVD_OK, "");
    expect(&job, 2, HVD_ERR_MISMATCH, "the launcher's rank 2 (");
    expect(&job, 2, HVD_ERR_MISMATCH, "makes a job of the ranks 0,2, its rank 0 (");
    expect(&job, 2, HVD_ERR_MISMATCH, "one of 0,1; ");
}
END_TEST

START_TEST(who_names_one_alone_is_named)
{
    static const struct given all[] = {{.ranks = {0, 1}, .count = 2}, {.ranks = {1}, .count = 1}};
    struct job job = run(2, all);
    expect(&job, 0, HVD_ERR_MISMATCH, "the launcher's rank 1 (");
    expect(&job, 1, HVD_OK, "");
}
END_TEST

START_TEST(a_bad_list_does_not_hold_up_other_parts)
{
    static const struct given all[] = {
        {.ranks = {0, 1}, .count = 2}, {.ranks = {0, 1}, .count = 2}, {.ranks = {0, 1}, .count = 2}};
    struct job job = run(3, all);
    expect(&job, 0, HVD_OK, "");
    expect(&job, 1, HVD_OK, "");
    expect(&job, 2, HVD_ERR_INVALID, "this process is rank 2 of the launcher's 3");
}
END_TEST

START_TEST(numbers_of_sets_are_compared)
{
    static const struct given all[] = {{.count = -1, .set = {0}, .set_ranks = 1, .set_count = 1},
                                       {.count = -1},
                                       {.count = -1, .set = {0}, .set_ranks = 1, .set_count = 1}};
    struct job job = run(3, all);
    expect(&job, 0, HVD_ERR_MISMATCH, "gives 0 process sets, rank 0 (");
    for (int rank = 1; rank < job.size; rank++)
        expect(&job, rank, HVD_ERR_MISMATCH, ") says why");
}
END_TEST

START_TEST(every_rank_hears_of_a_bad_set)
{
    static const struct given all[] = {{.count = -1, .set = {0, 1}, .set_ranks = 2, .set_count = 1},
                                       {.count = -1, .set = {0, 2}, .set_ranks = 2, .set_count = 1}};
    struct job job = run(2, all);
    expect(&job, 0, HVD_ERR_INVALID, "rank 1 (");
    for (int rank = 0; rank < job.size; rank++)
        expect(&job, rank, HVD_ERR_INVALID, "hvd_init_with: sets[0]: ranks[1] is 2; expected 0 to 1");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *alone = tcase_create("wire-up");
    tcase_add_checked_fixture(alone, begin, NULL);
    tcase_add_test(alone, ranks_are_those_of_the_list);
    tcase_add_loop_test(alone, all_parts_fence_equally_often, 0, 5);
    tcase_add_test(alone, after_a_failed_fence_there_is_none);
    tcase_add_test(alone, what_is_no_part_does_not_fence);
    tcase_add_loop_test(alone, a_bad_list_is_refused, 0, sizeof(bad_lists) / sizeof(bad_lists[0]));
    suite_add_tcase(suite, alone);
    TCase *jobs = tcase_create("jobs");
    tcase_set_timeout(jobs, 60);
    tcase_add_test(jobs, parts_are_jobs_of_their_own);
    tcase_add_test(jobs, a_list_of_all_is_no_list);
    tcase_add_test(jobs, lists_that_differ_are_named);
    tcase_add_test(jobs, who_names_one_alone_is_named);
    tcase_add_test(jobs, a_bad_list_does_not_hold_up_other_parts);
    tcase_add_test(jobs, numbers_of_sets_are_compared);
    tcase_add_test(jobs, every_rank_hears_of_a_bad_set);
    suite_add_tcase(suite, jobs);
}

int main(void)
{
    return unit_run("sub_job", fill);
}
