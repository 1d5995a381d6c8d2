/* test_allocations.c: where memory that hvd gives lies, and what becomes of it. */
#include "config.h"
#include "api/allocations.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/shared_file.h"
#include "mappings.h"

#define PAGE         ((int64_t)sysconf(_SC_PAGESIZE))
#define MIB          (INT64_C(1) << 20)
#define WINDOW_BYTES (8 * MIB)

static struct allocations allocations = ALLOCATIONS_INIT(allocations);
static struct windows windows;
static const struct windows none;
static char *window; /* ours */
static struct hvd_error err;

/* Two ranks of a node with small windows, this one being the second. */
static void open_windows(void)
{
    int fd = -1;
    ck_assert_int_eq(shared_file_create("test", (size_t)(2 * WINDOW_BYTES), &fd, &err), HVD_OK);
    ck_assert_int_eq(windows_attach(&windows, fd, 2, 1, &err), HVD_OK);
    close(fd);
    window = windows.base + WINDOW_BYTES;
}

static void close_windows(void)
{
    allocations_unmap_windows(&allocations, &windows);
}

static char *give_of(const struct windows *job, int64_t bytes)
{
    void *memory = NULL;
    int rc = allocations_allocate(&allocations, job, bytes, &memory, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static char *give(int64_t bytes)
{
    return give_of(&windows, bytes);
}

static void take(char *memory)
{
    int rc = allocations_free(&allocations, &windows, memory, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
}

static bool is_in_window(const char *memory)
{
    uint64_t at;
    return windows_offset_of(&windows, memory, 1, &at);
}

static bool is_zero(const char *memory, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) {
        if (memory[i] != 0)
            return false;
    }
    return true;
}

static void expect_refusal(const struct windows *job, void *memory)
{
    err.text[0] = 0;
    ck_assert_int_eq(allocations_free(&allocations, job, memory, &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is not memory from hvd_alloc, or was already freed"));
}

/* ---- In the window ---- */

START_TEST(the_lowest_place_is_first)
{
    char *a = give(PAGE);
    char *b = give(2 * PAGE + 1);
    char *c = give(1);
    ck_assert_ptr_eq(a, window);
    ck_assert_ptr_eq(b, a + PAGE);
    ck_assert_ptr_eq(c, b + 3 * PAGE);
    take(b);
    char *larger = give(3 * PAGE + 1);
    ck_assert_ptr_eq(larger, c + PAGE); /* not where it does not fit */
    char *fits = give(3 * PAGE);
    ck_assert_ptr_eq(fits, b);
    take(a);
    ck_assert_ptr_eq(give(10), window);
    take(window);
    take(c);
    take(fits);
    take(larger);
    ck_assert_ptr_eq(give(WINDOW_BYTES), window);
    take(window);
}
END_TEST

/* From where huge pages are worth having. */
START_TEST(large_memory_begins_where_huge_pages_do)
{
    char *small = give(1);
    char *large = give(2 * MIB);
    char *next = give(PAGE);
    char *larger = give(3 * MIB);
    ck_assert_ptr_eq(small, window);
    ck_assert_ptr_eq(large, window + 2 * MIB);
    ck_assert_ptr_eq(next, small + PAGE); /* the gap is not lost */
    ck_assert_ptr_eq(larger, window + 4 * MIB);
    bool kernel_has_any = access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
    ck_assert(has_flag(large, " hg") == kernel_has_any);
    ck_assert(!has_flag(small, " hg"));
    take(small);
    take(large);
    take(next);
    take(larger);
}
END_TEST

START_TEST(what_is_given_back_is_zeros_at_once)
{
    int64_t bytes = _i == 0 ? 3 * PAGE : 3 * MIB;
    char *kept = give(PAGE);
    char *memory = give(bytes);
    memset(kept, 2, (size_t)PAGE);
    memset(memory, 1, (size_t)bytes);
    take(memory);
    ck_assert(is_zero(memory, bytes)); /* the node has those pages again */
    ck_assert_ptr_eq(give(bytes), memory);
    ck_assert(is_zero(memory, bytes));
    ck_assert_int_eq(kept[PAGE - 1], 2);
    take(memory);
    take(kept);
}
END_TEST

START_TEST(dumps_have_what_was_given)
{
    char *a = give(PAGE), *b = give(PAGE);
    ck_assert(!has_flag(a, " dd"));
    ck_assert(!has_flag(b, " dd"));
    ck_assert(has_flag(b + PAGE, " dd"));
    take(a);
    ck_assert(has_flag(a, " dd"));
    ck_assert(!has_flag(b, " dd"));
    take(b);
}
END_TEST

/* ---- Elsewhere ---- */

START_TEST(a_full_window_is_no_error)
{
    char *first = give(WINDOW_BYTES - PAGE);
    char *second = give(2 * PAGE);
    char *third = give(PAGE);
    char *fourth = give(1);
    ck_assert(is_in_window(first));
    ck_assert(!is_in_window(second));
    ck_assert(is_in_window(third));
    ck_assert(!is_in_window(fourth));
    ck_assert(is_zero(second, 2 * PAGE));
    memset(second, 1, (size_t)(2 * PAGE));
    take(second);
    take(fourth);
    ck_assert(!is_mapped(second));
    ck_assert(!is_mapped(fourth));
    take(first);
    take(third);
    char *whole = give(WINDOW_BYTES), *more = give(WINDOW_BYTES + 1);
    ck_assert_ptr_eq(whole, window);
    ck_assert(!is_in_window(more));
    take(whole);
    take(more);
}
END_TEST

START_TEST(without_windows_memory_is_the_process_own)
{
    char *memory = give_of(&none, 3 * MIB);
    ck_assert(is_zero(memory, 3 * MIB));
    memset(memory, 1, (size_t)(3 * MIB));
    expect_refusal(&none, memory + PAGE);
    ck_assert_int_eq(allocations_free(&allocations, &none, memory, &err), HVD_OK);
    ck_assert(!is_mapped(memory));
    expect_refusal(&none, memory);
}
END_TEST

/* ---- Refused ---- */

START_TEST(sizes_that_cannot_be)
{
    void *memory = &memory;
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, -1, &memory, &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "hvd_alloc: -1 bytes; expected 0 or more");
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, INT64_MIN, &memory, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, INT64_MAX, &memory, &err),
                     HVD_ERR_NO_MEMORY);
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, INT64_MAX - 2 * MIB, &memory, &err),
                     HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text,
                     "hvd_alloc: no memory for 9223372036852678655 bytes; a process can address 2^47");
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, INT64_C(1) << 47, &memory, &err),
                     HVD_ERR_NO_MEMORY); /* the kernel has the rest of the addresses */
    ck_assert_ptr_nonnull(strstr(err.text, "hvd_alloc: no memory for 140737488355328 bytes: "));
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, 1, NULL, &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "hvd_alloc: memoryp is NULL; pass the address of a void *");
    ck_assert_int_eq(allocations_allocate_on(&allocations, NULL, 0, 1, NULL, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(allocations_allocate_on(&allocations, NULL, 0, INT64_MAX, &memory, &err),
                     HVD_ERR_NO_MEMORY);
    ck_assert_ptr_eq(memory, &memory);
    ck_assert(TAILQ_EMPTY(&allocations.list));
}
END_TEST

START_TEST(nothing_is_nowhere)
{
    void *memory = &memory;
    ck_assert_int_eq(allocations_allocate(&allocations, &windows, 0, &memory, &err), HVD_OK);
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(allocations_free(&allocations, &windows, memory, &err), HVD_OK);
}
END_TEST

START_TEST(only_what_was_given_is_taken_back)
{
    int own = 0;
    char *memory = give(2 * PAGE);
    expect_refusal(&windows, memory + PAGE);
    expect_refusal(&windows, memory + 2 * PAGE);
    expect_refusal(&windows, windows.base);
    expect_refusal(&windows, &own);
    memory[0] = 1;
    take(memory);
    expect_refusal(&windows, memory);
}
END_TEST

/* ---- After the job, and beside it ---- */

START_TEST(what_was_given_outlives_the_job)
{
    char *first = give(2 * PAGE), *gone = give(PAGE), *last = give(3 * MIB), *private = give(WINDOW_BYTES);
    char *base = windows.base;
    memset(first, 1, (size_t)(2 * PAGE));
    memset(last, 3, (size_t)(3 * MIB));
    memset(private, 4, (size_t)WINDOW_BYTES);
    take(gone);
    allocations_unmap_windows(&allocations, &windows);
    ck_assert_ptr_null(windows.base);
    ck_assert(!is_mapped(base));
    ck_assert(!is_mapped(window - PAGE));
    ck_assert(!is_mapped(gone));
    ck_assert(!is_mapped(last - PAGE));
    ck_assert(!is_mapped(last + 3 * MIB));
    ck_assert(!is_mapped(window + WINDOW_BYTES - PAGE));
    ck_assert_int_eq(first[2 * PAGE - 1], 1);
    ck_assert_int_eq(last[3 * MIB - 1], 3);
    ck_assert_int_eq(private[WINDOW_BYTES - 1], 4);
    allocations_unmap_windows(&allocations, &windows); /* without windows it is fine */
    take(first);
    ck_assert(!is_mapped(first));
    ck_assert_int_eq(last[0], 3);
    /* the next job has other windows */
    open_windows();
    ck_assert_ptr_eq(give(PAGE), window);
    ck_assert_int_eq(last[0], 3);
    take(last);
    ck_assert(!is_mapped(last));
    take(window);
    take(private);
}
END_TEST

START_TEST(a_child_gives_back_for_itself)
{
    int status = -1;
    char *memory = give(PAGE);
    memory[0] = 5;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        allocations_after_fork(&allocations);
        bool good = memory[0] == 5 && allocations_free(&allocations, &none, memory, &err) == HVD_OK &&
                    !is_mapped(memory);
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(memory[0], 5);
    take(memory);
}
END_TEST

/* What a thread was given nobody else writes to; 4 KiB for the first, 8 for the second. */
static void *use_and_return(void *arg)
{
    char id = *(char *)arg;
    int64_t bytes = id * PAGE;
    for (int i = 0; i < 3000; i++) {
        void *memory = NULL;
        if (allocations_allocate(&allocations, &windows, bytes, &memory, NULL) != HVD_OK ||
            !is_zero(memory, bytes))
            return arg;
        memset(memory, id, (size_t)bytes);
        sched_yield(); /* to the other thread, which would write there by now */
        if (((char *)memory)[0] != id || allocations_free(&allocations, &windows, memory, NULL) != HVD_OK)
            return arg;
    }
    return NULL;
}

START_TEST(threads_get_memory_of_their_own)
{
    char ids[2] = {1, 2};
    pthread_t threads[2];
    void *failed = NULL;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_and_return, &ids[i]), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert(TAILQ_EMPTY(&allocations.list));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("allocations");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_windows, close_windows);
    tcase_add_test(tcase, the_lowest_place_is_first);
    tcase_add_test(tcase, large_memory_begins_where_huge_pages_do);
    tcase_add_loop_test(tcase, what_is_given_back_is_zeros_at_once, 0, 2);
    tcase_add_test(tcase, dumps_have_what_was_given);
    tcase_add_test(tcase, a_full_window_is_no_error);
    tcase_add_test(tcase, without_windows_memory_is_the_process_own);
    tcase_add_test(tcase, sizes_that_cannot_be);
    tcase_add_test(tcase, nothing_is_nowhere);
    tcase_add_test(tcase, only_what_was_given_is_taken_back);
    tcase_add_test(tcase, what_was_given_outlives_the_job);
    tcase_add_test(tcase, a_child_gives_back_for_itself);
    tcase_add_test(tcase, threads_get_memory_of_their_own);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("allocations", fill);
}
