/* test_set_registry.c: the process sets as one rank knows them. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "flow/set_registry.h"

static struct set_registry *set_registry;
static struct process_set all, odd;

static const int all_ranks[] = {0, 1, 2, 3, 4, 5};
static const int odd_ranks[] = {1, 3, 5};
static const int even_ranks[] = {0, 2, 4};

static int add(hvd_set set, const int *ranks, int size, uint32_t backends, struct process_set *own)
{
    const struct team members = {.set = set, .size = size, .ppn = set, .ranks = ranks};
    return set_registry_add(set_registry, &members, false, backends, own, NULL);
}

/* Rank 3 of 6, with set 0 of all, 4 of the odd ranks and 2 of the even ones. */
static void begin(void)
{
    ck_assert_int_eq(set_registry_create(&set_registry, 3, NULL), HVD_OK);
    ck_assert_int_eq(add(0, all_ranks, 6, 7, &all), HVD_OK);
    ck_assert_int_eq(add(4, odd_ranks, 3, 2, &odd), HVD_OK);
    ck_assert_int_eq(add(2, even_ranks, 3, 2, NULL), HVD_OK);
}

static void end(void)
{
    set_registry_destroy(set_registry);
    set_registry_destroy(NULL);
}

START_TEST(members_and_others_are_told_apart)
{
    ck_assert_int_eq(set_registry_rank(set_registry, 0), 3);
    ck_assert_int_eq(set_registry_rank(set_registry, 4), 1);
    ck_assert_int_eq(set_registry_rank(set_registry, 2), -1);
    ck_assert_int_eq(set_registry_rank(set_registry, 3), -1);
    ck_assert_int_eq(set_registry_size(set_registry, 0), 6);
    ck_assert_int_eq(set_registry_size(set_registry, 2), 3);
    ck_assert_int_eq(set_registry_size(set_registry, 1), -1);
    ck_assert_int_eq(set_registry_member(set_registry, 2, 4), 2);
    ck_assert_int_eq(set_registry_member(set_registry, 2, 5), -1);
    ck_assert_int_eq(set_registry_member(set_registry, 2, -1), -1);
    ck_assert_int_eq(set_registry_member(set_registry, 0, 5), 5);
    ck_assert_int_eq(set_registry_member(set_registry, 0, 6), -1);
    ck_assert_int_eq(set_registry_member(set_registry, 0, -1), -1);
    ck_assert_ptr_eq(set_registry_get(set_registry, 4), &odd);
    ck_assert_ptr_null(set_registry_get(set_registry, 2));
    ck_assert_ptr_null(set_registry_get(set_registry, 9));
    ck_assert_uint_eq(set_registry_backends(set_registry, 0), 7);
    ck_assert_uint_eq(set_registry_backends(set_registry, 9), 0);
    ck_assert_int_eq(set_registry_ppn(set_registry, 0), 0);
    ck_assert_int_eq(set_registry_ppn(set_registry, 4), 4);
    ck_assert_int_eq(set_registry_ppn(set_registry, 9), 0);
}
END_TEST

START_TEST(lists_are_written_as_far_as_there_is_room)
{
    int ranks[6] = {-7, -7, -7, -7, -7, -7};
    hvd_set sets[4] = {-7, -7, -7, -7};
    ck_assert_int_eq(set_registry_ranks(set_registry, 4, ranks, 2), 3);
    ck_assert_int_eq(ranks[1], 3);
    ck_assert_int_eq(ranks[2], -7);
    ck_assert_int_eq(set_registry_ranks(set_registry, 4, NULL, 0), 3);
    ck_assert_int_eq(set_registry_ranks(set_registry, 5, ranks, 6), -1);
    ck_assert_int_eq(set_registry_ranks(set_registry, 0, ranks, 6), 6);
    ck_assert_mem_eq(ranks, all_ranks, sizeof(all_ranks));
    ck_assert_int_eq(set_registry_list(set_registry, sets, 4), 3);
    ck_assert_int_eq(sets[0], 0);
    ck_assert_int_eq(sets[1], 2);
    ck_assert_int_eq(sets[2], 4);
    ck_assert_int_eq(sets[3], -7);
    ck_assert_int_eq(set_registry_list(set_registry, NULL, 0), 3);
}
END_TEST

