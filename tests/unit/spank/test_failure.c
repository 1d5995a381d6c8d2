/* test_failure.c: tasks that fail are told to srun, which names the first; the test stands in for Slurm. */
#include "config.h"

#ifndef HAVE_SLURM

#include <stdio.h>

int main(void)
{
    puts("1..0 # SKIP built without Slurm's header slurm/spank.h");
    return 0;
}

#else

#include "allocated_bytes.h"
#include "fake_slurm.h"
#include "full_report.h"
#include "open_descriptors.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <slurm/slurm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "verdict/failure_report.h"
#include "spank/failure_reporter.h"
#include "spank/srun_verdict.h"
#include "spank/srun_watch.h"
#include "spank/step_reports.h"
#include "spank/task_traces.h"
#include "trace/flight_memory.h"
#include "trace/trace.h"

#define EXITED(status) ((status) << 8)

/* ---- From slurmstepd to srun ---- */

/* srun, and a node of it with [count] tasks. */
static void begin_step(uint32_t count)
{
    srun_watch_listen();
    user_setenv(FAILURE_REPORT_VARIABLE, getenv(FAILURE_REPORT_VARIABLE));
    user_setenv("SLURM_SRUN_COMM_HOST", "127.0.0.1");
    slurm.local_tasks = count;
    slurm.uid = getuid();
    slurm.gid = getgid();
    failure_reporter_begin(NULL);
}

/* The task leaves a record in which an operation has [status]; HVD_IN_PROGRESS: it is not done. */
static void leave_record(int index, int status, bool left)
{
    char path[32];
    struct flight_memory memory;
    struct trace_op op = {.kind = "allreduce", .name = "x", .tensors = 1};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", task_traces_of(index).flight);
    ck_assert_int_eq(flight_memory_create(&memory, path), HVD_OK);
    ck_assert(memory.of_launcher);
    op.at_us[TRACE_SUBMITTED] = clock_us();
    flight_begin(memory.flight, &op);
    if (status != HVD_IN_PROGRESS) {
        op.step = TRACE_DONE;
        op.at_us[TRACE_DONE] = clock_us();
        flight_step(memory.flight, &op, status);
    }
    atomic_store(&memory.flight->left, left);
    flight_memory_destroy(&memory);
}

static void end_task(int index, int wait_status)
{
    const struct task_end end = {
        .index = index, .rank = 2 + index, .size = 6, .wait_status = wait_status, .node = "n2"};
    failure_reporter_task_ended(NULL, &end);
}

static void expect_sentence(const char *start, const char *end)
{
    srun_verdict_print();
    ck_assert_msg(strstr(slurm.last, start) == slurm.last, "%s", slurm.last);
    ck_assert_msg(strlen(slurm.last) >= strlen(end) &&
                      strcmp(slurm.last + strlen(slurm.last) - strlen(end), end) == 0,
                  "%s", slurm.last);
    ck_assert_int_eq(slurm.lines, 1);
    slurm.lines = 0;
    srun_verdict_print(); /* not twice */
    ck_assert_int_eq(slurm.lines, 0);
}

/* ---- An elastic step ---- */

static bool went_on_without_2(int rank, const void *arg)
{
    (void)arg;
    return rank == 2;
}

static void print(const char *line)
{
    slurm_spank_log("%s", line);
}

/* In place of srun's thread. */
static void take_reports(struct step_reports *reports)
{
    const char *variable = getenv(FAILURE_REPORT_VARIABLE);
    step_reports_take(reports, srun_watch_fd(), strchr(variable, ':') + 1, clock_us() + 1000000);
}

static int judge_elastic(void)
{
    struct step_reports reports = {.size = 0};
    const struct step_judge judge = {.went_on_without = went_on_without_2, .print = print};
    take_reports(&reports);
    int status = step_reports_judge(&reports, &judge);
    ck_assert_int_eq(reports.size, 6);
    ck_assert(!reports.succeeded[2]);
    ck_assert(reports.succeeded[4]);
    step_reports_free(&reports);
    return status;
}

