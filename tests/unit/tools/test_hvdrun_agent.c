/* test_hvdrun_agent.c: what hvdrun and its agents tell each other, and the srun that starts agents. */
#include "unit.h"

#include <string.h>

#include "tools/hvdrun/agent/agent_steps.h"
#include "tools/hvdrun/agent/messages.h"

#define SLOTS 8

static unsigned char bytes[AGENT_MESSAGE_BYTES];

/* ---- Starts ---- */

static const struct starter_rank rank = {.rank = 5, .size = 6, .restarts = 2, .is_newcomer = true};
static const struct launch_place place = {
    .rank = 5, .size = 6, .local_rank = 1, .local_size = 2, .node = 2, .node_count = 3};

static bool decode_start(uint32_t number, size_t length, struct starter_rank *to,
                         struct launch_place *to_place)
{
    const struct fence_message message = {.rank = number, .bytes = bytes, .length = length};
    return agent_start_decode(&message, SLOTS, to, to_place);
}

START_TEST(a_start_arrives_as_it_was_sent)
{
    struct starter_rank read;
    struct launch_place read_place;
    size_t length = agent_start_encode(&rank, &place, bytes);
    ck_assert(decode_start(5, length, &read, &read_place));
    ck_assert_mem_eq(&read, &rank, sizeof(rank));
    ck_assert_mem_eq(&read_place, &place, sizeof(place));
}
END_TEST

START_TEST(a_start_of_no_rank_is_refused)
{
    struct starter_rank read;
    struct launch_place read_place;
    size_t length = agent_start_encode(&rank, &place, bytes);
    for (size_t cut = 0; cut < length; cut++)
        ck_assert(!decode_start(5, cut, &read, &read_place));
    ck_assert(!decode_start(5, length + 1, &read, &read_place));
    ck_assert(!decode_start(6, length, &read, &read_place));
    ck_assert(!decode_start(UINT32_MAX, length, &read, &read_place));
    struct starter_rank large = rank;
    large.size = SLOTS + 1;
    ck_assert(!decode_start(5, agent_start_encode(&large, &place, bytes), &read, &read_place));
    struct launch_place wrong = place;
    wrong.local_rank = 2;
    ck_assert(!decode_start(5, agent_start_encode(&rank, &wrong, bytes), &read, &read_place));
    wrong = place;
    wrong.node = 3;
    ck_assert(!decode_start(5, agent_start_encode(&rank, &wrong, bytes), &read, &read_place));
}
END_TEST

/* ---- Reports ---- */

static const struct agent_report ended = {
    .report = {.event = {.kind = REAPER_ENDED, .rank = 7, .pid = 4711, .number = 9},
               .end = {.wait_status = 9,
                       .stage = VERDICT_TERM_SENT,
                       .sweep = 3,
                       .grace_us = 5,
                       .joined = true,
                       .stayed = true,
                       .lost = "allreduce \"x\""}},
    .facts = {.error = "ValueError: no more data (train.py:31)", .gpu = "GPU 0000:17:00.0"},
    .crash = "SIGSEGV at 0x0"};

static bool decode_report(size_t length, struct agent_report *report)
{
    const struct fence_message message = {.bytes = bytes, .length = length};
    return agent_report_decode(&message, SLOTS, report);
}

START_TEST(an_unfit_host_is_named_with_the_reason)
{
    const struct hvd_error refusal = {"--health-check: 'check' exited with status 3: no GPU"};
    char host[HOST_NAME_BYTES];
    struct hvd_error why;
    struct fence_message message = {.bytes = bytes, .length = agent_unfit_encode("n2", &refusal, bytes)};
    size_t length = message.length;
    ck_assert(agent_unfit_decode(&message, host, &why));
    ck_assert_str_eq(host, "n2");
    ck_assert_str_eq(why.text, refusal.text);
    for (message.length = 0; message.length < length; message.length++)
        ck_assert(!agent_unfit_decode(&message, host, &why));
    message.length = agent_unfit_encode("", &refusal, bytes);
    ck_assert(!agent_unfit_decode(&message, host, &why));
}
END_TEST

START_TEST(a_report_brings_what_the_rank_left_behind)
{
    struct agent_report read;
    ck_assert(decode_report(agent_report_encode(&ended, bytes), &read));
    ck_assert_int_eq(read.report.event.kind, REAPER_ENDED);
    ck_assert_int_eq(read.report.event.rank, 7);
    ck_assert_int_eq(read.report.event.pid, 4711);
    ck_assert_int_eq(read.report.end.wait_status, 9);
    ck_assert_int_eq(read.report.end.stage, VERDICT_TERM_SENT);
    ck_assert_int_eq(read.report.end.sweep, 3);
    ck_assert_int_eq(read.report.end.grace_us, 5);
    ck_assert(read.report.end.joined && read.report.end.stayed && !read.report.end.told);
    ck_assert_str_eq(read.report.end.lost, ended.report.end.lost);
    ck_assert_str_eq(read.facts.error, ended.facts.error);
    ck_assert_str_eq(read.facts.gpu, ended.facts.gpu);
    ck_assert_str_eq(read.crash, ended.crash);
}
END_TEST

