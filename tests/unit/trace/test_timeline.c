/* test_timeline.c: the timeline of a rank: what is in it, and that it is JSON whatever happens. */
#include "config.h"

#include "temp_folder.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "trace/trace.h"

#define FILE_NAME "rank-3.json"

static struct trace *trace;
static char warning[600];
static int warning_count;

static void keep_warning(void *arg, enum log_level level, const char *component, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(warning, sizeof(warning), "%s: %s", component, line);
    warning_count++;
}

static const struct hvd_log test_log = {LOG_WARN, keep_warning, NULL};

static void make_trace(const char *host, const char *dump_dir)
{
    struct trace_params plan = {.rank = 3, .size = 8, .host = host, .dump_dir = dump_dir, .log = &test_log};
    ck_assert_int_eq(trace_create(&trace, &plan, NULL), HVD_OK);
}

static void start(void)
{
    struct hvd_error err = {""};
    ck_assert_msg(trace_timeline_start(trace, folder, &err) == HVD_OK, "%s", err.text);
}

static void stop(void)
{
    struct hvd_error err = {""};
    ck_assert_msg(trace_timeline_stop(trace, &err) == HVD_OK, "%s", err.text);
}

static void setup(void)
{
    folder_empty();
    make_trace("n2", "");
}

static void teardown(void)
{
    trace_destroy(trace);
}

/* The file, which must be an array of objects. */
static json_t *load(void)
{
    json_error_t why;
    char *text = folder_read(FILE_NAME);
    ck_assert_ptr_nonnull(text);
    json_t *events = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(events != NULL, "line %d: %s:\n%s", why.line, why.text, text);
    ck_assert(json_is_array(events));
    free(text);
    return events;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text == NULL ? "" : text;
}

static int64_t number_of(const json_t *event, const char *key)
{
    ck_assert_msg(json_is_integer(json_object_get(event, key)), "%s", key);
    return json_integer_value(json_object_get(event, key));
}

/* The [nth] event of that name, or NULL. */
static const json_t *find(const json_t *events, const char *name, int nth)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "name"), name) == 0 && nth-- == 0)
            return event;
    }
    return NULL;
}

static int64_t now;

/* One operation with all its steps, 10 us each. */
static void run(const char *name, int status)
{
    struct trace_op op = {.kind = "allreduce", .name = name, .bytes = 1024, .set = 2, .tensors = 1};
    now = clock_us();
    trace_submitted(trace, &op, now);
    trace_decided(trace, &op, 17, now + 10);
    trace_step(trace, &op, TRACE_PACKING, now + 20);
    trace_step(trace, &op, TRACE_TRANSFERRING, now + 30);
    trace_step(trace, &op, TRACE_UNPACKING, now + 40);
    trace_done(trace, &op, status, now + 50);
}

/* ---- What is in it ------------------------------------------------------------------------------ */

START_TEST(each_part_is_an_event)
{
    static const char *const parts[] = {"waiting for peers", "queued", "packing", "wire", "unpacking"};
    start();
    run("layer3.weight", HVD_OK);
    stop();
    json_t *events = load();
    const json_t *event = find(events, "layer3.weight", 0);
    ck_assert_ptr_nonnull(event);
    ck_assert_str_eq(text_of(event, "ph"), "X");
    ck_assert_str_eq(text_of(event, "cat"), "allreduce");
    ck_assert_int_eq(number_of(event, "pid"), 3);
    ck_assert_int_eq(number_of(event, "ts"), now);
    ck_assert_int_eq(number_of(event, "dur"), 50);
    const json_t *args = json_object_get(event, "args");
    ck_assert_int_eq(number_of(args, "set"), 2);
    ck_assert_int_eq(number_of(args, "number"), 17);
    ck_assert_int_eq(number_of(args, "submitted"), now);
    ck_assert_int_eq(number_of(args, "bytes"), 1024);
    ck_assert_int_eq(number_of(args, "tensors"), 1);
    ck_assert_str_eq(text_of(args, "status"), "done");
    for (int i = 0; i < 5; i++) {
        const json_t *part = find(events, parts[i], 0);
        ck_assert_ptr_nonnull(part);
        ck_assert_int_eq(number_of(part, "ts"), now + 10 * i);
        ck_assert_int_eq(number_of(part, "dur"), 10);
        ck_assert_int_eq(number_of(part, "tid"), number_of(event, "tid"));
    }
    json_decref(events);
}
END_TEST