/* Each task is told of, and those without which the step went on do not count. */
START_TEST(an_elastic_step_is_judged_by_those_that_were_left)
{
    user_setenv("SLURM_HVD_EPOCHS", "4711");
    begin_step(3);
    end_task(0, SIGKILL);
    end_task(2, 0);
    ck_assert_int_eq(judge_elastic(), 0);
    ck_assert_int_eq(slurm.lines, 0);
}
END_TEST

START_TEST(an_elastic_step_fails_if_one_of_these_does)
{
    user_setenv("SLURM_HVD_EPOCHS", "4711");
    begin_step(3);
    end_task(0, SIGKILL);
    end_task(1, 9 << 8);
    end_task(2, 0);
    ck_assert_int_eq(judge_elastic(), 9);
    ck_assert_ptr_nonnull(
        strstr(slurm.last, "hvd: rank 3 (n2, pid 4711) failed first: exited with status 9"));
}
END_TEST

START_TEST(the_first_failure_is_named_once_at_the_end)
{
    begin_step(3);
    leave_record(1, HVD_IN_PROGRESS, false);
    end_task(1, SIGKILL);
    end_task(0, EXITED(1));
    end_task(2, 0);
    ck_assert_int_eq(slurm.lines, 0);
    expect_sentence(
        "hvd: rank 3 (n2, pid 4711) failed first: killed by SIGKILL, ",
        "ms after start, computing, with allreduce \"x\" in flight; of 5 other ranks 1 ended after it");
}
END_TEST

START_TEST(a_consequence_is_named_only_where_nothing_else_is_known)
{
    begin_step(3);
    for (int i = 0; i < 3; i++)
        leave_record(i, HVD_ERR_RANK_LOST, false);
    end_task(0, EXITED(1));
    end_task(1, EXITED(1));
    end_task(2, EXITED(1));
    expect_sentence("hvd: rank 2 (n2, pid 4711) failed first: exited with status 1, ",
                    "of 5 other ranks 2 ended after it");
}
END_TEST

START_TEST(a_consequence_gives_way)
{
    begin_step(2);
    leave_record(0, HVD_ERR_RANK_LOST, false);
    end_task(0, EXITED(1));
    end_task(1, EXITED(7));
    expect_sentence("hvd: rank 3 (n2, pid 4711) failed first: exited with status 7, ",
                    "ms after start; of 5 other ranks 1 ended after it");
}
END_TEST

START_TEST(a_rank_that_left_others_is_named)
{
    begin_step(2);
    leave_record(0, HVD_OK, false);
    leave_record(1, HVD_ERR_RANK_LOST, false);
    end_task(0, 0);
    end_task(1, EXITED(1));
    expect_sentence("hvd: rank 2 (n2, pid 4711) failed first: exited with status 0 while others waited for "
                    "allreduce \"x\", ",
                    "ms after start; of 5 other ranks 1 ended after it");
}
END_TEST

START_TEST(so_is_one_that_is_told_of_late)
{
    begin_step(2);
    leave_record(0, HVD_OK, false);
    leave_record(1, HVD_ERR_RANK_LOST, false);
    end_task(1, EXITED(1));
    end_task(0, 0);
    expect_sentence("hvd: rank 2 (n2, pid 4711) failed first: exited with status 0 while others waited for "
                    "allreduce \"x\", ",
                    "ms after start; of 5 other ranks 1 ended after it");
}
END_TEST

START_TEST(a_rank_that_lost_another_and_exits_with_0_left_nobody)
{
    begin_step(2);
    leave_record(0, HVD_ERR_RANK_LOST, false);
    leave_record(1, HVD_ERR_RANK_LOST, false);
    end_task(0, 0);
    end_task(1, EXITED(1));
    expect_sentence("hvd: rank 3 (n2, pid 4711) failed first: exited with status 1, ",
                    "ms after start, after allreduce \"x\" failed: a rank was lost");
}
END_TEST

