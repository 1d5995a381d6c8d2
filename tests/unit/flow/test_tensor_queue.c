/* test_tensor_queue.c: handing requests in from many threads, and asking for them. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "flow/tensor_queue.h"

static struct tensor_queue *queue;

static void begin(void)
{
    ck_assert_int_eq(tensor_queue_create(&queue, 0, NULL), HVD_OK);
}

static void end(void)
{
    tensor_queue_destroy(queue);
}

/* A request of [count] tensors whose names are given, as loop would hand it in. */
static struct request *request_of(hvd_set set, int count, const char *const *names)
{
    struct desc *desc = desc_create(count);
    desc->kind = DESC_ALLREDUCE;
    desc->set = set;
    desc->grouped = count > 1;
    for (int i = 0; i < count; i++)
        snprintf(desc->tensors[i].name, sizeof(desc->tensors[i].name), "%s", names[i]);
    struct request *request = request_create(desc);
    desc_release(desc);
    return request;
}

static int submit_group(hvd_set set, int count, const char *const *names, hvd_handle *handlep,
                        struct hvd_error *err)
{
    bool first = false;
    struct request *request = request_of(set, count, names);
    int rc = tensor_queue_submit(queue, request, handlep, &first, err);
    if (rc != HVD_OK)
        request_free(request);
    return rc;
}

static int submit(const char *name, hvd_handle *handlep, bool *firstp, struct hvd_error *err)
{
    bool first = false;
    struct request *request = request_of(0, 1, &name);
    int rc = tensor_queue_submit(queue, request, handlep, &first, err);
    if (rc != HVD_OK)
        request_free(request);
    if (firstp != NULL)
        *firstp = first;
    return rc;
}

static const char *name_of(const struct request *request)
{
    return request->desc->tensors[0].name;
}

static void conclude(struct request *request, int status, const char *sentence)
{
    tensor_queue_withdraw(request);
    tensor_queue_finish(queue, request, status, sentence);
}

START_TEST(requests_come_out_in_order_and_only_the_first_wakes)
{
    bool first = false;
    ck_assert_ptr_null(tensor_queue_take(queue));
    ck_assert_int_eq(submit("a", NULL, &first, NULL), HVD_OK);
    ck_assert(first);
    ck_assert(tensor_queue_has_submissions(queue));
    ck_assert_int_eq(submit("b", NULL, &first, NULL), HVD_OK);
    ck_assert(!first);
    struct request *list = tensor_queue_take(queue);
    ck_assert(!tensor_queue_has_submissions(queue));
    ck_assert_str_eq(name_of(list), "a");
    ck_assert_str_eq(name_of(list->next), "b");
    ck_assert_ptr_null(list->next->next);
    ck_assert_ptr_null(tensor_queue_take(queue));
    ck_assert_int_eq(list->tensor_count, 1);
    ck_assert_ptr_eq(list->tensors[0].request, list);
    ck_assert_int_eq(submit("c", NULL, &first, NULL), HVD_OK);
    ck_assert(first);
}
END_TEST

START_TEST(a_name_in_flight_is_refused_and_nothing_changes)
{
    hvd_handle handle = 77;
    struct hvd_error err = {""};
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("a", &handle, NULL, &err), HVD_ERR_DUPLICATE);
    ck_assert_uint_eq(handle, 77);
    ck_assert_ptr_nonnull(strstr(err.text, "allreduce \"a\""));
    struct request *list = tensor_queue_take(queue);
    ck_assert_ptr_null(list->next);
    conclude(list, HVD_OK, NULL);
    ck_assert_int_eq(submit("a", &handle, NULL, &err), HVD_OK);
}
END_TEST