START_TEST(steps_that_were_passed_over_are_not_there)
{
    struct trace_op op = {.kind = "broadcast", .name = "b", .tensors = 1};
    start();
    now = clock_us();
    trace_submitted(trace, &op, now);
    trace_decided(trace, &op, 1, now + 5);
    trace_step(trace, &op, TRACE_TRANSFERRING, now + 7);
    trace_done(trace, &op, HVD_ERR_RANK_LOST, now + 30);
    stop();
    json_t *events = load();
    ck_assert_int_eq(number_of(find(events, "waiting for peers", 0), "dur"), 5);
    ck_assert_int_eq(number_of(find(events, "queued", 0), "dur"), 2);
    ck_assert_int_eq(number_of(find(events, "wire", 0), "dur"), 23);
    ck_assert_ptr_null(find(events, "packing", 0));
    ck_assert_ptr_null(find(events, "unpacking", 0));
    ck_assert_str_eq(text_of(json_object_get(find(events, "b", 0), "args"), "status"), "a rank was lost");
    json_decref(events);
}
END_TEST

START_TEST(what_was_never_decided_only_waited)
{
    struct trace_op op = {.kind = "join", .name = "\001join", .tensors = 1};
    start();
    now = clock_us();
    trace_submitted(trace, &op, now);
    trace_done(trace, &op, HVD_ERR_SHUTDOWN, now + 9);
    stop();
    json_t *events = load();
    ck_assert_ptr_nonnull(find(events, "join", 0));
    ck_assert_int_eq(number_of(json_object_get(find(events, "join", 0), "args"), "number"), 0);
    ck_assert_int_eq(number_of(find(events, "waiting for peers", 0), "dur"), 9);
    ck_assert_uint_eq(json_array_size(events), 3 + 2);
    json_decref(events);
}
END_TEST

static const struct {
    const char *name, *read; /* as JSON gives it back */
} names[] = {
    {"a\"b\\c\x1b[31m\t", "a\"b\\c\x1b[31m\t"},
    {"gr\xc3\xb6\xc3\x9f\xe2\x82\xac", "gr\xc3\xb6\xc3\x9f\xe2\x82\xac"},
    {"\xe9t\xe9", "\xc3\xa9t\xc3\xa9"}, /* Latin-1 */
    {"\xff\xfe", "\xc3\xbf\xc3\xbe"},
    {"\xed\xa0\x80", "\xc3\xad\xc2\xa0\xc2\x80"},
    {"]},{\"ph\":\"X\"", "]},{\"ph\":\"X\""},
};

START_TEST(any_name_can_be_read_back)
{
    start();
    run(names[_i].name, HVD_OK);
    stop();
    json_t *events = load();
    ck_assert_ptr_nonnull(find(events, names[_i].read, 0));
    json_decref(events);
}
END_TEST

START_TEST(the_longest_names_fit)
{
    char name[256];
    memset(name, 0x80, 255); /* 6 bytes each */
    name[255] = 0;
    start();
    for (int i = 0; i < 100; i++)
        run(name, HVD_ERR_INVALID);
    stop();
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 100 * 6);
    json_decref(events);
}
END_TEST

START_TEST(it_says_whose_it_is)
{
    teardown();
    make_trace("n\"2", "");
    start();
    json_t *events = load();
    ck_assert_str_eq(text_of(json_object_get(find(events, "process_name", 0), "args"), "name"),
                     "rank 3 (n\"2)");
    const json_t *args = json_object_get(find(events, "hvd_clock", 0), "args");
    ck_assert_int_eq(number_of(args, "rank"), 3);
    ck_assert_int_eq(number_of(args, "size"), 8);
    ck_assert_str_eq(text_of(args, "host"), "n\"2");
    ck_assert_int_eq(number_of(args, "offset_us"), 0);
    ck_assert_int_eq(number_of(args, "error_us"), -1);
    json_decref(events);
    trace_set_clock_offset(trace, -1234, 5);
    events = load(); /* written at once */
    args = json_object_get(find(events, "hvd_clock", 1), "args");
    ck_assert_int_eq(number_of(args, "offset_us"), -1234);
    ck_assert_int_eq(number_of(args, "error_us"), 5);
    json_decref(events);
    stop();
    start();
    events = load(); /* kept for the next one */
    ck_assert_int_eq(number_of(json_object_get(find(events, "hvd_clock", 0), "args"), "offset_us"), -1234);
    ck_assert_ptr_null(find(events, "hvd_clock", 1));
    json_decref(events);
}
END_TEST

/* ---- Rows --------------------------------------------------------------------------------------- */

#define OPERATIONS 400