START_TEST(an_exception_is_read_from_the_error_file)
{
    static const char json[] = "{\"message\": \"ValueError: no more data\"}";
    begin_step(1);
    ck_assert_int_eq(write(task_traces_of(0).error, json, strlen(json)), (ssize_t)strlen(json));
    end_task(0, EXITED(1));
    expect_sentence(
        "hvd: rank 2 (n2, pid 4711) failed first: ValueError: no more data, exited with status 1, ",
        "ms after start");
}
END_TEST

START_TEST(nothing_is_said_of_success)
{
    begin_step(2);
    leave_record(0, HVD_OK, true);
    leave_record(1, HVD_OK, false); /* all ended, and nobody waited */
    end_task(0, 0);
    end_task(1, 0);
    srun_verdict_print();
    ck_assert_int_eq(slurm.lines, 0);
}
END_TEST

/* Connect to srun and send [length] bytes; the connection stays open. */
static int disturb(const void *bytes, size_t length)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char found[FAILURE_TOKEN_BYTES];
    int port = 0;
    ck_assert(failure_report_parse_variable(getenv(FAILURE_REPORT_VARIABLE), &port, found));
    address.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
    return fd;
}

START_TEST(strangers_neither_forge_nor_hold_up)
{
    static struct failure_report report;
    static unsigned char message[FAILURE_REPORT_BYTES + 1];
    begin_step(1);
    report = full_report();
    size_t length = failure_report_encode(&report, "0123456789abcdef0123456789abcdef", message);
    int fds[] = {disturb("x", 1), disturb(message, length), disturb(message, sizeof(message))};
    end_task(0, EXITED(1));
    int64_t start_us = clock_us();
    expect_sentence("hvd: rank 2 (n2, pid 4711) failed first: exited with status 1, ", "ms after start");
    ck_assert_int_lt(clock_us() - start_us, 2000000);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        close(fds[i]);
}
END_TEST

/* ---- While the step runs ----
 * One process is both srun, with its thread, and slurmstepd, which forks. Fork before that thread starts:
 * under TSan a child that was forked while another thread held the lock of malloc waits for it for ever. */

/* On a slow machine srun would tell of other nodes that they are silent. */
static const struct watched_step watched = {
    .id = {.job = 4711, .number = 3, .components = 1}, .node_count = 1, .ends = true};

/* What stands in for Slurm's library, which srun has. */
static _Atomic int terms, kills;

#pragma GCC visibility push(default)
int slurm_signal_job_step(uint32_t job, uint32_t number, uint32_t signal_number)
{
    terms += job == 4711 && number == 3 && signal_number == SIGTERM;
    return 0;
}

static _Atomic time_t job_end; /* 0: not known */
static _Atomic bool controller_hangs;
static job_step_info_t step_info = {.time_limit = INFINITE};

int slurm_get_end_time(uint32_t job, time_t *end)
{
    while (controller_hangs)
        pause();
    *end = job_end;
    return job == 4711 ? 0 : -1;
}

int slurm_get_job_steps(time_t since, uint32_t job, uint32_t number, job_step_info_response_msg_t **found,
                        uint16_t flags)
{
    static job_step_info_response_msg_t response = {.job_step_count = 1, .job_steps = &step_info};
    (void)since;
    (void)flags;
    *found = &response;
    return job == 4711 && number == 3 ? 0 : -1;
}

void slurm_free_job_step_info_response_msg(job_step_info_response_msg_t *found)
{
    (void)found;
}

int slurm_terminate_job_step(uint32_t job, uint32_t number)
{
    kills += job == 4711 && number == 3;
    return 0;
}
#pragma GCC visibility pop

/* What another node tells srun. */
static void tell(const struct failure_report *report)
{
    char found[FAILURE_TOKEN_BYTES];
    int port = 0;
    ck_assert(failure_report_parse_variable(getenv(FAILURE_REPORT_VARIABLE), &port, found));
    ck_assert(failure_report_send("127.0.0.1", port, found, report, NULL));
}

/* A task of a node has failed. */
static void tell_of_end(bool joined, int wait_status)
{
    static struct failure_report report;
    report = full_report();
    report.end.joined = joined;
    report.end.wait_status = wait_status;
    tell(&report);
}

