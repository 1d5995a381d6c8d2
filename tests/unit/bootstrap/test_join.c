/* test_join.c: whole starts of jobs: forked ranks that wire up by the environment and meet. */
#include "config.h"
#include "unit.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "bootstrap/memory_budget.h"
#include "bootstrap/bootstrap.h"
#include "forked_job.h"
#include "mappings.h"

#define SECOND INT64_C(1000000)

static int unreadable_rank = -1; /* this rank publishes a byte that the others refuse */

/* The next message, which must be from [link]. */
static int await_message(struct control *control, int epoll_fd, int link, struct hvd_error *err)
{
    int64_t deadline_us = clock_us() + 20 * SECOND;
    while (clock_us() < deadline_us) {
        struct control_event event;
        struct epoll_event woken;
        int rc = control->ops->receive(control, &event, err);
        if (rc == HVD_IN_PROGRESS) {
            control->ops->arm(control, true);
            rc = control->ops->receive(control, &event, err);
            if (rc == HVD_IN_PROGRESS)
                epoll_wait(epoll_fd, &woken, 1, clock_ms_until(deadline_us));
            control->ops->arm(control, false);
        }
        if (rc == HVD_IN_PROGRESS)
            continue;
        if (rc != HVD_OK)
            return rc;
        if (event.kind == CONTROL_ABORT)
            return error_set(err, event.status, "%s", event.sentence);
        if (event.link == link)
            return HVD_OK;
        return error_set(err, HVD_ERR_INVALID, "a message of link %d, not %d", event.link, link);
    }
    return error_set(err, HVD_ERR_TIMEOUT, "no message of link %d", link);
}

/* A token goes through the whole tree: from the parent, to and from each child in turn, and back. */
static int pass_token(struct control *control, int epoll_fd, struct hvd_error *err)
{
    int rc = control->ops->watch(control, epoll_fd, err);
    if (rc == HVD_OK && control->parent >= 0)
        rc = await_message(control, epoll_fd, TREE_PARENT, err);
    for (int link = 1; rc == HVD_OK && link <= control->child_count; link++) {
        rc = control->ops->send(control, link, "go", 2, err);
        if (rc == HVD_OK)
            rc = await_message(control, epoll_fd, link, err);
    }
    if (rc == HVD_OK && control->parent >= 0)
        rc = control->ops->send(control, TREE_PARENT, "done", 4, err);
    return rc;
}

/* Leave when what was sent has left. */
static void leave(struct control *control)
{
    int64_t deadline_us = clock_us() + 10 * SECOND;
    struct control_event event;
    control->ops->farewell(control);
    while (!control->ops->flushed(control) && clock_us() < deadline_us)
        control->ops->receive(control, &event, NULL);
}

/* Join, visit every rank once along the tree, leave. */
static void join_and_leave(int rank, struct job_result *result)
{
    struct hvd_config config;
    struct bootstrap joined;
    struct hvd_error err = {""};
    const struct hvd_start start = {.set_count = 0};
    const struct hvd_log log = {LOG_ERROR, log_to_stderr, NULL};
    int fds_before = open_descriptors();
    int64_t begun_us = clock_us();
    result->rc = config_load(&config, environ, NULL, &err);
    if (rank == unreadable_rank)
        snprintf(config.origin[option_index(OPTION_OF(timeline))].text, OPTION_VALUE_BYTES, "a\nb");
    if (result->rc == HVD_OK)
        result->rc = bootstrap_open(&joined, &config, &log, &start, &err);
    result->took_us = clock_us() - begun_us;
    if (result->rc == HVD_OK) {
        int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        result->node_count = joined.shape.node_count;
        result->local_size = joined.shape.local_size;
        result->node = joined.shape.node;
        result->window_count = joined.windows.count;
        result->own_window = joined.windows.own;
        char *base = joined.windows.base;
        result->rc = pass_token(joined.control, epoll_fd, &err);
        if (result->rc == HVD_OK)
            leave(joined.control);
        bootstrap_close(&joined);
        result->windows_left = base != NULL && is_mapped(base);
        close(epoll_fd);
    }
    memcpy(result->text, err.text, sizeof(err.text));
    result->fds_left = open_descriptors() - fds_before;
}

static void expect_all(const struct job *job, int rc, const char *text)
{
    for (int rank = 0; rank < job->size; rank++) {
        const struct job_result *result = &job->results[rank];
        ck_assert_msg(result->rc == rc, "rank %d: status %d: %s", rank, result->rc, result->text);
        ck_assert_msg(strstr(result->text, text) != NULL, "rank %d: %s", rank, result->text);
        ck_assert_int_eq(result->fds_left, 0);
        ck_assert_int_eq(result->wait_status, 0);
    }
}

/* The start fails. Rank 0 says why, and the others say that it does. */
static void expect_refused(const struct job *job, int rc, const char *text)
{
    expect_all(job, rc, "");
    ck_assert_msg(strstr(job->results[0].text, text) != NULL, "%s", job->results[0].text);
    for (int rank = 1; rank < job->size; rank++) {
        const char *told = job->results[rank].text;
        ck_assert_msg(strstr(told, "the job cannot start: rank 0 (") == told && strstr(told, ") says why"),
                      "rank %d: %s", rank, told);
    }
}

/* One for each rank of the node; who is alone there has none. */
static void expect_windows(const struct job_result *result)
{
    ck_assert_int_eq(result->window_count, result->local_size == 1 ? 0 : result->local_size);
    ck_assert(!result->windows_left);
}

