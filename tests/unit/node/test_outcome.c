/* test_outcome.c: what the members of a node report to their leader, and what it tells them. */
#include "sleeping_thread.h"

#include <pthread.h>
#include <sys/mman.h>

#include "node/attach.h"
#include "node/outcome.h"

#define RANKS  3
#define SECOND INT64_C(1000000)

static int ranks[RANKS] = {4, 5, 7};
static int members[] = {5, 7};
static struct node nodes[RANKS]; /* each rank's view of one memory */

static void open_node(void)
{
    struct node_memory *memory = NULL;
    int fd = -1;
    ck_assert_int_eq(node_memory_create(RANKS, 0, &memory, &fd, NULL), HVD_OK);
    close(fd);
    for (int i = 0; i < RANKS; i++)
        nodes[i] = (struct node){.rank = ranks[i], .member_count = RANKS, .members = ranks, .memory = memory};
    nodes[0].attached_count = 2;
    nodes[0].attached = members;
}

static void close_node(void)
{
    munmap(nodes[0].memory, node_memory_bytes(RANKS));
}

/* What the leader finds in a thread of its own. */
struct finding {
    _Atomic int thread;
    int64_t deadline_us;
    int status, rank;
    struct hvd_error err;
};

static void *find(void *arg)
{
    struct finding *finding = arg;
    thread_note(&finding->thread);
    finding->status = node_first_failure(&nodes[0], finding->deadline_us, &finding->rank, &finding->err);
    return NULL;
}

START_TEST(the_leader_waits_for_a_late_report)
{
    struct finding finding = {.deadline_us = clock_us() + 60 * SECOND, .rank = -1};
    pthread_t thread;
    node_report(&nodes[2], HVD_OK, "");
    ck_assert_int_eq(pthread_create(&thread, NULL, find, &finding), 0);
    thread_await_sleep(&finding.thread);
    node_report(&nodes[1], HVD_OK, "");
    pthread_join(thread, NULL);
    ck_assert_msg(finding.status == HVD_OK, "%s", finding.err.text);
}
END_TEST

START_TEST(a_member_that_reports_nothing_in_time_is_named)
{
    struct hvd_error err = {""};
    int rank = -1;
    node_report(&nodes[1], HVD_OK, "");
    ck_assert_int_eq(node_first_failure(&nodes[0], clock_us() + SECOND / 50, &rank, &err), HVD_ERR_TIMEOUT);
    ck_assert_int_eq(rank, 7);
    ck_assert_str_eq(err.text, "it reported nothing to the first rank of its node in time");
}
END_TEST

START_TEST(the_lowest_that_cannot_go_on_is_named)
{
    struct hvd_error err = {""};
    int rank = -1;
    node_report(&nodes[2], HVD_ERR_NO_MEMORY, "memory ran out");
    node_report(&nodes[1], HVD_ERR_MISMATCH, "it has other options");
    ck_assert_int_eq(node_first_failure(&nodes[0], clock_us(), &rank, &err), HVD_ERR_MISMATCH);
    ck_assert_int_eq(rank, 5);
    ck_assert_str_eq(err.text, "it has other options");
}
END_TEST

START_TEST(members_hear_of_each_step)
{
    struct hvd_error err = {""};
    int value = 0;
    node_conclude(&nodes[0], HVD_OK, 6, "");
    ck_assert_int_eq(node_await_outcome(&nodes[1], 1, clock_us() + 60 * SECOND, &value, &err), HVD_OK);
    ck_assert_int_eq(value, 6);
    ck_assert_int_eq(node_await_outcome(&nodes[1], 2, clock_us() + SECOND / 50, &value, &err),
                     HVD_ERR_TIMEOUT);
    node_conclude(&nodes[0], HVD_ERR_TIMEOUT, 0, "a node did not come");
    ck_assert_int_eq(node_await_outcome(&nodes[2], 2, clock_us(), &value, &err), HVD_ERR_TIMEOUT);
    ck_assert_str_eq(err.text, "a node did not come");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("outcome");
    tcase_add_checked_fixture(tcase, open_node, close_node);
    tcase_add_test(tcase, the_leader_waits_for_a_late_report);
    tcase_add_test(tcase, a_member_that_reports_nothing_in_time_is_named);
    tcase_add_test(tcase, the_lowest_that_cannot_go_on_is_named);
    tcase_add_test(tcase, members_hear_of_each_step);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("outcome", fill);
}