static void expect_ended(int wanted)
{
    int64_t deadline_us = clock_us() + 10000000;
    while (terms < wanted && clock_us() < deadline_us)
        usleep(1000);
    ck_assert_int_eq(terms, wanted);
}

START_TEST(a_task_that_fails_before_it_joins_ends_the_step)
{
    begin_step(1);
    srun_watch_begin(&watched);
    tell_of_end(false, EXITED(2));
    expect_ended(1);
    tell_of_end(false, EXITED(2)); /* once is enough */
    srun_verdict_print();
    ck_assert_int_eq(terms, 1);
    ck_assert_int_eq(kills, 0);
}
END_TEST

#define FIRST "hvd: rank 3 (n2, pid 4711, GPU 0000:17:00.0) "
#define ENDED FIRST "was ended first: killed by SIGKILL (from outside: cancelled, "

static const struct {
    int64_t ended_s;             /* how long ago the job had ended; negative: it will, 0: not known */
    uint32_t limit_min, run_min; /* of the step */
    const char *memory, *first;
} kills_of_jobs[] = {
    {5, INFINITE, 9, "", ENDED},
    {5, INFINITE, 9, "out of memory", FIRST "failed first: killed by SIGKILL (out of memory), "},
    {-60, INFINITE, 9, "", FIRST "failed first: killed by SIGKILL, "},
    {0, NO_VAL, 9, "", FIRST "failed first: killed by SIGKILL, "},
    {-60, 1, 0, "", FIRST "failed first: killed by SIGKILL, "},
    {-60, 1, 1, "", ENDED},
    {0, 5, 6, "out of memory", FIRST "failed first: killed by SIGKILL (out of memory), "},
};

/* A task that had joined is killed. */
static void tell_of_kill(const char *memory)
{
    static struct failure_report report;
    report = full_report();
    report.end.joined = true;
    report.facts.core[0] = report.crash[0] = 0;
    snprintf(report.facts.memory, sizeof(report.facts.memory), "%s", memory);
    begin_step(1);
    srun_watch_begin(&watched);
    tell(&report);
}

START_TEST(a_task_that_is_killed_as_slurm_ends_its_job_or_step_has_not_failed)
{
    job_end = kills_of_jobs[_i].ended_s == 0 ? 0 : time(NULL) - kills_of_jobs[_i].ended_s;
    step_info.time_limit = kills_of_jobs[_i].limit_min;
    step_info.run_time = kills_of_jobs[_i].run_min * 60;
    tell_of_kill(kills_of_jobs[_i].memory);
    expect_sentence(kills_of_jobs[_i].first, "of 5 other ranks 1 ended after it");
}
END_TEST

static pid_t begin_task(int index)
{
    pid_t pid = fork();
    while (pid == 0)
        pause();
    failure_reporter_task_begins(index, pid);
    return pid;
}

/* The signal that ends the other task, and what another node reports of one of its own, if that has ended. */
static const struct {
    int other, status;
    bool told, follows, together;
    const char *says;
} kills_of_nodes[] = {
    {SIGKILL, 0, false, false, false, " was ended first: killed by SIGKILL (from outside: "},
    {0, 0, false, false, false, " failed first: killed by SIGKILL, "},
    {SIGUSR1, 0, false, false, false, " failed first: killed by SIGKILL, "},
    {SIGKILL, SIGKILL, false, false, false, " failed first: killed by SIGKILL, "},
    {SIGKILL, SIGKILL, false, true, false, " failed first: killed by SIGKILL, "},
    {SIGKILL, SIGKILL, false, true, true, " was ended first: killed by SIGKILL (from outside: "},
    {SIGKILL, EXITED(9), true, false, false, " was ended first: killed by SIGKILL (from outside: "},
};