/* Spans of one row do not cross: each lies within another one or beside it. */
START_TEST(spans_of_a_row_do_not_cross)
{
    static struct trace_op ops[OPERATIONS];
    static int64_t begin_us[OPERATIONS];
    static int64_t end_us[OPERATIONS];
    static int64_t row[OPERATIONS];
    unsigned seed = (unsigned)_i + 1;
    int begun = 0;
    int ended = 0;
    start();
    now = clock_us();
    while (ended < OPERATIONS) {
        now += rand_r(&seed) % 3;
        if (begun < OPERATIONS && rand_r(&seed) % 2 == 0) {
            ops[begun] = (struct trace_op){.kind = "allreduce", .name = "x", .tensors = 1};
            trace_submitted(trace, &ops[begun++], now);
            continue;
        }
        int pick = begun == 0 ? 0 : rand_r(&seed) % begun;
        if (begun > 0 && ops[pick].step != TRACE_DONE) {
            trace_done(trace, &ops[pick], HVD_OK, now);
            ended++;
        }
    }
    stop();
    json_t *events = load();
    for (int i = 0; i < OPERATIONS; i++) {
        const json_t *event = find(events, "x", i);
        ck_assert_ptr_nonnull(event);
        begin_us[i] = number_of(event, "ts");
        end_us[i] = begin_us[i] + number_of(event, "dur");
        row[i] = number_of(event, "tid");
        for (int j = 0; j < i; j++)
            ck_assert(row[i] != row[j] || begin_us[i] >= end_us[j] || begin_us[j] >= end_us[i]);
    }
    json_decref(events);
}
END_TEST

/* A thread may look at the clock, be delayed, and get the row of an operation that ended meanwhile. */
START_TEST(a_late_thread_does_not_cross)
{
    struct trace_op first = {.kind = "allreduce", .name = "first", .tensors = 1};
    struct trace_op second = {.kind = "allreduce", .name = "second", .tensors = 1};
    start();
    now = clock_us();
    trace_submitted(trace, &first, now);
    trace_done(trace, &first, HVD_OK, now + 100);
    trace_submitted(trace, &second, now + 50);
    trace_decided(trace, &second, 1, now + 70);
    trace_done(trace, &second, HVD_OK, now + 120);
    stop();
    json_t *events = load();
    const json_t *event = find(events, "second", 0);
    ck_assert_int_eq(number_of(event, "tid"), number_of(find(events, "first", 0), "tid"));
    ck_assert_int_eq(number_of(event, "ts"), now + 100);
    ck_assert_int_eq(number_of(event, "dur"), 20);
    ck_assert_int_eq(number_of(json_object_get(event, "args"), "submitted"), now + 50);
    ck_assert_int_eq(number_of(find(events, "queued", 0), "ts"), now + 100);
    json_decref(events);
}
END_TEST

START_TEST(rows_are_used_again)
{
    start();
    for (int i = 0; i < 10; i++)
        run("x", HVD_OK);
    stop();
    json_t *events = load();
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(number_of(find(events, "x", i), "tid"), 1);
    json_decref(events);
}
END_TEST

START_TEST(more_operations_than_rows_are_all_there)
{
    static struct trace_op ops[1100];
    start();
    for (int i = 0; i < 1100; i++) {
        ops[i] = (struct trace_op){.kind = "allreduce", .name = "x", .tensors = 1};
        trace_submitted(trace, &ops[i], clock_us());
    }
    for (int i = 0; i < 1100; i++)
        trace_done(trace, &ops[i], HVD_OK, clock_us());
    run("y", HVD_OK);
    stop();
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 1100 * 2 + 6);
    ck_assert_int_eq(number_of(find(events, "y", 0), "tid"), 1);
    json_decref(events);
}
END_TEST

/* ---- Start and stop ----------------------------------------------------------------------------- */

START_TEST(only_what_began_in_it_is_in_it)
{
    struct trace_op early = {.kind = "allreduce", .name = "early", .tensors = 1};
    struct trace_op late = {.kind = "allreduce", .name = "late", .tensors = 1};
    trace_submitted(trace, &early, clock_us());
    run("before", HVD_OK);
    start();
    run("inside", HVD_OK);
    trace_done(trace, &early, HVD_OK, clock_us());
    trace_submitted(trace, &late, clock_us());
    stop();
    trace_done(trace, &late, HVD_OK, clock_us());
    run("after", HVD_OK);
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 6);
    ck_assert_ptr_nonnull(find(events, "inside", 0));
    json_decref(events);
}
END_TEST

