/* test_windows.c: what ranks of a node reach of each other's memory, and who gets none. */
#include "config.h"
#include "node/windows.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "mappings.h"

#define MIB      (INT64_C(1) << 20)
#define TIB      (INT64_C(1) << 40)
#define MOST_TIB 16

static struct hvd_error err;

static void expect_sentence(const char *part)
{
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
}

/* A forked child's [body] must return true. */
static void expect_in_child(bool (*body)(void *arg), void *arg)
{
    int status = -1;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(body(arg) ? 0 : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* ---- Together ---- */

START_TEST(windows_are_large_enough_for_the_node)
{
    struct windows windows = {.base = NULL};
    int fd = -1;
    ck_assert_int_eq(windows_create(&windows, 3, &fd, &err), HVD_OK);
    ck_assert_ptr_nonnull(windows.base);
    ck_assert_int_eq(windows.count, 3);
    ck_assert_int_eq(windows.own, 0);
    ck_assert_int_eq(windows.bytes % (2 * MIB), 0);
    int64_t node_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    ck_assert(windows.bytes >= node_bytes || 3 * (windows.bytes + 2 * MIB) > MOST_TIB * TIB);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_ne(ftruncate(fd, 4096), 0);
    ck_assert_int_ne(ftruncate(fd, 4 * windows.bytes), 0);
    void *base = windows.base;
    windows_detach(&windows);
    ck_assert_ptr_null(windows.base);
    ck_assert(!is_mapped(base));
    windows_detach(&windows);
    close(fd);
}
END_TEST

/* Another rank: it finds what it has, and tells where that is. */
struct meeting {
    int fd;
    uint64_t at; /* of "second" in the window at place 1 */
    struct windows first;
};

static bool come_as_second(void *arg)
{
    struct meeting *meeting = arg;
    struct windows windows;
    uint64_t at = 0;
    if (windows_attach(&windows, meeting->fd, 3, 1, &err) != HVD_OK ||
        windows_open(&windows, 0, 106, &err) != HVD_OK ||
        windows_open(&windows, 1, windows.bytes, &err) != HVD_OK)
        return false;
    const char *first = windows_pointer(&windows, 0, 100, 6);
    char *own = windows_pointer(&windows, 1, meeting->at, 7);
    memcpy(own, "second", 7);
    return strcmp(first, "first") == 0 && windows_offset_of(&windows, own, 7, &at) && at == meeting->at;
}

START_TEST(what_one_rank_writes_others_see)
{
    struct meeting meeting = {.at = 5 * MIB + 1};
    struct windows *windows = &meeting.first;
    ck_assert_int_eq(windows_create(windows, 3, &meeting.fd, &err), HVD_OK);
    ck_assert_int_eq(windows_open(windows, 0, windows->bytes, &err), HVD_OK);
    ck_assert_int_eq(windows_open(windows, 1, windows->bytes, &err), HVD_OK);
    memcpy(windows_pointer(windows, 0, 100, 6), "first", 6);
    expect_in_child(come_as_second, &meeting);
    ck_assert_str_eq(windows_pointer(windows, 1, meeting.at, 7), "second");
    ck_assert_str_eq(windows->base + windows->bytes + meeting.at, "second");
    windows_detach(windows);
    close(meeting.fd);
}
END_TEST

/* ---- What lies inside ---- */

START_TEST(only_the_own_window_is_found)
{
    char bytes[2];
    uint64_t at = 0;
    const struct windows none = {.base = NULL};
    struct windows windows;
    int fd = -1;
    ck_assert_int_eq(windows_create(&windows, 3, &fd, &err), HVD_OK);
    windows.own = 1;
    char *own = windows.base + windows.bytes;
    char *end = own + windows.bytes;
    ck_assert(windows_offset_of(&windows, own, windows.bytes, &at));
    ck_assert_uint_eq(at, 0);
    ck_assert(windows_offset_of(&windows, end - 1, 1, &at));
    ck_assert_uint_eq(at, (uint64_t)windows.bytes - 1);
    ck_assert(windows_offset_of(&windows, own + 7, 0, &at));
    ck_assert(!windows_offset_of(&windows, own, windows.bytes + 1, &at));
    ck_assert(!windows_offset_of(&windows, own + 1, windows.bytes, &at));
    ck_assert(!windows_offset_of(&windows, end - 1, 2, &at));
    ck_assert(!windows_offset_of(&windows, end - 1, INT64_MAX, &at));
    ck_assert(!windows_offset_of(&windows, own, -1, &at));
    ck_assert(!windows_offset_of(&windows, own, INT64_MIN, &at));
    ck_assert(!windows_offset_of(&windows, end, 0, &at));
    ck_assert(!windows_offset_of(&windows, own - 1, 1, &at));
    ck_assert(!windows_offset_of(&windows, own - 1, 2, &at));
    ck_assert(!windows_offset_of(&windows, windows.base, 1, &at));
    ck_assert(!windows_offset_of(&windows, bytes, 1, &at));
    ck_assert(!windows_offset_of(&windows, NULL, 0, &at));
    ck_assert(!windows_offset_of(&none, bytes, 1, &at));
    ck_assert(!windows_offset_of(&none, NULL, 0, &at));
    windows_detach(&windows);
    close(fd);
}
END_TEST

/* [at] may be what another rank says. */
START_TEST(nothing_outside_a_window_is_reached)
{
    const struct windows none = {.base = NULL};
    struct windows windows;
    int fd = -1;
    ck_assert_int_eq(windows_create(&windows, 2, &fd, &err), HVD_OK);
    uint64_t bytes = (uint64_t)windows.bytes;
    for (int place = 0; place < 2; place++)
        ck_assert_int_eq(windows_open(&windows, place, windows.bytes, &err), HVD_OK);
    ck_assert_ptr_eq(windows_pointer(&windows, 0, 0, windows.bytes), windows.base);
    ck_assert_ptr_eq(windows_pointer(&windows, 1, 0, windows.bytes), windows.base + bytes);
    ck_assert_ptr_eq(windows_pointer(&windows, 1, bytes - 1, 1), windows.base + 2 * bytes - 1);
    ck_assert_ptr_null(windows_pointer(&windows, 0, 1, windows.bytes));
    ck_assert_ptr_null(windows_pointer(&windows, 1, bytes, 1));
    ck_assert_ptr_null(windows_pointer(&windows, 0, bytes - 1, 2));
    ck_assert_ptr_null(windows_pointer(&windows, 0, 0, windows.bytes + 1));
    ck_assert_ptr_null(windows_pointer(&windows, 0, 0, INT64_MAX));
    ck_assert_ptr_null(windows_pointer(&windows, 0, 0, -1));
    ck_assert_ptr_null(windows_pointer(&windows, 0, 0, INT64_MIN));
    ck_assert_ptr_null(windows_pointer(&windows, 0, UINT64_MAX, 1));
    ck_assert_ptr_null(windows_pointer(&windows, 0, UINT64_MAX - 7, 8));
    ck_assert_ptr_null(windows_pointer(&windows, 0, UINT64_C(1) << 63, 1));
    ck_assert_ptr_null(windows_pointer(&windows, 2, 0, 1));
    ck_assert_ptr_null(windows_pointer(&windows, -1, 0, 1));
    ck_assert_ptr_null(windows_pointer(&none, 0, 0, 0));
    windows_detach(&windows);
    close(fd);
}
END_TEST

static bool touch(void *arg)
{
    *(volatile char *)arg = 1;
    return true;
}

static void expect_closed(char *memory)
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        touch(memory);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_ne(status, 0);
}

START_TEST(only_what_is_opened_is_reached)
{
    struct windows windows;
    int fd = -1;
    int64_t page = sysconf(_SC_PAGESIZE);
    ck_assert_int_eq(windows_create(&windows, 2, &fd, &err), HVD_OK);
    ck_assert_int_eq(windows_own_bytes(&windows), 0);
    ck_assert_ptr_null(windows_pointer(&windows, 0, 0, 1));
    expect_closed(windows.base);
    ck_assert_int_eq(windows_open(&windows, 0, page + 1, &err), HVD_OK);
    ck_assert_int_eq(windows_own_bytes(&windows), 2 * page);
    touch(windows_pointer(&windows, 0, (uint64_t)(2 * page - 1), 1));
    ck_assert_ptr_null(windows_pointer(&windows, 0, (uint64_t)(2 * page - 1), 2));
    ck_assert_ptr_null(windows_pointer(&windows, 1, 0, 1));
    expect_closed(windows.base + 2 * page);
    ck_assert_int_eq(windows_open(&windows, 0, 5, &err), HVD_OK); /* it stays so far open */
    ck_assert_int_eq(windows_open(&windows, 0, INT64_MIN + page, &err), HVD_OK);
    ck_assert_int_eq(windows_own_bytes(&windows), 2 * page);
    ck_assert_int_eq(windows_open(&windows, 1, windows.bytes + 1, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(windows_open(&windows, 2, 1, &err), HVD_ERR_INVALID);
    expect_sentence("window 2 of 2 has");
    ck_assert_int_eq(windows_open(&windows, -1, 1, &err), HVD_ERR_INVALID);
    windows_detach(&windows);
    close(fd);
}
END_TEST

/* Who locks all of its memory would fill the node with them otherwise. */
START_TEST(who_locks_all_memory_has_no_more_of_it)
{
    struct windows windows;
    int fd = -1;
    unsigned char resident = 1;
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return; /* not allowed to */
    ck_assert_int_eq(windows_create(&windows, 2, &fd, &err), HVD_OK);
    ck_assert_int_eq(windows_open(&windows, 0, 8 * MIB, &err), HVD_OK);
    ck_assert_int_eq(mincore(windows.base + 9 * MIB, 1, &resident), 0);
    ck_assert_int_eq(resident & 1, 0);
    ck_assert_int_eq(munlockall(), 0);
    windows_detach(&windows);
    close(fd);
}
END_TEST

/* ---- Refused ---- */

static void expect_refusal(int fd, const char *sentence)
{
    struct windows windows = {.own = 77};
    ck_assert_int_eq(windows_attach(&windows, fd, 3, 1, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_null(windows.base);
    ck_assert_int_eq(windows.own, 77);
    expect_sentence(sentence);
}

START_TEST(unsealed_windows_are_refused)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, 6 * MIB), 0);
    expect_refusal(fd, "is not sealed");
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_refusal(fd, "is not sealed");
    close(fd);
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    expect_refusal(fds[0], "cannot look at the memory");
    close(fds[0]);
    close(fds[1]);
}
END_TEST

static const struct {
    int64_t bytes;
    bool is_good;
} sizes[] = {{6 * MIB, true}, /* of 3 windows */
             {9 * 2 * MIB, true},
             {0, false},
             {3 * MIB, false},
             {8 * MIB, false},
             {6 * MIB + 4096, false},
             {6 * MIB - 1, false},
             {MOST_TIB * TIB / (6 * MIB) * (6 * MIB) + 6 * MIB, false},
             {INT64_MAX / (6 * MIB) * (6 * MIB), false}};

START_TEST(windows_have_sizes_that_hvd_gives)
{
    struct windows windows;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, sizes[_i].bytes), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    if (sizes[_i].is_good) {
        ck_assert_int_eq(windows_attach(&windows, fd, 3, 1, &err), HVD_OK);
        ck_assert_int_eq(windows.bytes, sizes[_i].bytes / 3);
        ck_assert_int_eq(windows.own, 1);
        windows_detach(&windows);
    } else {
        expect_refusal(fd, "expected 3 times a multiple of 2097152, at most 17592186044416");
    }
    close(fd);
}
END_TEST

/* Not a signal, which would end the process without a word. */
START_TEST(windows_beyond_the_limit_of_files_are_refused)
{
    struct windows windows = {.base = NULL};
    struct rlimit before, limit;
    int fd = -1;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)(512 * MIB);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int status = windows_create(&windows, 2, &fd, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(status, HVD_ERR_SYSTEM);
    expect_sentence("ulimit -f");
    ck_assert_ptr_null(windows.base);
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(windows_beyond_the_limit_of_addresses_are_refused)
{
    struct windows made, windows = {.base = NULL};
    int fd = -1, none = -1;
    ck_assert_int_eq(windows_create(&made, 2, &fd, &err), HVD_OK);
    struct rlimit before = limit_mappings((uint64_t)(512 * MIB));
    int created = windows_create(&windows, 2, &none, &err);
    int attached = windows_attach(&windows, fd, 2, 1, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_int_eq(created, HVD_ERR_NO_MEMORY);
    ck_assert_int_eq(none, -1);
    ck_assert_int_eq(attached, HVD_ERR_NO_MEMORY);
    expect_sentence("cannot map");
    ck_assert_ptr_null(windows.base);
    windows_detach(&made);
    close(fd);
}
END_TEST

/* A limit of addresses makes it tell what it wants. */
START_TEST(many_windows_leave_addresses_to_the_program)
{
    struct windows windows;
    long long bytes = 0;
    int fd = -1;
    struct rlimit before = limit_mappings((uint64_t)(512 * MIB));
    int status = windows_create(&windows, 100000, &fd, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_int_eq(status, HVD_ERR_NO_MEMORY);
    ck_assert_msg(sscanf(err.text, "cannot map %lld bytes", &bytes) == 1, "%s", err.text);
    ck_assert_int_eq(bytes % (100000 * 2 * MIB), 0);
    ck_assert_int_le(bytes, MOST_TIB * TIB);
    ck_assert_int_gt(bytes, MOST_TIB * TIB / 2);
}
END_TEST

/* ---- Children and dumps ---- */

static bool only_own_is_there(void *arg)
{
    const struct windows *windows = arg;
    char *own = windows->base + windows->own * windows->bytes;
    for (int place = 0; place < windows->count; place++) {
        char *begin = windows->base + place * windows->bytes;
        bool first = is_mapped(begin), last = is_mapped(begin + windows->bytes - 4096);
        if (first != (begin == own) || last != (begin == own))
            return false;
    }
    return strcmp(own, "tensor") == 0;
}

START_TEST(a_child_has_its_parents_window_alone)
{
    struct windows made, windows;
    int fd = -1;
    ck_assert_int_eq(windows_create(&made, 3, &fd, &err), HVD_OK);
    ck_assert_int_eq(windows_attach(&windows, fd, 3, _i, &err), HVD_OK);
    windows_detach(&made);
    ck_assert_int_eq(windows_open(&windows, _i, windows.bytes, &err), HVD_OK);
    memcpy(windows.base + _i * windows.bytes, "tensor", 7);
    expect_in_child(only_own_is_there, &windows);
    windows_detach(&windows);
    close(fd);
}
END_TEST

/* They are mostly empty: a dump of a core would make all of it real. */
START_TEST(windows_are_in_no_dump)
{
    struct windows windows;
    int fd = -1;
    ck_assert_int_eq(windows_create(&windows, 2, &fd, &err), HVD_OK);
    ck_assert(has_flag(windows.base, " dd"));
    ck_assert(has_flag(windows.base + windows.bytes, " dd"));
    windows_detach(&windows);
    close(fd);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("windows");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, windows_are_large_enough_for_the_node);
    tcase_add_test(tcase, what_one_rank_writes_others_see);
    tcase_add_test(tcase, only_the_own_window_is_found);
    tcase_add_test(tcase, nothing_outside_a_window_is_reached);
    tcase_add_test(tcase, only_what_is_opened_is_reached);
    tcase_add_test(tcase, who_locks_all_memory_has_no_more_of_it);
    tcase_add_test(tcase, unsealed_windows_are_refused);
    tcase_add_loop_test(tcase, windows_have_sizes_that_hvd_gives, 0, sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_test(tcase, windows_beyond_the_limit_of_files_are_refused);
    tcase_add_test(tcase, windows_beyond_the_limit_of_addresses_are_refused);
    tcase_add_test(tcase, many_windows_leave_addresses_to_the_program);
    tcase_add_loop_test(tcase, a_child_has_its_parents_window_alone, 0, 3);
    tcase_add_test(tcase, windows_are_in_no_dump);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("windows", fill);
}
