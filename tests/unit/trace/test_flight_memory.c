/* test_flight_memory.c: the flight record in memory of the launcher's: what it reads of a rank that has
 * ended. */
#include "config.h"

#include "temp_folder.h"
#include "traced_rank.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/process_signal.h"
#include "trace/flight_memory.h"

static char memory_path[100];

/* As create, in a file of the launcher's. */
static struct trace *create_for_launcher(void)
{
    struct hvd_error err = {""};
    struct trace *made = NULL;
    snprintf(memory_path, sizeof(memory_path), "%s/memory", folder);
    struct trace_params plan = {
        .rank = 3, .size = 8, .host = "n2", .dump_dir = "", .flight_memory = memory_path};
    ck_assert_msg(trace_create(&made, &plan, &err) == HVD_OK, "%s", err.text);
    return made;
}

static struct flight *read_memory(void)
{
    struct flight *flight = flight_memory_read(memory_path);
    ck_assert_ptr_nonnull(flight);
    return flight;
}

static void expect_last(const char *title, bool done, bool waits)
{
    struct flight_last last;
    struct flight *flight = read_memory();
    ck_assert(flight_find_last(flight, &last));
    ck_assert_str_eq(last.title, title);
    ck_assert_int_eq(last.done, done);
    ck_assert_int_eq(last.waits, waits);
    free(flight);
}

START_TEST(the_launcher_sees_what_a_rank_waits_for)
{
    struct trace_op first = {.kind = "allreduce", .name = "a\n", .tensors = 1};
    struct trace_op second = {.kind = "alltoall", .name = "b", .tensors = 2};
    teardown();
    trace = create_for_launcher();
    struct flight_last last;
    struct flight *flight = read_memory();
    ck_assert(!flight_find_last(flight, &last));
    free(flight);
    trace_submitted(trace, &first, clock_us());
    trace_submitted(trace, &second, clock_us());
    expect_last("allreduce \"a\\x0a\"", false, false);
    trace_wait_begin(trace);
    expect_last("allreduce \"a\\x0a\"", false, true);
    trace_done(trace, &first, HVD_OK, clock_us());
    expect_last("alltoall \"b\" and 1 more", false, true);
    trace_wait_end(trace);
    trace_done(trace, &second, HVD_OK, clock_us());
    expect_last("alltoall \"b\" and 1 more", true, false);
}
END_TEST

START_TEST(the_launcher_sees_who_has_left)
{
    teardown();
    trace = create_for_launcher();
    struct flight *flight = read_memory();
    ck_assert(!atomic_load(&flight->left));
    free(flight);
    trace_destroy(trace);
    trace = NULL;
    flight = read_memory();
    ck_assert(atomic_load(&flight->left));
    free(flight);
    trace = create_for_launcher(); /* the rank joins again */
    flight = read_memory();
    ck_assert(!atomic_load(&flight->left));
    free(flight);
}
END_TEST

START_TEST(a_rank_learns_of_the_launchers_verdict)
{
    struct stat status;
    teardown();
    snprintf(memory_path, sizeof(memory_path), "%s/none", folder);
    ck_assert(!flight_memory_tell_verdict(memory_path, 1));
    trace = create_for_launcher();
    ck_assert_int_eq(trace_verdict(NULL), -1);
    ck_assert_int_eq(trace_verdict(trace), -1);
    ck_assert(flight_memory_tell_verdict(memory_path, 0));
    ck_assert_int_eq(trace_verdict(trace), 0);
    ck_assert(flight_memory_tell_verdict(memory_path, 7));
    ck_assert_int_eq(trace_verdict(trace), 7);
    ck_assert_int_eq(truncate(memory_path, 64), 0);
    ck_assert(!flight_memory_tell_verdict(memory_path, 7)); /* another program's file stays as it is */
    ck_assert_int_eq(stat(memory_path, &status), 0);
    ck_assert_int_eq(status.st_size, 64);
    ck_assert_int_eq(truncate(memory_path, sizeof(struct flight)), 0);
}
END_TEST

START_TEST(a_record_in_inherited_memory_has_one_writer)
{
    int fd = flight_memory_make();
    ck_assert_int_ge(fd, 0);
    ck_assert(!flight_memory_stays(fd));
    snprintf(memory_path, sizeof(memory_path), "/proc/self/fd/%d", fd);
    struct flight_memory memory;
    ck_assert_int_eq(flight_memory_create(&memory, memory_path), HVD_OK);
    ck_assert(memory.of_launcher && flight_memory_stays(fd));
    pid_t child = fork();
    if (child == 0) { /* it has its own record, and leaves this one alone */
        struct flight_memory own;
        int rc = flight_memory_create(&own, memory_path);
        atomic_store(&own.flight->left, true);
        _exit(rc != HVD_OK || own.of_launcher);
    }
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(flight_memory_stays(fd));
    atomic_store(&memory.flight->left, true);
    ck_assert(!flight_memory_stays(fd));
    flight_memory_destroy(&memory);
    ck_assert_int_eq(flight_memory_create(&memory, memory_path), HVD_OK); /* it joins again */
    ck_assert(memory.of_launcher && flight_memory_stays(fd));
    flight_memory_destroy(&memory);
    struct flight *flight = flight_memory_read_fd(fd);
    ck_assert_ptr_nonnull(flight);
    free(flight);
    close(fd);
}
END_TEST

