/* test_commits.c: a state goes back to either of its last two commits, and to no mixture of them. */
#include "config.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/commits.h"

static int64_t steps;
static char weights[100];
static struct commits *commits;
static struct hvd_error err;

static void set_parts(int64_t value)
{
    steps = value;
    memset(weights, (int)value, sizeof(weights));
}

static void check_parts(int64_t value)
{
    ck_assert_int_eq(steps, value);
    for (size_t i = 0; i < sizeof(weights); i++)
        ck_assert_int_eq(weights[i], (int)value);
}

static void begin(void)
{
    commits = commits_create();
    ck_assert_int_eq(commits_add(commits, "steps", &steps, sizeof(steps), &err), HVD_OK);
    ck_assert_int_eq(commits_add(commits, "nothing", NULL, 0, &err), HVD_OK);
    ck_assert_int_eq(commits_add(commits, "weights", weights, sizeof(weights), &err), HVD_OK);
}

static void start(void)
{
    begin();
    ck_assert_int_eq(commits_reserve(commits, COMMITS_COPIES, &err), HVD_OK);
    ck_assert_int_eq(commits_newest(commits), 0);
}

static void end(void)
{
    commits_destroy(commits);
}

static void save(int64_t value)
{
    set_parts(value);
    ck_assert_int_eq(commits_save(commits, NULL, &err), HVD_OK);
}

START_TEST(the_newest_commit_is_restored)
{
    for (int64_t i = 1; i <= 5; i++) {
        save(i);
        ck_assert_int_eq(commits_newest(commits), i);
        set_parts(77);
        ck_assert_int_eq(commits_restore(commits, NULL, &err), HVD_OK);
        check_parts(i);
    }
}
END_TEST

START_TEST(the_one_before_it_is_still_there)
{
    save(1);
    save(2);
    save(3);
    ck_assert(!commits_go_back(commits, 1));
    ck_assert_int_eq(commits_newest(commits), 3);
    ck_assert(commits_go_back(commits, 3));
    ck_assert(commits_go_back(commits, 2));
    ck_assert_int_eq(commits_newest(commits), 2);
    ck_assert_int_eq(commits_restore(commits, NULL, &err), HVD_OK);
    check_parts(2);
    ck_assert(!commits_go_back(commits, 3)); /* it is forgotten */
    ck_assert(!commits_go_back(commits, 1));
    save(33); /* another commit of the same number */
    ck_assert_int_eq(commits_newest(commits), 3);
    ck_assert(commits_go_back(commits, 2));
    ck_assert_int_eq(commits_restore(commits, NULL, &err), HVD_OK);
    check_parts(2);
}
END_TEST

START_TEST(a_copy_that_is_being_written_is_no_commit)
{
    save(1);
    save(2);
    memset(commits_spare(commits, 2), 9, 50); /* and then a rank was lost */
    ck_assert_int_eq(commits_newest(commits), 2);
    ck_assert(!commits_go_back(commits, 1));
    set_parts(77);
    ck_assert_int_eq(commits_restore(commits, NULL, &err), HVD_OK);
    check_parts(2);
}
END_TEST

START_TEST(a_commit_can_come_from_elsewhere)
{
    int64_t received = 41;
    memcpy(commits_spare(commits, 0), &received, sizeof(received));
    memset(commits_spare(commits, 2), 41, sizeof(weights));
    set_parts(77);
    ck_assert_int_eq(commits_newest(commits), 0);
    commits_take(commits, 17);
    ck_assert_int_eq(commits_newest(commits), 17);
    check_parts(77);
    ck_assert_int_eq(commits_restore(commits, NULL, &err), HVD_OK);
    check_parts(41);
    ck_assert(!commits_go_back(commits, 16));
    save(42);
    ck_assert_int_eq(commits_newest(commits), 18);
    ck_assert(commits_go_back(commits, 17));
    ck_assert_int_eq(commits_restore(commits, NULL, &err), HVD_OK);
    check_parts(41);
}
END_TEST