START_TEST(the_longest_report_fits)
{
    struct agent_report longest = ended, read;
    memset(longest.report.end.lost, 'l', sizeof(longest.report.end.lost) - 1);
    memset(longest.facts.gpu, 'g', sizeof(longest.facts.gpu) - 1);
    memset(longest.facts.doing, 'd', sizeof(longest.facts.doing) - 1);
    memset(longest.facts.error, 'e', sizeof(longest.facts.error) - 1);
    memset(longest.facts.memory, 'm', sizeof(longest.facts.memory) - 1);
    memset(longest.facts.core, 'c', sizeof(longest.facts.core) - 1);
    memset(longest.crash, 'x', sizeof(longest.crash) - 1);
    ck_assert(decode_report(agent_report_encode(&longest, bytes), &read));
    ck_assert_str_eq(read.crash, longest.crash);
}
END_TEST

static const struct reaper_report wrong_reports[] = {
    {.kind = REAPER_READY}, /* of the reaper, and of no rank */
    {.kind = REAPER_EMPTY}, /* the same */
    {.kind = REAPER_STARTED, .rank = SLOTS},
    {.kind = REAPER_STARTED, .rank = -1},
    {.kind = REAPER_STARTED, .pid = -1},
};

START_TEST(a_report_of_no_rank_is_refused)
{
    struct agent_report read, wrong = {.report.event = wrong_reports[_i]};
    ck_assert(!decode_report(agent_report_encode(&wrong, bytes), &read));
}
END_TEST

START_TEST(a_damaged_report_is_refused)
{
    struct agent_report read, control = ended;
    size_t length = agent_report_encode(&ended, bytes);
    for (size_t cut = 0; cut < length; cut++)
        ck_assert(!decode_report(cut, &read));
    ck_assert(!decode_report(length + 1, &read));
    control.facts.error[3] = '\033'; /* the last line goes to a terminal */
    ck_assert(!decode_report(agent_report_encode(&control, bytes), &read));
}
END_TEST

/* ---- Hosts ---- */

START_TEST(a_host_has_a_name)
{
    struct agent_hello hello = {"n1", "0.1.0"}, read;
    struct fence_message message = {.bytes = bytes, .length = agent_hello_encode(&hello, bytes)};
    ck_assert(agent_hello_decode(&message, &read));
    ck_assert_str_eq(read.host, "n1");
    ck_assert_str_eq(read.version, "0.1.0");
    message.length--;
    ck_assert(!agent_hello_decode(&message, &read));
    hello.host[0] = 0;
    message.length = agent_hello_encode(&hello, bytes);
    ck_assert(!agent_hello_decode(&message, &read));
}
END_TEST

/* ---- The step of the agents ---- */

START_TEST(one_srun_starts_an_agent_on_each_host)
{
    char line[1024] = "";
    static char hvdrun[] = "hvdrun", option[] = "--min-np=2", command[] = "./train";
    char *const argv[] = {hvdrun, option, command, NULL};
    const struct agent_launch launch = {.argv = argv, .run_id = "7"};
    struct host_list hosts = {NULL, 0, 0};
    struct words words = {.list = NULL};
    ck_assert_int_eq(host_list_parse(&hosts, "-H", "n1:4,n2:4", NULL), HVD_OK);
    agent_steps_line(&words, &launch, &hosts, "/opt/bin/hvdrun", "4711");
    for (size_t i = 0, used = 0; i < words.count; i++)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s", i == 0 ? "" : " ", words.list[i]);
    ck_assert_str_eq(line,
                     "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n1,n2 --export=ALL --mpi=none "
                     "--overlap --cpu-bind=none --no-kill --kill-on-bad-exit=0 --wait=0 --input=none "
                     "/opt/bin/hvdrun --join=:4711 --run-id=7 --min-np=2 ./train");
    words_free(&words);
    host_list_free(&hosts);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("agent");
    tcase_add_test(tcase, a_start_arrives_as_it_was_sent);
    tcase_add_test(tcase, a_start_of_no_rank_is_refused);
    tcase_add_test(tcase, an_unfit_host_is_named_with_the_reason);
    tcase_add_test(tcase, a_report_brings_what_the_rank_left_behind);
    tcase_add_test(tcase, the_longest_report_fits);
    tcase_add_loop_test(tcase, a_report_of_no_rank_is_refused, 0,
                        (int)(sizeof(wrong_reports) / sizeof(wrong_reports[0])));
    tcase_add_test(tcase, a_damaged_report_is_refused);
    tcase_add_test(tcase, a_host_has_a_name);
    tcase_add_test(tcase, one_srun_starts_an_agent_on_each_host);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_agent", fill);
}