START_TEST(the_record_of_a_process_that_has_ended_is_taken_over)
{
    int fd = flight_memory_make();
    struct flight_memory memory;
    snprintf(memory_path, sizeof(memory_path), "/proc/self/fd/%d", fd);
    pid_t child = fork();
    if (child == 0)
        _exit(flight_memory_create(&memory, memory_path) != HVD_OK || !memory.of_launcher);
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(flight_memory_create(&memory, memory_path), HVD_OK);
    ck_assert(memory.of_launcher);
    flight_memory_destroy(&memory);
    close(fd);
}
END_TEST

START_TEST(other_memory_is_left_alone)
{
    int fd = kernel_memfd_create("other");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(struct flight)), 0);
    snprintf(memory_path, sizeof(memory_path), "/proc/self/fd/%d", fd);
    struct flight_memory memory;
    ck_assert_int_eq(flight_memory_create(&memory, memory_path), HVD_OK);
    ck_assert(!memory.of_launcher);
    flight_memory_destroy(&memory);
    ck_assert(!flight_memory_stays(fd));
    close(fd);
}
END_TEST

START_TEST(kinds_beyond_the_table_are_operations)
{
    static char kinds[FLIGHT_KINDS + 1][8];
    teardown();
    trace = create_for_launcher();
    for (int i = 0; i <= FLIGHT_KINDS; i++) {
        snprintf(kinds[i], sizeof(kinds[i]), "kind%d", i);
        struct trace_op op = {.kind = kinds[i], .name = "x", .tensors = 1};
        trace_submitted(trace, &op, clock_us());
        trace_done(trace, &op, HVD_OK, clock_us());
        if (i == FLIGHT_KINDS - 2)
            expect_last("kind14 \"x\"", true, false);
    }
    expect_last("operation \"x\"", true, false);
}
END_TEST

START_TEST(what_is_no_record_is_not_read)
{
    static struct flight garbage;
    snprintf(memory_path, sizeof(memory_path), "%s/memory", folder);
    ck_assert_ptr_null(flight_memory_read(memory_path));
    ck_assert_ptr_null(flight_memory_read(folder));
    FILE *file = fopen(memory_path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(&garbage, sizeof(garbage), 1, file), 1);
    fclose(file);
    ck_assert_ptr_null(flight_memory_read(memory_path));
    ck_assert_int_eq(truncate(memory_path, 100), 0);
    ck_assert_ptr_null(flight_memory_read(memory_path));
}
END_TEST

START_TEST(a_file_that_cannot_be_used_is_no_obstacle)
{
    struct hvd_error err = {""};
    struct trace_params plan = {
        .rank = 3, .size = 8, .host = "n2", .dump_dir = "", .flight_memory = "/dev/null/none"};
    teardown();
    trace = NULL;
    ck_assert_int_eq(trace_create(&trace, &plan, &err), HVD_OK);
}
END_TEST

__attribute__((noinline)) static void write_to(volatile char *memory)
{
    *memory = 1;
    *memory = 2;
}

static void crash_for_launcher(int unused)
{
    (void)unused;
    trace = create_for_launcher();
    write_to(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void be_killed_for_launcher(int number)
{
    trace = create_for_launcher();
    process_signal_self(number);
}

static void expect_crash(const char *begin, const char *within)
{
    struct flight *flight = read_memory();
    size_t bytes = atomic_load(&flight->crash_bytes);
    ck_assert_uint_lt(bytes, sizeof(flight->crash));
    flight->crash[bytes] = 0;
    ck_assert_msg(strncmp(flight->crash, begin, strlen(begin)) == 0, "%s", flight->crash);
    ck_assert_msg(strstr(flight->crash, within) != NULL, "%s", flight->crash);
    free(flight);
}

START_TEST(the_launcher_sees_where_a_rank_crashed)
{
    snprintf(memory_path, sizeof(memory_path), "%s/memory", folder);
    int status = status_of_child(crash_for_launcher, 0);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    expect_crash("SIGSEGV at address 0x", " in ");
    expect_crash("", "test_flight_memory");
    expect_crash("", ", called from ");
    status = status_of_child(be_killed_for_launcher, SIGFPE);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE);
    expect_crash("SIGFPE, sent by process ", "kill");
}
END_TEST

/* As another process of this user finds it. */
static struct flight *read_shown(const struct flight_memory *memory)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), memory->shown.fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    struct flight *flight = flight_memory_read_live(fd);
    close(fd);
    return flight;
}