START_TEST(an_operation_of_an_older_one_is_not_in_it)
{
    struct trace_op old = {.kind = "allreduce", .name = "old", .tensors = 1};
    start();
    trace_submitted(trace, &old, clock_us());
    stop();
    now = clock_us();
    while (clock_us() == now)
        ;
    start();
    trace_done(trace, &old, HVD_OK, clock_us());
    run("new", HVD_OK);
    stop();
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 6);
    ck_assert_int_eq(number_of(find(events, "new", 0), "tid"), 1);
    json_decref(events);
}
END_TEST

START_TEST(one_is_written_at_a_time)
{
    struct hvd_error err = {""};
    ck_assert_int_eq(trace_timeline_stop(trace, &err), HVD_ERR_STATE);
    ck_assert_msg(strstr(err.text, "no timeline is being written") != NULL, "%s", err.text);
    start();
    ck_assert_int_eq(trace_timeline_start(trace, folder, &err), HVD_ERR_STATE);
    ck_assert_msg(strstr(err.text, FILE_NAME " is being written; stop it first") != NULL, "%s", err.text);
    stop();
    ck_assert_int_eq(trace_timeline_stop(trace, NULL), HVD_ERR_STATE);
}
END_TEST

START_TEST(its_folder_is_made)
{
    char path[200], name[300];
    struct stat status;
    mode_t mask = umask(022);
    snprintf(path, sizeof(path), "%s/made", folder);
    snprintf(name, sizeof(name), "%s/" FILE_NAME, path);
    ck_assert_int_eq(trace_timeline_start(trace, path, NULL), HVD_OK);
    stop();
    umask(mask);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0755);
    ck_assert_int_eq(stat(name, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0644);
}
END_TEST

START_TEST(it_replaces_an_older_one)
{
    start();
    for (int i = 0; i < 2000; i++)
        run("long", HVD_OK);
    stop();
    start();
    run("short", HVD_OK);
    stop();
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 6);
    json_decref(events);
}
END_TEST

static const struct {
    const char *folder; /* below ours, unless it begins with / */
    const char *expect;
} bad_folders[] = {
    {"none/deep", "none/deep cannot be created: No such file"},
    {"/dev/null", "/dev/null/" FILE_NAME " cannot be opened: Not a directory"},
    {"pipe", "pipe/" FILE_NAME " cannot be opened: No such device"},
    {"link", "link/" FILE_NAME " cannot be opened: Too many levels"},
};

START_TEST(a_bad_folder_is_a_sentence)
{
    char path[200];
    char name[300];
    struct hvd_error err = {""};
    snprintf(path, sizeof(path), "%s/%s", bad_folders[_i].folder[0] == '/' ? "" : folder,
             bad_folders[_i].folder);
    snprintf(name, sizeof(name), "%s/" FILE_NAME, path);
    if (_i >= 2)
        ck_assert_int_eq(mkdir(path, 0700), 0);
    if (_i == 2)
        ck_assert_int_eq(mkfifo(name, 0600), 0);
    if (_i == 3)
        ck_assert_int_eq(symlink("/dev/null", name), 0);
    ck_assert_int_eq(trace_timeline_start(trace, path, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, bad_folders[_i].expect) != NULL, "%s", err.text);
    start(); /* elsewhere it works */
    run("x", HVD_OK);
    stop();
}
END_TEST

/* ---- Whatever happens --------------------------------------------------------------------------- */

START_TEST(it_is_json_after_every_write)
{
    start();
    for (int i = 0; i < 20; i++) {
        json_decref(load());
        run("x", HVD_OK);
        trace_dump(trace, "a test");
    }
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 20 * 6);
    json_decref(events);
    for (int i = 0; i < 500; i++) {
        run("some longer name, so that the buffer fills sooner than it otherwise would", HVD_OK);
        if (i % 10 == 0)
            json_decref(load());
    }
    events = load();
    ck_assert_uint_gt(json_array_size(events), 3 + 20 * 6 + 100); /* the buffer was full several times */
    json_decref(events);
}
END_TEST