START_TEST(a_handle_lives_until_released)
{
    hvd_handle handle = 0;
    hvd_handle second = 0;
    struct hvd_error err = {""};
    ck_assert_int_eq(tensor_queue_test(queue, 0, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(tensor_queue_test(queue, 12345, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(submit("a", &handle, NULL, NULL), HVD_OK);
    ck_assert_uint_ne(handle, 0);
    struct request *request = tensor_queue_take(queue);
    ck_assert_int_eq(tensor_queue_test(queue, handle, NULL), HVD_IN_PROGRESS);
    tensor_queue_test_and_release(queue, handle, NULL);
    ck_assert_int_eq(tensor_queue_test(queue, handle, NULL), HVD_IN_PROGRESS);
    uint64_t finished = tensor_queue_finished_count(queue);
    conclude(request, HVD_ERR_MISMATCH, "why");
    ck_assert_uint_ne(tensor_queue_finished_count(queue), finished);
    ck_assert_int_eq(tensor_queue_test(queue, handle, &err), HVD_ERR_MISMATCH);
    ck_assert_str_eq(err.text, "why");
    tensor_queue_test_and_release(queue, handle, NULL);
    ck_assert_int_eq(tensor_queue_test(queue, handle, &err), HVD_ERR_INVALID);
    /* the slot is used again, the old handle stays dead */
    ck_assert_int_eq(submit("b", &second, NULL, NULL), HVD_OK);
    ck_assert_uint_ne(second, handle);
    ck_assert_int_eq(tensor_queue_test(queue, handle, &err), HVD_ERR_INVALID);
}
END_TEST

START_TEST(undecided_requests_are_withdrawn_decided_ones_stay)
{
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_OK);
    struct request *decided = tensor_queue_take(queue);
    struct request *taken = decided->next;
    ck_assert_int_eq(submit("c", NULL, NULL, NULL), HVD_OK);
    decided->decided = true;
    struct request *list = tensor_queue_withdraw_undecided(queue, TENSOR_QUEUE_ALL_SETS);
    int count = 0;
    for (struct request *next = NULL; list != NULL; list = next, count++) {
        next = list->next;
        ck_assert(list == taken || strcmp(name_of(list), "c") == 0);
        tensor_queue_finish(queue, list, HVD_ERR_SHUTDOWN, "over");
    }
    ck_assert_int_eq(count, 2);
    ck_assert(!tensor_queue_has_submissions(queue));
    ck_assert_ptr_null(tensor_queue_take(queue));
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_ERR_DUPLICATE);
}
END_TEST

static const char *const abc[] = {"a", "b", "c"};

START_TEST(a_group_takes_all_of_its_names)
{
    struct hvd_error err = {""};
    ck_assert_int_eq(submit_group(0, 3, abc, NULL, NULL), HVD_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(submit(abc[i], NULL, NULL, &err), HVD_ERR_DUPLICATE);
    struct request *request = tensor_queue_take(queue);
    ck_assert_int_eq(request->tensor_count, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(request->tensors[i].index, i);
    conclude(request, HVD_OK, NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(submit(abc[i], NULL, NULL, NULL), HVD_OK);
}
END_TEST

START_TEST(a_group_with_a_name_in_flight_takes_none)
{
    struct hvd_error err = {""};
    hvd_handle handle = 5;
    ck_assert_int_eq(submit("c", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(0, 3, abc, &handle, &err), HVD_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(err.text, "grouped allreduce \"a\" and 2 more"));
    ck_assert_ptr_nonnull(strstr(err.text, "named \"c\""));
    ck_assert_uint_eq(handle, 5);
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_OK);
    struct request *list = tensor_queue_take(queue);
    ck_assert_str_eq(name_of(list), "c");
    ck_assert_str_eq(name_of(list->next), "a");
    ck_assert_str_eq(name_of(list->next->next), "b");
    ck_assert_ptr_null(list->next->next->next);
}
END_TEST

START_TEST(a_name_twice_in_a_group_is_refused)
{
    static const char *const twice[] = {"a", "b", "a"};
    struct hvd_error err = {""};
    ck_assert_int_eq(submit_group(0, 3, twice, NULL, &err), HVD_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(err.text, "tensors 0 and 2 are both named \"a\""));
    ck_assert_ptr_null(tensor_queue_take(queue));
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_OK);
}
END_TEST

START_TEST(sets_have_names_of_their_own)
{
    ck_assert_int_eq(submit_group(1, 1, abc, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(2, 1, abc, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(1, 1, abc, NULL, NULL), HVD_ERR_DUPLICATE);
}
END_TEST

START_TEST(a_barrier_in_flight_is_refused_in_its_own_words)
{
    static const char *const barrier[] = {DESC_BARRIER_NAME};
    struct hvd_error err = {""};
    ck_assert_int_eq(submit_group(0, 1, barrier, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(0, 1, barrier, NULL, &err), HVD_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(err.text, "one is still in flight on this rank"));
    ck_assert_ptr_null(strchr(err.text, 1));
}
END_TEST

START_TEST(one_set_is_withdrawn_and_others_stay_in_order)
{
    static const char *const def[] = {"d", "e", "f"};
    ck_assert_int_eq(submit_group(1, 3, abc, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(1, 3, def, NULL, NULL), HVD_OK);
    struct request *taken = tensor_queue_take(queue);
    struct request *decided = taken->next;
    decided->decided = true;
    ck_assert_int_eq(submit_group(2, 1, abc, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(1, 1, (const char *const[]){"g"}, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(2, 1, def, NULL, NULL), HVD_OK);
    struct request *list = tensor_queue_withdraw_undecided(queue, 1);
    int count = 0;
    for (struct request *next = NULL; list != NULL; list = next, count++) {
        next = list->next;
        ck_assert(list == taken || strcmp(name_of(list), "g") == 0);
        tensor_queue_finish(queue, list, HVD_ERR_SET, "removed");
    }
    ck_assert_int_eq(count, 2);
    ck_assert(tensor_queue_has_submissions(queue));
    ck_assert_int_eq(submit_group(2, 1, (const char *const[]){"z"}, NULL, NULL), HVD_OK);
    list = tensor_queue_take(queue);
    ck_assert_str_eq(name_of(list), "a");
    ck_assert_str_eq(name_of(list->next), "d");
    ck_assert_str_eq(name_of(list->next->next), "z");
    ck_assert_ptr_null(list->next->next->next);
    ck_assert_int_eq(submit_group(1, 3, abc, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit_group(1, 1, def, NULL, NULL), HVD_ERR_DUPLICATE);
}
END_TEST

START_TEST(the_first_failure_of_a_group_stays)
{
    struct request *request = request_of(0, 3, abc);
    ck_assert_int_eq(request->first_error, HVD_OK);
    request_fail(request, HVD_ERR_NO_MEMORY, "first");
    request_fail(request, HVD_ERR_SET, "second");
    ck_assert_int_eq(request->first_error, HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(request->reason, "first");
    request_free(request);
    request_free(NULL);
}
END_TEST

START_TEST(after_refuse_nothing_is_taken_and_the_first_reason_stays)
{
    struct hvd_error err = {""};
    tensor_queue_refuse(queue, HVD_ERR_RANK_LOST, "rank 3 is gone");
    tensor_queue_refuse(queue, HVD_ERR_SHUTDOWN, "later");
    ck_assert_int_eq(submit("a", NULL, NULL, &err), HVD_ERR_RANK_LOST);
    ck_assert_str_eq(err.text, "allreduce \"a\": rank 3 is gone");
    ck_assert_ptr_null(tensor_queue_take(queue));
}
END_TEST

/* ---- Kept for the next time ---- */

static struct request *recall(hvd_set set, const char *name)
{
    return tensor_queue_reuse(queue, set, name);
}

/* Hand in a request that reusable, and be done with it. */
static struct request *run_once(struct request *request, int status)
{
    hvd_handle handle = 0;
    bool first = false;
    request->reusable = true;
    ck_assert_int_eq(tensor_queue_submit(queue, request, &handle, &first, NULL), HVD_OK);
    ck_assert_ptr_null(recall(request->desc->set, name_of(request)));
    ck_assert_ptr_eq(tensor_queue_take(queue), request);
    conclude(request, status, NULL);
    ck_assert_ptr_null(recall(request->desc->set, name_of(request)));
    ck_assert_int_eq(tensor_queue_test_and_release(queue, handle, NULL), status);
    return request;
}

START_TEST(what_is_over_is_recalled_by_its_name_and_set)
{
    struct request *request = run_once(request_of(3, 3, abc), HVD_OK);
    ck_assert_ptr_null(recall(4, "a"));
    ck_assert_ptr_null(recall(3, "b"));
    ck_assert_ptr_eq(recall(3, "a"), request);
    ck_assert_ptr_null(recall(3, "a"));
    ck_assert_ptr_eq(run_once(request, HVD_OK), request);
    ck_assert_ptr_eq(recall(3, "a"), request);
    tensor_queue_discard(queue, request);
    ck_assert_ptr_null(recall(3, "a"));
}
END_TEST

/* Requests of one tensor, kept in this order. */
static void keep_each(struct request **kept, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        kept[i] = run_once(request_of(i % 2, 1, names + i), HVD_OK);
}

START_TEST(what_is_kept_is_recalled_in_any_order)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    static const int orders[][5] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 3, 0, 4, 1}, {3, 4, 2, 0, 1}};
    struct request *kept[5];
    keep_each(kept, names, 5);
    for (size_t order = 0; order < 4; order++) {
        for (int i = 0; i < 5; i++) {
            int at = orders[order][i];
            ck_assert_ptr_null(recall(1 - at % 2, names[at]));
            ck_assert_ptr_eq(recall(at % 2, names[at]), kept[at]);
        }
        for (int i = 0; i < 5; i++)
            run_once(kept[orders[order][i]], HVD_OK);
    }
}
END_TEST

START_TEST(what_would_have_come_next_may_be_gone)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct request *kept[4];
    keep_each(kept, names, 4);
    ck_assert_ptr_eq(recall(0, "a"), kept[0]);
    run_once(request_of(1, 1, names + 1), HVD_OK); /* takes the place of the second */
    ck_assert_ptr_eq(recall(0, "c"), kept[2]);
    tensor_queue_withdraw_undecided(queue, 1);
    ck_assert_ptr_null(recall(1, "d"));
    tensor_queue_discard(queue, kept[0]);
    tensor_queue_discard(queue, kept[2]);
}
END_TEST

START_TEST(no_name_is_as_long_as_this)
{
    char name[HVD_MAX_NAME + 2];
    memset(name, 'x', sizeof(name));
    name[HVD_MAX_NAME + 1] = 0;
    run_once(request_of(0, 1, abc), HVD_OK);
    ck_assert_ptr_null(recall(0, name));
}
END_TEST

static void nothing(enum hvd_status status, void *arg)
{
    (void)status;
    (void)arg;
}

START_TEST(what_ended_by_its_callback_returns_without_it)
{
    bool first = false;
    struct request *request = request_of(0, 1, abc);
    request->reusable = true;
    request->done = nothing;
    request->arg = &first;
    ck_assert_int_eq(tensor_queue_submit(queue, request, NULL, &first, NULL), HVD_OK);
    tensor_queue_take(queue);
    conclude(request, HVD_OK, NULL);
    ck_assert_ptr_eq(recall(0, "a"), request);
    ck_assert(request->done == NULL);
    ck_assert_ptr_null(request->arg);
    ck_assert_int_eq(tensor_queue_submit(queue, request, NULL, &first, NULL), HVD_OK);
}
END_TEST

START_TEST(what_failed_or_does_not_return_is_not_kept)
{
    hvd_handle handle = 0;
    run_once(request_of(0, 1, abc), HVD_ERR_MISMATCH);
    ck_assert_ptr_null(recall(0, "a"));
    ck_assert_int_eq(submit("a", &handle, NULL, NULL), HVD_OK);
    conclude(tensor_queue_take(queue), HVD_OK, NULL);
    ck_assert_int_eq(tensor_queue_test_and_release(queue, handle, NULL), HVD_OK);
    ck_assert_ptr_null(recall(0, "a"));
}
END_TEST

START_TEST(another_of_a_name_takes_the_place_of_what_is_kept)
{
    struct hvd_error err = {""};
    run_once(request_of(0, 3, abc), HVD_OK);
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_OK);
    ck_assert_ptr_null(recall(0, "a"));
    ck_assert_int_eq(submit_group(0, 3, abc, NULL, &err), HVD_ERR_DUPLICATE);
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_OK);
}
END_TEST

START_TEST(another_of_a_name_is_in_the_way_of_what_was_recalled)
{
    struct hvd_error err = {""};
    bool first = false;
    run_once(request_of(0, 3, abc), HVD_OK);
    struct request *request = recall(0, "a");
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(tensor_queue_submit(queue, request, NULL, &first, &err), HVD_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(err.text, "named \"b\""));
    request_free(request);
    ck_assert_int_eq(submit("a", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("c", NULL, NULL, NULL), HVD_OK);
    ck_assert_int_eq(submit("b", NULL, NULL, NULL), HVD_ERR_DUPLICATE);
}
END_TEST

START_TEST(the_least_recently_used_make_room)
{
    static const char *const def[] = {"d", "e", "f"};
    tensor_queue_destroy(queue);
    ck_assert_int_eq(tensor_queue_create(&queue, 4, NULL), HVD_OK);
    struct request *last = run_once(request_of(0, 1, def), HVD_OK);
    run_once(request_of(0, 3, abc), HVD_OK);
    ck_assert_ptr_eq(recall(0, "d"), last);
    run_once(last, HVD_OK);
    struct request *other = run_once(request_of(0, 1, def + 1), HVD_OK);
    ck_assert_ptr_null(recall(0, "a"));
    ck_assert_ptr_eq(recall(0, "d"), last);
    ck_assert_ptr_eq(recall(0, "e"), other);
    tensor_queue_discard(queue, last);
    tensor_queue_discard(queue, other);
}
END_TEST

START_TEST(one_tensor_is_a_limit_too)
{
    tensor_queue_destroy(queue);
    ck_assert_int_eq(tensor_queue_create(&queue, 1, NULL), HVD_OK);
    run_once(request_of(0, 1, abc), HVD_OK);
    struct request *last = run_once(request_of(0, 1, abc + 1), HVD_OK);
    ck_assert_ptr_null(recall(0, "a"));
    ck_assert_ptr_eq(recall(0, "b"), last);
    tensor_queue_discard(queue, last);
}
END_TEST

START_TEST(nothing_is_kept_of_a_set_that_is_withdrawn)
{
    run_once(request_of(1, 1, abc), HVD_OK);
    struct request *other = run_once(request_of(2, 1, abc), HVD_OK);
    ck_assert_ptr_null(tensor_queue_withdraw_undecided(queue, 1));
    ck_assert_ptr_null(recall(1, "a"));
    ck_assert_ptr_eq(recall(2, "a"), other);
    tensor_queue_discard(queue, other);
}
END_TEST

#define THREADS 4
#define EACH    2000
#define NAMES   20

static void *hand_in(void *arg)
{
    for (int i = 0; i < EACH; i++) {
        char name[32];
        hvd_handle handle = 0;
        snprintf(name, sizeof(name), "%d.%d", (int)(intptr_t)arg, i);
        ck_assert_int_eq(submit(name, &handle, NULL, NULL), HVD_OK);
        int status = HVD_IN_PROGRESS;
        while (i % 50 == 0 && status == HVD_IN_PROGRESS)
            status = tensor_queue_test(queue, handle, NULL);
    }
    return NULL;
}

START_TEST(many_threads_lose_nothing)
{
    pthread_t threads[THREADS];
    int taken = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, hand_in, (void *)i);
    while (taken < THREADS * EACH) {
        struct request *next = NULL;
        for (struct request *request = tensor_queue_take(queue); request != NULL; request = next, taken++) {
            next = request->next;
            conclude(request, HVD_OK, NULL);
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_ptr_null(tensor_queue_take(queue));
}
END_TEST

struct user {
    pthread_t thread;
    int accepted;
    _Atomic bool over;
};

/* The same few names of all threads again and again, so that they meet: each is taken by one. */
static void *hand_in_again(void *arg)
{
    struct user *user = arg;
    for (int i = 0; i < EACH; i++) {
        char name[32];
        hvd_handle handle = 0;
        bool first = false;
        snprintf(name, sizeof(name), "%d", i % NAMES);
        struct request *request = recall(0, name);
        if (request == NULL)
            request = request_of(0, 1, (const char *const[]){name});
        request->reusable = true;
        int rc = tensor_queue_submit(queue, request, &handle, &first, NULL);
        ck_assert(rc == HVD_OK || rc == HVD_ERR_DUPLICATE);
        if (rc != HVD_OK) {
            request_free(request);
            continue;
        }
        user->accepted++;
        while (tensor_queue_test_and_release(queue, handle, NULL) == HVD_IN_PROGRESS)
            sched_yield();
    }
    user->over = true;
    return NULL;
}

START_TEST(many_threads_use_the_same_names)
{
    struct user users[THREADS] = {0};
    int taken = 0;
    int accepted = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&users[i].thread, NULL, hand_in_again, &users[i]);
    for (int i = 0; i < THREADS; i++) {
        while (!users[i].over) {
            struct request *next = NULL;
            for (struct request *request = tensor_queue_take(queue); request != NULL;
                 request = next, taken++) {
                next = request->next;
                conclude(request, HVD_OK, NULL);
            }
        }
        pthread_join(users[i].thread, NULL);
        accepted += users[i].accepted;
    }
    ck_assert_int_eq(taken, accepted);
    ck_assert_ptr_null(tensor_queue_take(queue));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tensor_queue");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, requests_come_out_in_order_and_only_the_first_wakes);
    tcase_add_test(tcase, a_name_in_flight_is_refused_and_nothing_changes);
    tcase_add_test(tcase, a_handle_lives_until_released);
    tcase_add_test(tcase, undecided_requests_are_withdrawn_decided_ones_stay);
    tcase_add_test(tcase, a_group_takes_all_of_its_names);
    tcase_add_test(tcase, a_group_with_a_name_in_flight_takes_none);
    tcase_add_test(tcase, a_name_twice_in_a_group_is_refused);
    tcase_add_test(tcase, sets_have_names_of_their_own);
    tcase_add_test(tcase, a_barrier_in_flight_is_refused_in_its_own_words);
    tcase_add_test(tcase, one_set_is_withdrawn_and_others_stay_in_order);
    tcase_add_test(tcase, the_first_failure_of_a_group_stays);
    tcase_add_test(tcase, after_refuse_nothing_is_taken_and_the_first_reason_stays);
    tcase_add_test(tcase, what_is_over_is_recalled_by_its_name_and_set);
    tcase_add_test(tcase, what_is_kept_is_recalled_in_any_order);
    tcase_add_test(tcase, what_would_have_come_next_may_be_gone);
    tcase_add_test(tcase, no_name_is_as_long_as_this);
    tcase_add_test(tcase, what_ended_by_its_callback_returns_without_it);
    tcase_add_test(tcase, what_failed_or_does_not_return_is_not_kept);
    tcase_add_test(tcase, another_of_a_name_takes_the_place_of_what_is_kept);
    tcase_add_test(tcase, another_of_a_name_is_in_the_way_of_what_was_recalled);
    tcase_add_test(tcase, the_least_recently_used_make_room);
    tcase_add_test(tcase, one_tensor_is_a_limit_too);
    tcase_add_test(tcase, nothing_is_kept_of_a_set_that_is_withdrawn);
    tcase_add_test(tcase, many_threads_lose_nothing);
    tcase_add_test(tcase, many_threads_use_the_same_names);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tensor_queue", fill);
}