START_TEST(a_running_rank_without_a_launcher_can_be_read)
{
    const struct flight_rank rank = {.rank = 1, .size = 2, .epoch = 3, .host = "n1"};
    static struct flight_operation operations[FLIGHT_SLOTS];
    struct trace_op op = {.kind = "allreduce", .name = "x", .tensors = 1, .set = 2, .bytes = 8};
    char title[FLIGHT_TITLE_BYTES];
    struct flight_memory memory;
    ck_assert_int_eq(flight_memory_create(&memory, NULL), HVD_OK);
    flight_enter_phase(memory.flight, &rank, FLIGHT_WORKS);
    op.at_us[TRACE_SUBMITTED] = 5;
    flight_begin(memory.flight, &op);
    op.step = TRACE_DECIDED;
    op.at_us[TRACE_DECIDED] = 9;
    op.agreed = 7;
    flight_step(memory.flight, &op, HVD_IN_PROGRESS);
    struct flight *flight = read_shown(&memory);
    ck_assert_ptr_nonnull(flight);
    ck_assert_int_eq(atomic_load(&flight->owner), getpid());
    ck_assert_int_eq(atomic_load(&flight->phase), FLIGHT_WORKS);
    ck_assert_int_eq(flight->rank.rank, 1);
    ck_assert_str_eq(flight->rank.host, "n1");
    ck_assert_int_eq(flight_read(flight, operations), 1);
    ck_assert_str_eq(flight_title(&operations[0], title), "allreduce \"x\" in process set 2");
    ck_assert_int_eq(operations[0].step, TRACE_DECIDED);
    ck_assert_uint_eq(operations[0].agreed, 7);
    ck_assert_int_eq(operations[0].set, 2);
    ck_assert_int_eq(flight_step_us(&operations[0]), 9);
    free(flight);
    int fd = memory.shown.fd;
    flight_memory_destroy(&memory);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
}
END_TEST

START_TEST(a_slot_that_changes_while_it_is_copied_is_left_out)
{
    static struct flight_slot before, after;
    atomic_store(&before.state, 5 * TRACE_STEP_COUNT + TRACE_SUBMITTED);
    atomic_store(&after.state, 5 * TRACE_STEP_COUNT + TRACE_DONE);
    ck_assert(flight_slots_agree(&before, &after)); /* the same operation has gone on */
    atomic_store(&after.state, (5 + FLIGHT_SLOTS) * TRACE_STEP_COUNT);
    ck_assert(!flight_slots_agree(&before, &after));
    atomic_store(&before.state, UINT64_MAX);
    atomic_store(&after.state, UINT64_MAX);
    ck_assert(!flight_slots_agree(&before, &after));
}
END_TEST

START_TEST(times_that_no_clock_shows_are_left_out)
{
    static struct flight_operation operations[FLIGHT_SLOTS];
    static const int64_t times[] = {-1, INT64_MAX, INT64_MIN, 4};
    struct flight_memory memory;
    ck_assert_int_eq(flight_memory_create(&memory, NULL), HVD_OK);
    for (int i = 0; i < 4; i++) {
        struct trace_op op = {.kind = "allreduce", .name = "x", .tensors = 1};
        op.at_us[TRACE_SUBMITTED] = times[i];
        flight_begin(memory.flight, &op);
    }
    ck_assert_int_eq(flight_read(memory.flight, operations), 1);
    ck_assert_int_eq(operations[0].submitted_us, 4);
    flight_memory_destroy(&memory);
}
END_TEST

START_TEST(what_has_not_the_size_of_a_record_is_not_read_live)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0); /* a read would wait */
    ck_assert_ptr_null(flight_memory_read_live(ends[0]));
    close(ends[0]);
    close(ends[1]);
    int fd = flight_memory_make();
    ck_assert_ptr_null(flight_memory_read_live(fd)); /* nothing is in it */
    close(fd);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("flight_memory");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_launcher_sees_what_a_rank_waits_for);
    tcase_add_test(tcase, the_launcher_sees_who_has_left);
    tcase_add_test(tcase, a_rank_learns_of_the_launchers_verdict);
    tcase_add_test(tcase, a_record_in_inherited_memory_has_one_writer);
    tcase_add_test(tcase, the_record_of_a_process_that_has_ended_is_taken_over);
    tcase_add_test(tcase, other_memory_is_left_alone);
    tcase_add_test(tcase, kinds_beyond_the_table_are_operations);
    tcase_add_test(tcase, what_is_no_record_is_not_read);
    tcase_add_test(tcase, a_file_that_cannot_be_used_is_no_obstacle);
    tcase_add_test(tcase, the_launcher_sees_where_a_rank_crashed);
    tcase_add_test(tcase, a_running_rank_without_a_launcher_can_be_read);
    tcase_add_test(tcase, a_slot_that_changes_while_it_is_copied_is_left_out);
    tcase_add_test(tcase, times_that_no_clock_shows_are_left_out);
    tcase_add_test(tcase, what_has_not_the_size_of_a_record_is_not_read_live);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("flight_memory", fill);
}