START_TEST(tasks_of_a_node_that_are_killed_together_have_not_failed)
{
    struct failure_report other = {.rank = 5, .size = 6, .pid = 1, .node = "n3", .after_us = 60000000};
    other.end = (struct verdict_end){kills_of_nodes[_i].status, .told = kills_of_nodes[_i].told};
    other.follows = kills_of_nodes[_i].follows, other.node_killed = kills_of_nodes[_i].together;
    begin_step(2);
    pid_t tasks[2] = {begin_task(0), begin_task(1)};
    process_signal(tasks[0], SIGKILL);
    process_signal(tasks[1], kills_of_nodes[_i].other);
    waitpid(tasks[0], NULL, 0);
    end_task(0, SIGKILL);
    if (other.end.wait_status != 0)
        tell(&other);
    srun_verdict_print();
    ck_assert_msg(strstr(slurm.last, kills_of_nodes[_i].says) != NULL, "%s", slurm.last);
    process_signal(tasks[1], SIGKILL);
    waitpid(tasks[1], NULL, 0);
}
END_TEST

/* It is still asked when the test ends. */
START_TEST(a_controller_that_does_not_answer_is_given_up)
{
    controller_hangs = true;
    tell_of_kill("");
    expect_sentence(FIRST "failed first: killed by SIGKILL, ", "of 5 other ranks 1 ended after it");
}
END_TEST

START_TEST(one_that_had_joined_or_ends_well_does_not)
{
    begin_step(1);
    srun_watch_begin(&watched);
    tell_of_end(true, EXITED(2));
    tell_of_end(false, 0);
    srun_verdict_print();
    ck_assert_int_eq(terms, 0);
}
END_TEST

START_TEST(nor_does_any_where_the_step_must_go_on)
{
    struct watched_step goes_on = watched;
    begin_step(1);
    goes_on.ends = false;
    srun_watch_begin(&goes_on);
    tell_of_end(false, EXITED(2));
    srun_verdict_print();
    ck_assert_int_eq(terms, 0);
}
END_TEST

/* A node that waits in hvd_init, or no longer. */
static void tell_of_wait(enum failure_kind kind)
{
    const struct failure_report report = {.kind = kind, .rank = 1, .size = 6};
    tell(&report);
}

START_TEST(a_task_that_ends_well_before_hvd_init_ends_the_step_once_others_wait_there)
{
    begin_step(2);
    end_task(0, 0);
    srun_watch_begin(&watched);
    tell_of_wait(FAILURE_WAITS);
    expect_ended(1);
    tell_of_end(true, SIGTERM);
    expect_sentence(
        "hvd: rank 2 (n2, pid 4711) failed first: exited with status 0 before it joined the job, which "
        "rank 1 waited for, ",
        "ms after start; of 5 other ranks 2 ended after it");
}
END_TEST

/* Nobody waits any more; the task had joined and left; nothing but a wait. */
START_TEST(otherwise_it_does_not)
{
    const enum failure_kind kinds[][2] = {{FAILURE_WAITED, FAILURE_WAITS}, {FAILURE_WAITS, FAILURE_BEGINS}};
    begin_step(2);
    leave_record(0, HVD_OK, true);
    end_task(_i == 1 ? 0 : 1, 0);
    srun_watch_begin(&watched);
    for (int i = 0; i < 2; i++)
        tell_of_wait(kinds[_i][i]);
    usleep(1000000); /* longer than srun waits */
    srun_verdict_print();
    ck_assert_int_eq(terms, 0);
    ck_assert_int_eq(slurm.lines, 0);
}
END_TEST

START_TEST(a_step_that_does_not_end_after_a_loss_is_explained_once)
{
    struct watched_step explained = watched;
    struct step_reports early = {.size = 0};
    int64_t deadline_us = clock_us() + 10000000;
    explained.explain_us = 1000;
    begin_step(2);
    leave_record(0, HVD_ERR_RANK_LOST, false);
    leave_record(1, HVD_ERR_RANK_LOST, false);
    end_task(0, EXITED(1));
    take_reports(&early);
    ck_assert_int_eq(early.size, 0); /* perhaps another task of this node has failed by itself */
    end_task(1, EXITED(1));
    srun_watch_begin(&explained);
    while (slurm.lines == 0 && clock_us() < deadline_us)
        usleep(1000);
    ck_assert_str_eq(slurm.last,
                     "hvd: rank 2 (n2) had lost another rank and ended, and srun still waits: for tasks "
                     "that go on, or until Slurm gives up a node that does not answer (SlurmdTimeout); "
                     "scancel 4711.3 ends the step");
    tell_of_end(true, EXITED(1));
    srun_watch_end();
    ck_assert_int_eq(slurm.lines, 1);
}
END_TEST