START_TEST(a_set_is_found_by_its_ranks)
{
    static const int other[] = {1, 3, 4};
    static const int shifted[] = {0, 1, 2, 3, 4, 6};
    ck_assert_int_eq(set_registry_find(set_registry, odd_ranks, 3, false), 4);
    ck_assert_int_eq(set_registry_find(set_registry, odd_ranks, 2, false), -1);
    ck_assert_int_eq(set_registry_find(set_registry, other, 3, false), -1);
    ck_assert_int_eq(set_registry_find(set_registry, all_ranks, 6, false), 0);
    ck_assert_int_eq(set_registry_find(set_registry, all_ranks, 5, false), -1);
    ck_assert_int_eq(set_registry_find(set_registry, shifted, 6, false), -1);
}
END_TEST

START_TEST(a_set_that_its_members_alone_know_is_found_by_them)
{
    static const int some[] = {3, 4};
    const struct team members = {.set = 5, .size = 2, .ppn = 1, .ranks = some};
    ck_assert_int_eq(set_registry_add(set_registry, &members, true, 7, &odd, NULL), HVD_OK);
    ck_assert_int_eq(set_registry_find(set_registry, some, 2, false), -1);
    ck_assert_int_eq(set_registry_find(set_registry, some, 2, true), 5);
    ck_assert_int_eq(set_registry_find(set_registry, odd_ranks, 3, true), 4);
    ck_assert(set_registry_is_by_members(set_registry, 5));
    ck_assert(!set_registry_is_by_members(set_registry, 4));
    ck_assert(!set_registry_is_by_members(set_registry, 6));
}
END_TEST

START_TEST(what_was_taken_is_no_more)
{
    ck_assert_uint_eq(set_registry_count_operation(set_registry, 4), 1);
    ck_assert_uint_eq(set_registry_count_operation(set_registry, 4), 2);
    ck_assert_uint_eq(set_registry_count_operation(set_registry, 0), 1);
    ck_assert_ptr_null(set_registry_remove(set_registry, 2));
    ck_assert_int_eq(set_registry_size(set_registry, 2), -1);
    ck_assert_int_eq(set_registry_rank(set_registry, 4), 1);
    ck_assert_ptr_eq(set_registry_remove(set_registry, 4), &odd);
    ck_assert_ptr_null(set_registry_remove(set_registry, 4));
    ck_assert_uint_eq(set_registry_count_operation(set_registry, 4), 0);
    ck_assert_int_eq(set_registry_size(set_registry, 4), -1);
    ck_assert_int_eq(set_registry_find(set_registry, odd_ranks, 3, false), -1);
    ck_assert_int_eq(set_registry_list(set_registry, NULL, 0), 1);
    ck_assert_int_eq(add(5, odd_ranks, 3, 2, &odd), HVD_OK);
    ck_assert_int_eq(set_registry_rank(set_registry, 5), 1);
    ck_assert_int_eq(set_registry_rank(set_registry, 0), 3);
}
END_TEST

static _Atomic bool stop;

static void *ask(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        int ranks[6];
        int count = set_registry_ranks(set_registry, 1000, ranks, 6);
        ck_assert(count == -1 || (count == 3 && ranks[0] == 1 && ranks[2] == 5));
        ck_assert_int_eq(set_registry_rank(set_registry, 4), 1);
    }
    return NULL;
}

START_TEST(sets_come_and_go_while_others_ask)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < 2000; i++) {
        ck_assert_int_eq(add(1000, odd_ranks, 3, 1, &odd), HVD_OK);
        ck_assert_int_eq(add(500 + i % 7, even_ranks, 3, 1, NULL), HVD_OK);
        ck_assert_ptr_eq(set_registry_remove(set_registry, 1000), &odd);
        ck_assert_ptr_null(set_registry_remove(set_registry, 500 + i % 7));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("set_registry");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, members_and_others_are_told_apart);
    tcase_add_test(tcase, lists_are_written_as_far_as_there_is_room);
    tcase_add_test(tcase, a_set_is_found_by_its_ranks);
    tcase_add_test(tcase, a_set_that_its_members_alone_know_is_found_by_them);
    tcase_add_test(tcase, what_was_taken_is_no_more);
    tcase_add_test(tcase, sets_come_and_go_while_others_ask);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("set_registry", fill);
}