static int status_of_child(void (*die)(void))
{
    teardown();
    trace = NULL;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        die();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void die_by_segv(void)
{
    make_trace("n2", folder);
    start();
    for (int i = 0; i < 1000; i++)
        run("x", HVD_OK);
    raise(SIGSEGV);
}

START_TEST(a_crash_loses_nothing)
{
    int status = status_of_child(die_by_segv);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    json_t *events = load();
    ck_assert_uint_eq(json_array_size(events), 3 + 1000 * 6);
    json_decref(events);
}
END_TEST

static void die_by_kill(void)
{
    make_trace("n2", "");
    start();
    for (int i = 0; i < 1000; i++)
        run("x", HVD_OK);
    raise(SIGKILL);
}

START_TEST(a_killed_process_leaves_json)
{
    int status = status_of_child(die_by_kill);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    json_t *events = load();
    ck_assert_uint_gt(json_array_size(events), 3 + 100 * 6);
    json_decref(events);
}
END_TEST

START_TEST(a_full_disk_ends_it_with_one_warning)
{
    struct rlimit limit = {100000, RLIM_INFINITY}; /* the end of the disk comes amid a write */
    start();
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 2000; i++)
        run("x", HVD_OK);
    ck_assert_int_eq(warning_count, 1);
    ck_assert_msg(strstr(warning, "timeline: ") != NULL && strstr(warning, FILE_NAME) != NULL, "%s", warning);
    ck_assert_msg(strstr(warning, "cannot be written: File too large; raise `ulimit -f`; it ends here") !=
                      NULL,
                  "%s", warning);
    json_t *events = load();
    ck_assert_uint_gt(json_array_size(events), 3 + 50 * 6);
    ck_assert_uint_eq(json_array_size(events) % 6, 3); /* whole operations */
    json_decref(events);
    ck_assert_int_eq(trace_timeline_stop(trace, NULL), HVD_ERR_STATE);
    start(); /* and it may begin again */
    run("x", HVD_OK);
    stop();
}
END_TEST

START_TEST(a_full_disk_at_the_start_is_a_sentence)
{
    const struct rlimit low = {10, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    struct hvd_error err = {""};
    setrlimit(RLIMIT_FSIZE, &low); /* no assertion under it: Check writes to a file */
    int rc = trace_timeline_start(trace, folder, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    ck_assert_int_eq(rc, HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "cannot be written: File too large") != NULL, "%s", err.text);
    run("x", HVD_OK);
}
END_TEST

/* ---- Many threads ------------------------------------------------------------------------------- */

#define THREADS 3

static void *run_many(void *arg)
{
    const char *name = arg;
    for (int i = 0; i < 1000; i++) {
        struct trace_op op = {.kind = "allreduce", .name = name, .tensors = 1};
        trace_submitted(trace, &op, clock_us());
        trace_decided(trace, &op, (uint64_t)i + 1, clock_us());
        trace_done(trace, &op, HVD_OK, clock_us());
    }
    return NULL;
}

START_TEST(it_starts_and_stops_while_threads_submit)
{
    static char thread_names[THREADS][4] = {"a", "b", "c"};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, thread_names[i]), 0);
    for (int i = 0; i < 50; i++) {
        start();
        trace_set_clock_offset(trace, i, i);
        stop();
        json_decref(load());
    }
    start();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    stop();
    json_decref(load());
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("timeline");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, each_part_is_an_event);
    tcase_add_test(tcase, steps_that_were_passed_over_are_not_there);
    tcase_add_test(tcase, what_was_never_decided_only_waited);
    tcase_add_loop_test(tcase, any_name_can_be_read_back, 0, sizeof(names) / sizeof(names[0]));
    tcase_add_test(tcase, the_longest_names_fit);
    tcase_add_test(tcase, it_says_whose_it_is);
    tcase_add_loop_test(tcase, spans_of_a_row_do_not_cross, 0, 3);
    tcase_add_test(tcase, a_late_thread_does_not_cross);
    tcase_add_test(tcase, rows_are_used_again);
    tcase_add_test(tcase, more_operations_than_rows_are_all_there);
    tcase_add_test(tcase, only_what_began_in_it_is_in_it);
    tcase_add_test(tcase, an_operation_of_an_older_one_is_not_in_it);
    tcase_add_test(tcase, one_is_written_at_a_time);
    tcase_add_test(tcase, its_folder_is_made);
    tcase_add_test(tcase, it_replaces_an_older_one);
    tcase_add_loop_test(tcase, a_bad_folder_is_a_sentence, 0, sizeof(bad_folders) / sizeof(bad_folders[0]));
    tcase_add_test(tcase, it_is_json_after_every_write);
    tcase_add_test(tcase, a_crash_loses_nothing);
    tcase_add_test(tcase, a_killed_process_leaves_json);
    tcase_add_test(tcase, a_full_disk_ends_it_with_one_warning);
    tcase_add_test(tcase, a_full_disk_at_the_start_is_a_sentence);
    tcase_add_test(tcase, it_starts_and_stops_while_threads_submit);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("timeline", fill);
}
