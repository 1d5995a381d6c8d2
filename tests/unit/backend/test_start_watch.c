/* test_start_watch.c: who is named while the start of MPI waits. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/mpi/start_watch.h"
#include "base/process_signal.h"
#include "net/peer_table.h"

#define RANKS     3
#define RANKS_MAX 7

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t logged = PTHREAD_COND_INITIALIZER;
static char line[2000];

static void keep_line(void *arg, enum log_level level, const char *component, const char *text)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    snprintf(line, sizeof(line), "%d %s: %s", (int)level, component, text);
    pthread_cond_signal(&logged);
    pthread_mutex_unlock(&lock);
}

static void await_line(void)
{
    struct timespec limit;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 10;
    pthread_mutex_lock(&lock);
    while (line[0] == 0 && rc == 0)
        rc = pthread_cond_timedwait(&logged, &lock, &limit);
    pthread_mutex_unlock(&lock);
    ck_assert_int_eq(rc, 0);
}

static const struct hvd_log log_kept = {LOG_DEBUG, keep_line, NULL};
static struct peer peers[RANKS_MAX];
static int node_of_rank[RANKS];

/* This process is rank 0 of a node; the others run until they are stopped. */
static struct peer_table start_ranks(void)
{
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(peers[rank].host, sizeof(peers[rank].host), "n1");
        peers[rank].pid = rank == 0 ? getpid() : fork();
        ck_assert_int_ge(peers[rank].pid, 0);
        if (peers[rank].pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
    return (struct peer_table){.rank = 0, .size = RANKS, .peers = peers, .node_of_rank = node_of_rank};
}

static void end_ranks(void)
{
    for (int rank = 1; rank < RANKS; rank++) {
        process_signal(peers[rank].pid, SIGKILL);
        waitpid(peers[rank].pid, NULL, 0);
    }
}

/* What is said once the start has waited for a second. */
static void expect_words(const struct peer_table *peer_table, const char *words)
{
    const struct hvd_config config = {.stall_warn_us = 1000000};
    const struct backend_env env = {.config = &config, .log = &log_kept, .peer_table = peer_table};
    char expected[1000];
    struct start_watch *start_watch = start_watch_begin(&env);
    ck_assert_ptr_nonnull(start_watch);
    await_line();
    start_watch_end(start_watch);
    snprintf(expected, sizeof(expected),
             "2 stall: the start of MPI has waited 1s for a rank that does not come to it: %s", words);
    ck_assert_str_eq(line, expected);
}

START_TEST(a_rank_that_is_stopped_is_named)
{
    struct peer_table peer_table = start_ranks();
    int status = 0;
    ck_assert_int_eq(process_signal(peers[2].pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(peers[2].pid, &status, WUNTRACED), peers[2].pid);
    expect_words(&peer_table, "rank 2 (n1) is stopped");
    end_ranks();
}
END_TEST

START_TEST(all_run_on_one_node)
{
    struct peer_table peer_table = start_ranks();
    expect_words(&peer_table, "no rank of this node is stopped");
    end_ranks();
}
END_TEST

/* Nobody is there to see whether a rank is stopped that is alone on its node. */
START_TEST(a_rank_that_is_alone_is_named)
{
    static const int ranks_of_nodes[][7] = {{0, 1, 1}, {0, 0, 2}, {0, 1, 2, 3, 4, 5, 6}};
    static const int sizes[] = {3, 3, 7};
    static const char *const words[] = {
        "", "; rank 2 (n1) may be, alone on its node",
        "; rank 1 (n1) may be, alone on its node; rank 2 (n1) may be, alone on its node; "
        "rank 3 (n1) may be, alone on its node; rank 4 (n1) may be, alone on its node; "
        "and 2 more"};
    char expected[1000];
    for (int rank = 0; rank < sizes[_i]; rank++) {
        snprintf(peers[rank].host, sizeof(peers[rank].host), "n1");
        peers[rank].pid = getpid();
    }
    const struct peer_table peer_table = {
        .rank = 0, .size = sizes[_i], .peers = peers, .node_of_rank = (int *)ranks_of_nodes[_i]};
    snprintf(expected, sizeof(expected), "no rank of this node is stopped%s", words[_i]);
    expect_words(&peer_table, expected);
}
END_TEST

START_TEST(without_limits_nothing_is_watched)
{
    const struct hvd_config config = {.stall_warn_us = 0};
    const struct backend_env env = {.config = &config, .log = &log_kept};
    ck_assert_ptr_null(start_watch_begin(&env));
    start_watch_end(NULL);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("start_watch");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, a_rank_that_is_stopped_is_named);
    tcase_add_test(tcase, all_run_on_one_node);
    tcase_add_loop_test(tcase, a_rank_that_is_alone_is_named, 0, 3);
    tcase_add_test(tcase, without_limits_nothing_is_watched);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("start_watch", fill);
}