/* 1000 nodes, 6 reports of each and the begin, as fast as this machine sends them: all are taken while the
 * step runs. srun has a descriptor for each that it reads, and memory for each task that failed. */
START_TEST(a_thousand_nodes_report_while_the_step_runs)
{
    struct watched_step large = {.id.components = 1, .node_count = 1000};
    struct failure_report report = {
        .size = 6000, .nodes = "n[1-1000]", .end = {.joined = true, .wait_status = 9}};
    char found[FAILURE_TOKEN_BYTES], names[512];
    int port = 0, open_before = open_descriptors(), open_most = 0;
    size_t bytes_before = allocated_bytes();
    srun_watch_listen();
    ck_assert(failure_report_parse_variable(getenv(FAILURE_REPORT_VARIABLE), &port, found));
    srun_watch_begin(&large);
    for (int i = 0; i < 7 * 999; i++) {
        report.kind = i % 7 == 0 ? FAILURE_BEGINS : FAILURE_ENDED;
        report.node_index = i / 7;
        report.rank = i % 7 == 0 ? 0 : i / 7 * 6 + i % 7 - 1;
        ck_assert_msg(failure_report_send("127.0.0.1", port, found, &report, NULL), "report %d", i);
        int open = open_descriptors();
        open_most = open > open_most ? open : open_most;
    }
    const struct step_reports *reports = srun_watch_end();
    /* the listener, what ends the thread, and the question to the controller */
    ck_assert_int_le(open_most - open_before, 5 + STEP_CONNECTIONS);
    ck_assert_int_eq(open_descriptors(), open_before);
    size_t bytes = allocated_bytes() - bytes_before;
    fprintf(stderr, "# 1000 nodes: %zu bytes for %d reports, at most %d descriptors\n", bytes, reports->count,
            open_most - open_before);
    ck_assert_uint_le(bytes, 34000000); /* as hvd-spank(8) says */
    ck_assert_int_eq(reports->begun_count, 999);
    ck_assert_int_eq(reports->count, 6 * 999);
    ck_assert_int_eq(step_reports_nodes(reports, NODE_SILENT, names, sizeof(names)), 1);
    ck_assert_str_eq(names, "n1000");
    srun_watch_free();
}
END_TEST

/* However little time there is to read them. */
START_TEST(all_that_have_come_are_taken_at_the_end)
{
    struct failure_report report = {.kind = FAILURE_BEGINS, .size = 1000, .nodes = "n[1-1000]"};
    struct step_reports reports = {.node_count = 2 * STEP_CONNECTIONS};
    char found[FAILURE_TOKEN_BYTES];
    int port = 0, takes = 0;
    srun_watch_listen();
    ck_assert(failure_report_parse_variable(getenv(FAILURE_REPORT_VARIABLE), &port, found));
    for (; report.node_index < reports.node_count; report.node_index++)
        ck_assert(failure_report_send("127.0.0.1", port, found, &report, NULL));
    while (step_reports_take(&reports, srun_watch_fd(), found, clock_us()))
        takes++;
    ck_assert_int_eq(takes, 2);
    ck_assert_int_eq(reports.begun_count, reports.node_count);
    step_reports_free(&reports);
    srun_watch_end();
}
END_TEST

START_TEST(nodes_that_are_silent_are_listed)
{
    struct step_reports reports = {.node_count = 12};
    char names[512];
    ck_assert_int_eq(step_reports_nodes(&reports, NODE_SILENT, names, sizeof(names)),
                     0); /* perhaps none can reach srun */
    reports.node_states = calloc(12, 1);
    reports.node_states[1] = NODE_BEGUN;
    snprintf(reports.nodes, sizeof(reports.nodes), "n[1-12]");
    ck_assert_int_eq(step_reports_nodes(&reports, NODE_SILENT, names, sizeof(names)), 11);
    ck_assert_str_eq(names, "n[1,3-12]");
    reports.nodes[0] = 0;
    reports.node_count = 2;
    ck_assert_int_eq(step_reports_nodes(&reports, NODE_SILENT, names, sizeof(names)), 1);
    ck_assert_str_eq(names, "node 0 of the step");
    step_reports_free(&reports);
}
END_TEST