/* A GPU of which the host sees nothing but what is copied; it fails after some copies. */
struct gpu {
    char *memory;
    int copies, copies_max;
};

static int copy_by_gpu(void *arg, void *to, const void *from, int64_t bytes, struct hvd_error *error)
{
    struct gpu *gpu = arg;
    if (++gpu->copies > gpu->copies_max)
        return error_set(error, HVD_ERR_SYSTEM, "the GPU has failed");
    if (to == weights)
        memcpy(gpu->memory, from, (size_t)bytes);
    else
        memcpy(to, gpu->memory, (size_t)bytes);
    return HVD_OK;
}

START_TEST(a_part_on_a_gpu_is_copied_by_it)
{
    char memory[sizeof(weights)];
    struct gpu gpu = {.memory = memory, .copies_max = 4};
    const struct commits_gpu copier = {copy_by_gpu, &gpu};
    commits_place(commits, 2, true);
    for (int64_t i = 1; i <= 2; i++) {
        steps = i;
        memset(memory, (int)i + 10, sizeof(memory));
        ck_assert_int_eq(commits_save(commits, &copier, &err), HVD_OK);
        memset(memory, 77, sizeof(memory));
        ck_assert_int_eq(commits_restore(commits, &copier, &err), HVD_OK);
        ck_assert_int_eq(memory[99], i + 10);
        ck_assert_int_eq(steps, i);
        ck_assert_int_eq(*(const char *)commits_saved(commits, 2), i + 10);
    }
    ck_assert_int_eq(weights[0], 0); /* the host has not touched them */
    ck_assert_int_eq(commits_save(commits, &copier, &err), HVD_ERR_SYSTEM);
    ck_assert_int_eq(commits_newest(commits), 2); /* no commit comes of it */
    ck_assert_int_eq(commits_restore(commits, &copier, &err), HVD_ERR_SYSTEM);
}
END_TEST

START_TEST(what_is_lent_stays_while_others_are_saved)
{
    ck_assert_int_eq(commits_reserve(commits, COMMITS_COPIES_MAX, &err), HVD_OK);
    save(1);
    struct commits_copy *written = commits_lend(commits);
    const char *bytes = commits_saved(commits, 2);
    for (int64_t i = 2; i <= 6; i++) {
        save(i);
        struct commits_copy *waits = commits_lend(commits);
        const char *newest = commits_saved(commits, 2);
        ck_assert_int_eq(bytes[99], 1);
        save(i + 20); /* before that is given back */
        ck_assert_int_eq(bytes[99], 1);
        ck_assert_int_eq(newest[99], i);
        ck_assert(commits_go_back(commits, commits_newest(commits) - 1)); /* the one before is there too */
        commits_return(waits);
    }
    commits_return(written);
    save(30);
    save(31);
    save(32);
    ck_assert_int_ne(bytes[99], 1); /* it is used again */
}
END_TEST

static void expect_refusal(int status, int expected, const char *words)
{
    ck_assert_int_eq(status, expected);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
}

START_TEST(wrong_parts_are_refused)
{
    char name[HVD_MAX_NAME + 2];
    memset(name, 'n', sizeof(name));
    name[HVD_MAX_NAME + 1] = 0;
    expect_refusal(commits_add(commits, NULL, &steps, 8, &err), HVD_ERR_INVALID, "needs a name");
    expect_refusal(commits_add(commits, "", &steps, 8, &err), HVD_ERR_INVALID, "needs a name");
    expect_refusal(commits_add(commits, name, &steps, 8, &err), HVD_ERR_INVALID, "longer than 255 bytes");
    expect_refusal(commits_add(commits, "a\nb", &steps, 8, &err), HVD_ERR_INVALID, "control character 10");
    expect_refusal(commits_add(commits, "x", &steps, -1, &err), HVD_ERR_INVALID, "\"x\" has -1 bytes");
    expect_refusal(commits_add(commits, "x", &steps, INT64_MAX, &err), HVD_ERR_INVALID, "0 to 2^47");
    expect_refusal(commits_add(commits, "x", NULL, 8, &err), HVD_ERR_INVALID, "data is NULL");
    expect_refusal(commits_add(commits, "steps", &steps, 8, &err), HVD_ERR_DUPLICATE, "\"steps\" already");
    name[HVD_MAX_NAME] = 0;
    ck_assert_int_eq(commits_add(commits, name, &steps, 8, &err), HVD_OK);
    ck_assert_str_eq(commits_part(commits, 3)->name, name);
    ck_assert_int_eq(commits_count(commits), 4);
    ck_assert_int_eq(commits_reserve(commits, COMMITS_COPIES, &err), HVD_OK);
    expect_refusal(commits_add(commits, "late", &steps, 8, &err), HVD_ERR_STATE, "\"late\" comes after");
}
END_TEST

