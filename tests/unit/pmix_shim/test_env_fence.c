/* test_env_fence.c: both ends of the environment's fence where this process has no descriptor left. */
#include "config.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "pmix_shim/env_fence.h"

static struct env_job job = {.size = 2, .master_host = "127.0.0.1", .master_port = "1"};

/* Returns the limit, all of which is used. */
static int use_up_descriptors(void)
{
    struct rlimit limit;
    int lowest = dup(0);
    close(lowest);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)lowest;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return lowest;
}

/* A leak checker needs some at the end. */
static void give_back_descriptors(void)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void expect_sentence(const struct hvd_error *err, const char *what, int limit)
{
    char sentence[200];
    snprintf(sentence, sizeof(sentence), "%s: all %d descriptors that this process may have are open", what,
             limit);
    ck_assert_msg(strstr(err->text, sentence) != NULL, "%s", err->text);
    ck_assert_msg(strstr(err->text, "ulimit -n") != NULL, "%s", err->text);
}

START_TEST(rank_0_cannot_listen)
{
    struct hvd_error err = {""};
    struct fence_server *fence_server = NULL;
    int limit = use_up_descriptors();
    ck_assert_int_eq(fence_server_open(&fence_server, &job, &err), HVD_ERR_NO_MEMORY);
    expect_sentence(&err, "rank 0 cannot listen for the other ranks", limit);
    give_back_descriptors();
}
END_TEST

/* At once, though its time is not over. */
START_TEST(another_rank_cannot_connect)
{
    struct hvd_error err = {""};
    struct fence_client *fence_client = NULL;
    struct store *store = store_create(2);
    int64_t deadline_us = clock_us() + 60000000;
    job.rank = 1;
    ck_assert_int_eq(fence_client_open(&fence_client, &job, deadline_us, &err), HVD_OK);
    int limit = use_up_descriptors();
    ck_assert_int_eq(fence_client_fence(fence_client, store, deadline_us, &err), HVD_ERR_NO_MEMORY);
    ck_assert_int_gt(deadline_us - clock_us(), 40000000);
    expect_sentence(&err, "cannot connect to rank 0", limit);
    give_back_descriptors();
    fence_client_close(fence_client);
    store_destroy(store);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("descriptors");
    tcase_add_test(tcase, rank_0_cannot_listen);
    tcase_add_test(tcase, another_rank_cannot_connect);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("env_fence", fill);
}