START_TEST(a_node_says_that_the_step_begins)
{
    struct watched_step three = watched;
    three.node_count = 3;
    user_setenv("SLURM_STEP_NODELIST", "n[1-3]");
    slurm.node_index = 2;
    begin_step(1);
    srun_watch_begin(&three);
    while (waitpid(-1, NULL, 0) > 0) /* it has told srun */
        ;
    const struct step_reports *reports = srun_watch_end();
    ck_assert_int_eq(reports->begun_count, 1);
    ck_assert_int_eq(reports->node_states[2], NODE_BEGUN);
    ck_assert_str_eq(reports->nodes, "n[1-3]");
}
END_TEST

/* What a node tells srun whose plug-in has another version. */
static void tell_as_other_version(const struct failure_report *report)
{
    char found[FAILURE_TOKEN_BYTES];
    unsigned char message[FAILURE_REPORT_BYTES];
    int port = 0;
    ck_assert(failure_report_parse_variable(getenv(FAILURE_REPORT_VARIABLE), &port, found));
    size_t length = failure_report_encode(report, found, message);
    message[4]++;
    close(disturb(message, length));
}

START_TEST(nodes_whose_plugin_is_of_another_version_are_named_once)
{
    struct watched_step four = watched;
    struct failure_report begins = {.kind = FAILURE_BEGINS, .size = 1, .nodes = "n[1-4]"};
    four.node_count = 4;
    begin_step(1);
    srun_watch_begin(&four);
    tell(&begins);
    for (begins.node_index = 1; begins.node_index < 4; begins.node_index++)
        tell_as_other_version(&begins);
    srun_watch_end();
    ck_assert_int_eq(slurm.lines, 1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "the plug-in of n[2-4] has another version than srun's"));
    srun_watch_free();
}
END_TEST

START_TEST(a_task_that_fails_on_such_a_node_ends_the_step_and_is_named)
{
    static struct failure_report report;
    report = full_report();
    report.end.wait_status = EXITED(2);
    begin_step(1);
    srun_watch_begin(&watched);
    tell_as_other_version(&report);
    expect_ended(1);
    expect_sentence("hvd: rank 3 (n2, pid 4711) failed first: exited with status 2, ",
                    "12.3 s after start; of 5 other ranks 1 ended after it");
}
END_TEST
/* What srun answers to a question, "" if it does not. */
static void ask(char answer[FAILURE_ANSWER_BYTES + 1])
{
    const struct failure_report question = {.kind = FAILURE_ASKS, .size = 1};
    char found[FAILURE_TOKEN_BYTES];
    int port = 0;
    ck_assert(failure_report_parse_variable(getenv(FAILURE_REPORT_VARIABLE), &port, found));
    int fd = failure_report_deliver("127.0.0.1", port, found, &question, NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&ready, 1, -1), 1);
    ssize_t count = recv(fd, answer, FAILURE_ANSWER_BYTES, 0);
    ck_assert_int_ge(count, 0);
    answer[count] = 0;
    close(fd);
}

/* The begin may be read after a question that was sent later, so this asks again, as a node does. */
START_TEST(srun_says_where_node_0_is_once_the_step_has_begun_there)
{
    const struct failure_report begins = {.kind = FAILURE_BEGINS, .size = 1}; /* on node 0 */
    char answer[FAILURE_ANSWER_BYTES + 1];
    int64_t deadline_us = clock_us() + 10000000;
    struct watched_step two = watched;
    two.node_count = 2;
    slurm.node_index = 1;
    begin_step(1);
    srun_watch_begin(&two);
    ask(answer);
    ck_assert_str_eq(answer, FAILURE_LATER);
    tell(&begins);
    while (strcmp(answer, FAILURE_LATER) == 0 && clock_us() < deadline_us)
        ask(answer);
    ck_assert_str_eq(answer, "127.0.0.1");
    srun_watch_end();
}
END_TEST

