/* test_mailbox.c: control by in-memory mailboxes. */
#include "net/frame.h"
#include "unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/mailbox.h"

static struct mailbox_world *world;

/* [size] ranks on one node. */
static void open_world(int size)
{
    int *table = calloc((size_t)size, sizeof(int));
    struct hvd_error err = {""};
    ck_assert_ptr_nonnull(table);
    ck_assert_msg(mailbox_world_open(&world, table, size, &err) == HVD_OK, "%s", err.text);
    free(table);
}

static void send_to(int from, int link, const char *text)
{
    struct control *control = mailbox_world_rank(world, from);
    ck_assert_int_eq(control->ops->send(control, link, text, strlen(text), NULL), HVD_OK);
    ck_assert(control->ops->flushed(control));
}

static int receive(int rank, struct control_event *event)
{
    struct control *control = mailbox_world_rank(world, rank);
    return control->ops->receive(control, event, NULL);
}

static void expect_message(int rank, int link, const char *text)
{
    struct control_event event;
    ck_assert_int_eq(receive(rank, &event), HVD_OK);
    ck_assert_int_eq(event.kind, CONTROL_MESSAGE);
    ck_assert_int_eq(event.link, link);
    ck_assert_uint_eq(event.length, strlen(text));
    if (event.length > 0)
        ck_assert_mem_eq(event.bytes, text, event.length);
}

static void expect_nothing(int rank)
{
    struct control_event event;
    ck_assert_int_eq(receive(rank, &event), HVD_IN_PROGRESS);
}

static void expect_abort(int rank, int status, int about, const char *sentence)
{
    struct control_event event;
    ck_assert_int_eq(receive(rank, &event), HVD_OK);
    ck_assert_int_eq(event.kind, CONTROL_ABORT);
    ck_assert_int_eq(event.status, status);
    ck_assert_int_eq(event.rank, about);
    ck_assert_str_eq(event.sentence, sentence);
}

static void close_rank(int rank)
{
    struct control *control = mailbox_world_rank(world, rank);
    control->ops->close(control);
}

static void farewell(int rank)
{
    struct control *control = mailbox_world_rank(world, rank);
    control->ops->farewell(control);
}

START_TEST(messages_arrive_in_order_and_are_counted)
{
    open_world(3);
    send_to(0, 2, "down");
    send_to(1, TREE_PARENT, "one");
    send_to(2, TREE_PARENT, "");
    send_to(1, TREE_PARENT, "three");
    expect_message(0, 1, "one");
    expect_message(0, 2, "");
    expect_message(0, 1, "three");
    expect_nothing(0);
    expect_nothing(1);
    expect_message(2, TREE_PARENT, "down");
    struct mailbox_counts counts = mailbox_world_counts(world, 0);
    ck_assert_uint_eq(counts.received, 3);
    ck_assert_uint_eq(counts.received_bytes, 8);
    ck_assert_uint_eq(counts.sent, 1);
    ck_assert_uint_eq(counts.sent_bytes, 4);
    counts = mailbox_world_counts(world, 1);
    ck_assert_uint_eq(counts.received, 0);
    ck_assert_uint_eq(counts.sent, 2);
    mailbox_world_close(world);
}
END_TEST