/* Sanitizers would end the program that asks for so much. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return __asan_default_options();
}

START_TEST(without_memory_nothing_changes)
{
    for (int i = 0; i < 600; i++) { /* more bytes than there are addresses, also where these have 57 bits */
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        ck_assert_int_eq(commits_add(commits, name, weights, INT64_C(1) << 47, &err), HVD_OK);
    }
    expect_refusal(commits_reserve(commits, COMMITS_COPIES, &err), HVD_ERR_NO_MEMORY,
                   "no memory for 2 copies");
    ck_assert_int_eq(commits_newest(commits), 0);
    ck_assert_int_eq(commits_add(commits, "more", weights, 1, &err), HVD_OK);
}
END_TEST

START_TEST(the_fingerprint_is_of_names_sizes_and_order)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } parts[][2] = {{{"a", 1}, {"b", 2}}, {{"b", 2}, {"a", 1}}, {{"a", 2}, {"b", 1}},
                    {{"a", 1}, {"c", 2}}, {{"ab", 1}, {"", 0}}, {{"a", 1}, {"", 0}}};
    uint64_t seen[6];
    for (int i = 0; i < 6; i++) {
        struct commits *other = commits_create();
        for (int j = 0; j < 2 && parts[i][j].name[0] != 0; j++)
            ck_assert_int_eq(commits_add(other, parts[i][j].name, weights, parts[i][j].bytes, &err), HVD_OK);
        seen[i] = commits_fingerprint(other);
        ck_assert_uint_eq(commits_fingerprint(other), seen[i]);
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(seen[i], seen[j]);
        commits_destroy(other);
    }
}
END_TEST

START_TEST(a_state_may_be_empty)
{
    struct commits *empty = commits_create();
    ck_assert_int_eq(commits_reserve(empty, COMMITS_COPIES, &err), HVD_OK);
    ck_assert_int_eq(commits_save(empty, NULL, &err), HVD_OK);
    ck_assert_int_eq(commits_save(empty, NULL, &err), HVD_OK);
    ck_assert_int_eq(commits_newest(empty), 2);
    ck_assert(commits_go_back(empty, 1));
    ck_assert_int_eq(commits_restore(empty, NULL, &err), HVD_OK);
    commits_destroy(empty);
    commits_destroy(NULL);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *parts = tcase_create("parts");
    tcase_add_checked_fixture(parts, begin, end);
    tcase_add_test(parts, wrong_parts_are_refused);
    tcase_add_test(parts, without_memory_nothing_changes);
    tcase_add_test(parts, the_fingerprint_is_of_names_sizes_and_order);
    tcase_add_test(parts, a_state_may_be_empty);
    suite_add_tcase(suite, parts);
    TCase *copies = tcase_create("copies");
    tcase_add_checked_fixture(copies, start, end);
    tcase_add_test(copies, the_newest_commit_is_restored);
    tcase_add_test(copies, the_one_before_it_is_still_there);
    tcase_add_test(copies, a_copy_that_is_being_written_is_no_commit);
    tcase_add_test(copies, a_commit_can_come_from_elsewhere);
    tcase_add_test(copies, a_part_on_a_gpu_is_copied_by_it);
    tcase_add_test(copies, what_is_lent_stays_while_others_are_saved);
    suite_add_tcase(suite, copies);
}

int main(void)
{
    return unit_run("commits", fill);
}