START_TEST(in_a_step_of_several_components_it_does_not)
{
    static const struct watched_step components = {.id.components = 2};
    char answer[FAILURE_ANSWER_BYTES + 1];
    begin_step(1);
    srun_watch_begin(&components);
    ask(answer);
    ck_assert_str_eq(answer, "");
    srun_watch_end();
}
END_TEST

START_TEST(without_srun_a_task_is_named_on_the_terminal)
{
    begin_step(2);
    while (waitpid(-1, NULL, 0) > 0) /* has told srun that the step begins, at the socket that it has too */
        ;
    srun_verdict_print(); /* srun has gone */
    end_task(1, SIGSEGV);
    ck_assert_int_eq(slurm.lines, 1);
    ck_assert_str_eq(slurm.last, "hvd: rank 3 (n2) was killed by signal 11 (Segmentation fault)");
    end_task(0, SIGKILL);
    ck_assert_int_eq(slurm.lines, 1);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("failure");
    tcase_add_test(tcase, the_first_failure_is_named_once_at_the_end);
    tcase_add_test(tcase, an_elastic_step_is_judged_by_those_that_were_left);
    tcase_add_test(tcase, an_elastic_step_fails_if_one_of_these_does);
    tcase_add_test(tcase, a_consequence_is_named_only_where_nothing_else_is_known);
    tcase_add_test(tcase, a_consequence_gives_way);
    tcase_add_test(tcase, a_rank_that_left_others_is_named);
    tcase_add_test(tcase, so_is_one_that_is_told_of_late);
    tcase_add_test(tcase, a_rank_that_lost_another_and_exits_with_0_left_nobody);
    tcase_add_test(tcase, an_exception_is_read_from_the_error_file);
    tcase_add_test(tcase, nothing_is_said_of_success);
    tcase_add_test(tcase, strangers_neither_forge_nor_hold_up);
    tcase_add_test(tcase, without_srun_a_task_is_named_on_the_terminal);
    tcase_add_test(tcase, a_task_that_fails_before_it_joins_ends_the_step);
    tcase_add_loop_test(tcase, a_task_that_is_killed_as_slurm_ends_its_job_or_step_has_not_failed, 0,
                        sizeof(kills_of_jobs) / sizeof(kills_of_jobs[0]));
    tcase_add_test(tcase, a_controller_that_does_not_answer_is_given_up);
    tcase_add_loop_test(tcase, tasks_of_a_node_that_are_killed_together_have_not_failed, 0,
                        sizeof(kills_of_nodes) / sizeof(kills_of_nodes[0]));
    tcase_add_test(tcase, one_that_had_joined_or_ends_well_does_not);
    tcase_add_test(tcase, nor_does_any_where_the_step_must_go_on);
    tcase_add_test(tcase, a_task_that_ends_well_before_hvd_init_ends_the_step_once_others_wait_there);
    tcase_add_loop_test(tcase, otherwise_it_does_not, 0, 2);
    tcase_add_test(tcase, a_step_that_does_not_end_after_a_loss_is_explained_once);
    tcase_add_test(tcase, a_thousand_nodes_report_while_the_step_runs);
    tcase_add_test(tcase, all_that_have_come_are_taken_at_the_end);
    tcase_add_test(tcase, nodes_that_are_silent_are_listed);
    tcase_add_test(tcase, a_node_says_that_the_step_begins);
    tcase_add_test(tcase, nodes_whose_plugin_is_of_another_version_are_named_once);
    tcase_add_test(tcase, a_task_that_fails_on_such_a_node_ends_the_step_and_is_named);
    tcase_add_test(tcase, srun_says_where_node_0_is_once_the_step_has_begun_there);
    tcase_add_test(tcase, in_a_step_of_several_components_it_does_not);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("failure", fill);
}

#endif