START_TEST(what_has_no_receiver_is_refused)
{
    struct hvd_error err = {""};
    open_world(2);
    struct control *root = mailbox_world_rank(world, 0);
    ck_assert_int_eq(root->ops->send(root, TREE_PARENT, "x", 1, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(root->ops->send(root, 2, "x", 1, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(root->ops->send(root, -1, "x", 1, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(root->ops->send(root, 1, "x", FRAME_MESSAGE_BYTES + 1, &err), HVD_ERR_INVALID);
    expect_nothing(1);
    mailbox_world_close(world);
}
END_TEST

START_TEST(the_first_abort_reaches_each_rank_once)
{
    open_world(40);
    struct control *control = mailbox_world_rank(world, 7);
    send_to(0, 1, "before");
    control->ops->abort(control, HVD_ERR_MISMATCH, 3, "they differ");
    control->ops->abort(control, HVD_ERR_SYSTEM, 4, "too late");
    for (int rank = 0; rank < 40; rank++)
        expect_abort(rank, HVD_ERR_MISMATCH, 3, "they differ");
    expect_message(1, TREE_PARENT, "before");
    for (int rank = 0; rank < 40; rank++)
        expect_nothing(rank);
    mailbox_world_close(world);
}
END_TEST

START_TEST(leaving_is_a_loss_without_farewell)
{
    open_world(4);
    farewell(3);
    close_rank(3);
    send_to(0, 3, "to nobody");
    expect_nothing(0);
    close_rank(1);
    expect_abort(0, HVD_ERR_RANK_LOST, 1, "rank 1 left without a farewell");
    expect_abort(2, HVD_ERR_RANK_LOST, 1, "rank 1 left without a farewell");
    mailbox_world_close(world);
}
END_TEST

START_TEST(the_last_to_close_ends_the_world)
{
    open_world(1); /* as join uses it; the leak checker watches */
    expect_nothing(0);
    close_rank(0);
}
END_TEST

START_TEST(bad_tables_are_refused)
{
    static const int table[] = {0, 2, 2};
    struct mailbox_world *nothing = NULL;
    ck_assert_int_eq(mailbox_world_open(&nothing, table, 3, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(mailbox_world_open(&nothing, table, 0, NULL), HVD_ERR_INVALID);
    ck_assert_ptr_null(nothing);
    mailbox_world_close(NULL);
}
END_TEST

/* Up to the root and down again, as a round of negotiation goes. */
START_TEST(a_large_tree_carries_a_round)
{
    enum { SIZE = 2000 };
    static int table[SIZE];
    for (int rank = 0; rank < SIZE; rank++)
        table[rank] = rank - rank % 8;
    ck_assert_int_eq(mailbox_world_open(&world, table, SIZE, NULL), HVD_OK);
    for (int rank = SIZE - 1; rank > 0; rank--) { /* children have higher numbers than their parent */
        struct control_event event;
        for (int i = 0; i < mailbox_world_rank(world, rank)->child_count; i++)
            ck_assert_int_eq(receive(rank, &event), HVD_OK);
        send_to(rank, TREE_PARENT, "up");
    }
    for (int rank = 0; rank < SIZE; rank++) {
        struct control *control = mailbox_world_rank(world, rank);
        struct control_event event;
        int awaited = rank == 0 ? control->child_count : 1;
        for (int i = 0; i < awaited; i++)
            ck_assert_int_eq(receive(rank, &event), HVD_OK);
        for (int link = 1; link <= control->child_count; link++)
            send_to(rank, link, "down");
        expect_nothing(rank);
        struct mailbox_counts counts = mailbox_world_counts(world, rank);
        ck_assert_uint_eq(counts.received, (uint64_t)control->child_count + (rank > 0));
        ck_assert_uint_eq(counts.sent, counts.received);
    }
    mailbox_world_close(world);
}
END_TEST

static void *kick_it(void *arg)
{
    struct control *control = arg;
    control->ops->kick(control);
    return NULL;
}

static void kick_from_thread(struct control *control)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, kick_it, control), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

START_TEST(kicks_and_arrivals_wake_only_the_armed)
{
    struct epoll_event woken;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    open_world(2);
    struct control *control = mailbox_world_rank(world, 0);
    kick_it(control); /* not watched: nothing to wake */
    ck_assert_int_eq(control->ops->watch(control, epoll_fd, NULL), HVD_OK);
    kick_from_thread(control);
    ck_assert_int_eq(epoll_wait(epoll_fd, &woken, 1, 0), 0);
    control->ops->arm(control, true);
    for (int i = 0; i < 3; i++) {
        kick_from_thread(control);
        ck_assert_int_eq(epoll_wait(epoll_fd, &woken, 1, 5000), 1);
        ck_assert_int_eq(epoll_wait(epoll_fd, &woken, 1, 0), 0);
    }
    send_to(1, TREE_PARENT, "arrives");
    ck_assert_int_eq(epoll_wait(epoll_fd, &woken, 1, 5000), 1);
    control->ops->arm(control, false);
    kick_from_thread(control);
    ck_assert_int_eq(epoll_wait(epoll_fd, &woken, 1, 0), 0);
    mailbox_world_close(world);
    close(epoll_fd);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("mailbox");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, messages_arrive_in_order_and_are_counted);
    tcase_add_test(tcase, what_has_no_receiver_is_refused);
    tcase_add_test(tcase, the_first_abort_reaches_each_rank_once);
    tcase_add_test(tcase, leaving_is_a_loss_without_farewell);
    tcase_add_test(tcase, the_last_to_close_ends_the_world);
    tcase_add_test(tcase, bad_tables_are_refused);
    tcase_add_test(tcase, a_large_tree_carries_a_round);
    tcase_add_test(tcase, kicks_and_arrivals_wake_only_the_armed);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("mailbox", fill);
}
