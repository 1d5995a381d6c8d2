/* test_channel.c: messages come out in the order of each poster, each once. */
#include "tests/unit/unit.h"

#include <poll.h>
#include <pthread.h>

#include "pmix_shim/channel.h"

#define POSTERS  4
#define MESSAGES 1000

struct poster {
    struct channel *channel;
    int rank;
};

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < MESSAGES; i++) {
        struct channel_message message = {.kind = CHANNEL_ABORT, .rank = poster->rank, .status = i};
        if (channel_post(poster->channel, &message) < 0)
            return poster;
    }
    return NULL;
}

START_TEST(every_message_arrives_in_order)
{
    struct channel *channel = NULL;
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    int next[POSTERS] = {0};
    struct hvd_error err;
    ck_assert_int_eq(channel_create(&channel, &err), HVD_OK);
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){channel, i};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    for (int taken = 0; taken < POSTERS * MESSAGES; taken++) {
        struct channel_message message;
        struct pollfd ready = {.fd = channel_fd(channel), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, 10000), 1);
        ck_assert(channel_take(channel, &message));
        ck_assert_int_eq(message.status, next[message.rank]++);
    }
    struct channel_message message;
    ck_assert(!channel_take(channel, &message));
    for (int i = 0; i < POSTERS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    channel_destroy(channel);
}
END_TEST

START_TEST(what_was_not_taken_is_freed)
{
    struct channel *channel = NULL;
    struct hvd_error err;
    struct channel_message message = {.kind = CHANNEL_CONNECTED};
    ck_assert_int_eq(channel_create(&channel, &err), HVD_OK);
    ck_assert_int_eq(channel_post(channel, &message), 0);
    channel_destroy(channel);
    channel_destroy(NULL);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("channel");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, every_message_arrives_in_order);
    tcase_add_test(tcase, what_was_not_taken_is_freed);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("channel", fill);
}