START_TEST(ranks_of_one_node_share_memory)
{
    struct job job = {.size = 1 + _i, .node_count = 1, .rank = join_and_leave};
    job_run(&job);
    expect_all(&job, HVD_OK, "");
    for (int rank = 0; rank < job.size; rank++) {
        ck_assert_int_eq(job.results[rank].node_count, 1);
        ck_assert_int_eq(job.results[rank].local_size, job.size);
        ck_assert_int_eq(job.results[rank].own_window, rank);
        expect_windows(&job.results[rank]);
    }
}
END_TEST

static void differ_on_rank_2(int rank, struct job_result *result)
{
    setenv("HVD_FUSION", rank == 2 ? "32M" : "16M", 1);
    join_and_leave(rank, result);
}

START_TEST(different_options_end_every_rank)
{
    struct job job = {.size = 4, .node_count = 1, .rank = differ_on_rank_2};
    job_run(&job);
    expect_refused(&job, HVD_ERR_MISMATCH, "option fusion: rank 2 (");
}
END_TEST

START_TEST(a_rank_that_cannot_be_read_ends_the_start_on_all)
{
    char text[80];
    struct job job = {.size = 4, .node_count = 1 + _i / 4, .rank = join_and_leave};
    unreadable_rank = _i % 4;
    bool leads = unreadable_rank % (4 / job.node_count) == 0; /* it sees itself that its options differ */
    snprintf(text, sizeof(text), " cannot read what rank %d has published about itself, which is cut short",
             unreadable_rank);
    job_run(&job);
    expect_all(&job, leads ? HVD_ERR_MISMATCH : HVD_ERR_INVALID, "rank ");
    ck_assert_msg(strstr(job.results[0].text, leads ? "option timeline: rank " : text) != NULL, "%s",
                  job.results[0].text);
    for (int rank = 0; rank < job.size; rank++)
        ck_assert_int_le(job.results[rank].took_us, 10 * SECOND);
}
END_TEST

static void want_too_much(int rank, struct job_result *result)
{
    setenv("HVD_FUSION", "16G", 1);
    join_and_leave(rank, result);
}

START_TEST(more_ranks_than_memory_is_refused)
{
    struct memory_budget budget;
    memory_budget_read(&budget);
    int64_t bytes = budget.cgroup_bytes < budget.node_bytes ? budget.cgroup_bytes : budget.node_bytes;
    int64_t fit = bytes / (INT64_C(16) << 30);
    if (fit >= JOB_MAX_RANKS) {
        fprintf(stderr, "# not tried: this machine has memory for %d ranks with fusion=16G\n", JOB_MAX_RANKS);
        return;
    }
    struct job job = {.size = (int)fit + 1 < 2 ? 2 : (int)fit + 1, .node_count = 1, .rank = want_too_much};
    job_run(&job);
    expect_refused(&job, HVD_ERR_NO_MEMORY, "fusion=16G for ");
    expect_refused(&job, HVD_ERR_NO_MEMORY, "; lower --hvd-fusion");
}
END_TEST

static void never_come(int rank, struct job_result *result)
{
    setenv("HVD_START_TIMEOUT", "1s", 1);
    if (rank == 1)
        *result = (struct job_result){.rc = HVD_ERR_TIMEOUT};
    else
        join_and_leave(rank, result);
}

START_TEST(a_missing_rank_ends_the_start_in_time)
{
    struct job job = {.size = 3, .node_count = 1, .rank = never_come};
    job_run(&job);
    expect_all(&job, HVD_ERR_TIMEOUT, "");
    ck_assert_ptr_nonnull(strstr(job.results[0].text, "rank"));
    for (int rank = 0; rank < job.size; rank++)
        ck_assert_int_le(job.results[rank].took_us, 4 * SECOND);
}
END_TEST

static void die_early(int rank, struct job_result *result)
{
    if (rank == 1)
        _exit(1);
    setenv("HVD_START_TIMEOUT", "2s", 1);
    join_and_leave(rank, result);
}

START_TEST(a_rank_that_exits_before_does_not_hang_others)
{
    struct job job = {.size = 2, .node_count = 1, .rank = die_early};
    job_run(&job);
    ck_assert_int_lt(job.results[0].rc, HVD_OK);
    ck_assert_int_ne(job.results[0].text[0], 0);
    ck_assert_int_le(job.results[0].took_us, 5 * SECOND);
    ck_assert_int_eq(job.results[0].fds_left, 0);
}
END_TEST

START_TEST(ranks_of_several_nodes_connect)
{
    static const struct {
        int size, node_count;
    } jobs[] = {{2, 2}, {6, 3}, {7, 3}, {10, 10}};
    struct job job = {.size = jobs[_i].size, .node_count = jobs[_i].node_count, .rank = join_and_leave};
    job_run(&job);
    expect_all(&job, HVD_OK, "");
    for (int rank = 0; rank < job.size; rank++) {
        ck_assert_int_eq(job.results[rank].node_count, job.node_count);
        ck_assert_int_eq(job.results[rank].node, rank * job.node_count / job.size);
        expect_windows(&job.results[rank]);
    }
}
END_TEST

static bool can_make_nodes(void)
{
    pid_t pid = fork();
    int status = 1;
    if (pid == 0)
        _exit(job_enter_node() ? 0 : 1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("join");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, ranks_of_one_node_share_memory, 0, 5);
    tcase_add_test(tcase, different_options_end_every_rank);
    tcase_add_loop_test(tcase, a_rank_that_cannot_be_read_ends_the_start_on_all, 0, 8);
    tcase_add_test(tcase, more_ranks_than_memory_is_refused);
    tcase_add_test(tcase, a_missing_rank_ends_the_start_in_time);
    tcase_add_test(tcase, a_rank_that_exits_before_does_not_hang_others);
    if (can_make_nodes())
        tcase_add_loop_test(tcase, ranks_of_several_nodes_connect, 0, 4);
    else
        fprintf(stderr, "# several nodes are not tried: this user may not make process namespaces\n");
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("join", fill);
}
