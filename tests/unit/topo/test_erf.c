/* test_erf.c: explicit resource files: read, written, and what they settle. */
#include "topo/erf.h"

#include <string.h>

#include "erf_format.h"
#include "recorded_machines.h"

static struct erf *parse(const char *text)
{
    struct erf *erf = NULL;
    struct hvd_error err = {""};
    ck_assert_msg(erf_parse("file", text, strlen(text), &erf, &err) == HVD_OK, "%s", err.text);
    return erf;
}

/* ---- Read and written ---- */

static const struct {
    const char *text, *again;
} good[] = {
    /* Horovod's */
    {"overlapping_rs: allow\ncpu_index_using: logical\n\nrank: 0: { hostname: host1; cpu: {0-3} ; gpu: * ; "
     "mem: * }\n"
     "rank: 1: { hostname: host1; cpu: {4-7} ; gpu: * ; mem: * }\n\nrank: 2: { hostname: host2; cpu: {0-3} ; "
     "gpu: * ; mem: * }\n",
     "overlapping_rs: allow\ncpu_index_using: logical\nrank: 0: { hostname: host1; cpu: {0-3}; gpu: *; mem: "
     "* }\n"
     "rank: 1: { hostname: host1; cpu: {4-7}; gpu: *; mem: * }\nrank: 2: { hostname: host2; cpu: {0-3}; gpu: "
     "*; mem: * }\n"},
    /* several ranks a line, a set of CPUs each; programs */
    {"# comment\napp 0: ./a --x y\napp 1: ./b\ncpu_index_using: physical\nlaunch_distribution: plane:4\n"
     "rank: 0-1: { host: 1; cpu: {0-3},{4-7}; gpu: {0} } : app 0\nrank: {2,4}: {host:2;cpu:{0,2-3,9}} : app "
     "1\n"
     "rank: 3: { host: *; cpu: * }\n",
     "launch_distribution: plane:4\ncpu_index_using: physical\napp 0: ./a --x y\napp 1: ./b\n"
     "rank: 0: { host: 1; cpu: {0-3}; gpu: {0} } : app 0\nrank: 1: { host: 1; cpu: {4-7}; gpu: {0} } : app "
     "0\n"
     "rank: 2: { host: 2; cpu: {0,2-3,9} } : app 1\nrank: 3: { host: *; cpu: * }\n"
     "rank: 4: { host: 2; cpu: {0,2-3,9} } : app 1\n"},
    /* counted ranks, no newline at the end */
    {"overlapping-rs: warn\nskip_missing_gpu: allow\n2 : { host: 1; cpu: {0-7}; mem: {0-1000} }\n1: { host: "
     "2; cpu: {0}; }",
     "overlapping_rs: warn\nskip_missing_gpu: allow\ncpu_index_using: logical\nrank: 0: { host: 1; cpu: "
     "{0-7} }\n"
     "rank: 1: { host: 1; cpu: {0-7} }\nrank: 2: { host: 2; cpu: {0} }\n"},
};

START_TEST(files_are_read_and_written)
{
    struct erf *erf = parse(good[_i].text);
    char *text = erf_format(erf);
    ck_assert_ptr_nonnull(text);
    ck_assert_str_eq(text, good[_i].again);
    erf_destroy(erf);
    erf = parse(text);
    char *third = erf_format(erf);
    ck_assert_ptr_nonnull(third);
    ck_assert_str_eq(third, text);
    erf_destroy(erf);
    free(text);
    free(third);
}
END_TEST

static const struct {
    const char *first, *second;
    int hosts;
} hosts[] = {
    {"host: 1", "host: 1", 1},
    {"host: 1", "host: 2", 2},
    {"hostname: node7", "hostname: node7", 1},
    {"hostname: node7", "hostname: node8", 2},
};

START_TEST(lines_of_one_host_are_of_one_host)
{
    char text[256];
    snprintf(text, sizeof(text), "rank: 0: { %s; cpu: {0} }\nrank: 1: { %s; cpu: {1} }\n", hosts[_i].first,
             hosts[_i].second);
    struct erf *erf = parse(text);
    ck_assert_int_eq(erf->host_count, hosts[_i].hosts);
    erf_destroy(erf);
}
END_TEST

START_TEST(a_line_may_count_its_ranks)
{
    static const int counts[] = {1, 9, 10, 4096};
    char text[64];
    snprintf(text, sizeof(text), "%d: { host: 1; cpu: {0} }\n", counts[_i]);
    struct erf *erf = parse(text);
    ck_assert_int_eq(erf->rank_count, counts[_i]);
    erf_destroy(erf);
}
END_TEST

static const struct {
    const char *text, *sentence;
} bad[] = {
    {"", "file: no line gives a rank its resources"},
    {"rank: 0: { host: 1; cpu: {0} }\nrank: 2: { host: 1; cpu: {1} }\n",
     "rank 1 is in no line, but rank 2 is"},
    {"rank: 0: { host: 1; cpu: {0} }\nrank: 0: { host: 1; cpu: {1} }\n",
     "line 2: rank 0 is in line 1 already"},
    {"rank: 0: { host: 1; cpu: {0} }\n1: { host: 1; cpu: {1} }\n",
     "line 2: lines that name ranks and lines that count"},
    {"rank: 0: { host: 1 }\n", "line 1: host (or hostname) and cpu must be given"},
    {"rank: 0: { cpu: {0} }\n", "line 1: host (or hostname) and cpu must be given"},
    {"rank: 0: { host: 0; cpu: {0} }\n", "expected * or the number of a host, from 1"},
    {"rank: 0: { hostname: ; cpu: {0} }\n", "a name or command is missing"},
    {"rank: 0: { host: 1; cpu: {0} ", "expected ; or }"},
    {"rank: 0: { host: 1; cpu: {0; gpu: * }\n", "expected , or }"},
    {"rank: 0: { host: 1; cpu: {3-1} }\n", "expected the end of a range"},
    {"rank: 3-1: { host: 1; cpu: {0} }\n", "ranges of them, below 131072, and a colon"},
    {"rank: 0-: { host: 1; cpu: {0} }\n", "ranges of them, below 131072, and a colon"},
    {"rank: x: { host: 1; cpu: {0} }\n", "ranges of them, below 131072, and a colon"},
    {"rank: 0: { host: 1; cpu: {4096} }\n", "expected a number below 4096"},
    {"rank: 0: { host: 1; cpu: {0}; cpu: {1} }\n", "the same is given twice"},
    {"rank: 0: { host: 1; hostname: a; cpu: {1} }\n", "the same is given twice"},
    {"rank: 0: { host: 1; cpu: {0},{1} }\n", "more sets than ranks"},
    {"rank: 0-2: { host: 1; cpu: {0},{1} }\n", "expected one set of CPUs, or one for each rank"},
    {"rank: 0: { host: 1; cpu: {0}; core: 1 }\n", "expected host:, hostname:, cpu:, gpu: or mem:"},
    {"rank: 0: { host: 1; cpu: {0} } : app 0\n", "expected app and the number of one"},
    {"rank: 0: { host: 1; cpu: {0} } }\n", "expected the end of the line"},
    {"rank: 131072: { host: 1; cpu: {0} }\n", "below 131072"},
    {"131073: { host: 1; cpu: {0} }\n", "at most 131072"},
    {"0: { host: 1; cpu: {0} }\n", "expected a number of ranks"},
    {"app 1: ./a\n", "expected app 0, app 1 and so on"},
    {"app 0:\n", "a name or command is missing"},
    {"overlapping_rs: maybe\n", "expected error, warn or allow"},
    {"overlapping_rs: allowed\n", "expected the end of the line"},
    {"launch_distribution: plane:0\n", "expected packed, cyclic or plane:N"},
    {"cpu_index_using: both\n", "expected logical or physical"},
    {"nonsense\n", "expected rank:, a number of ranks, or a key"},
};

START_TEST(bad_files_are_refused)
{
    struct erf *erf = NULL;
    struct hvd_error err = {""};
    ck_assert_int_eq(erf_parse("file", bad[_i].text, strlen(bad[_i].text), &erf, &err), HVD_ERR_INVALID);
    ck_assert_ptr_null(erf);
    ck_assert_msg(strstr(err.text, bad[_i].sentence) != NULL, "%s", err.text);
    ck_assert_msg(strncmp(err.text, "file", 4) == 0, "%s", err.text);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_named)
{
    struct erf *erf = NULL;
    struct hvd_error err = {""};
    ck_assert_int_eq(erf_read("/does/not/exist", &erf, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "/does/not/exist") != NULL, "%s", err.text);
}
END_TEST

/* ---- What it settles ---- */

static char warned[512];

static void keep_warning(const char *sentence)
{
    snprintf(warned, sizeof(warned), "%s", sentence);
}

/* Give a host's tasks to the planner. */
static struct plan *plan_of(const char *text, const struct machine *machine, const char *host, int index)
{
    struct erf *erf = parse(text);
    struct erf_host here = {(char *)host, index};
    struct erf_tasks tasks;
    struct hvd_error err = {""};
    ck_assert_msg(erf_tasks(erf, machine, &here, &tasks, keep_warning, &err) == HVD_OK, "%s", err.text);
    struct plan_request request = {.task_count = tasks.count, .gpu_count = -1, .tasks = tasks.tasks};
    struct plan *plan = make_plan(machine, &request);
    erf_tasks_free(&tasks);
    erf_destroy(erf);
    return plan;
}

START_TEST(ranks_of_a_host_get_what_is_written)
{
    static const char text[] = "overlapping_rs: allow\n"
                               "rank: 0: { hostname: n1; cpu: {0-3}; gpu: {1} }\nrank: 1: { hostname: "
                               "n2.site; cpu: {8-11}; gpu: * }\n"
                               "rank: 2: { host: 2; cpu: {4,6} }\n";
    struct machine *machine = load_machine("epyc4");
    char list[64];
    struct plan *plan = plan_of(text, machine, "n2", 2);
    ck_assert_int_eq(plan->task_count, 2);
    /* positions 8 to 11 are cores 4 and 5, with two threads each */
    ck_assert_str_eq(bitmap_text(&plan->tasks[0].cpus, list, sizeof(list)), "4-5,68-69");
    ck_assert_int_eq(plan->tasks[0].gpu_count, 4);
    ck_assert_msg(strstr(plan->tasks[0].why, "explicit resource file, line 3: 2 of 8 cores") != NULL, "%s",
                  plan->tasks[0].why);
    ck_assert_str_eq(bitmap_text(&plan->tasks[1].cpus, list, sizeof(list)), "2-3");
    ck_assert_int_eq(plan->tasks[1].gpu_count, 0);
    plan_destroy(plan);
    plan = plan_of(text, machine, "n1.site.org", 1);
    ck_assert_int_eq(plan->task_count, 1);
    ck_assert_str_eq(plan->tasks[0].gpu_ids[0], "0000:43:00.0");
    plan_destroy(plan);
    plan = plan_of("cpu_index_using: physical\n2: { host: 1; cpu: {64-65} }\n", machine, NULL, 1);
    ck_assert_str_eq(bitmap_text(&plan->tasks[1].cpus, list, sizeof(list)), "64-65");
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

static const struct {
    const char *key, *rest, *sentence;
} asked[] = {
    {"overlapping_rs", "rank: 0: { host: 1; cpu: {0-1} }\nrank: 1: { host: 1; cpu: {1} }\n",
     "lines 2 and 3 have CPUs in common"},
    {"skip_missing_cpu", "rank: 0: { host: 1; cpu: {0,99} }\n", "this host has no CPU 99 (logical)"},
    {"skip_missing_gpu", "rank: 0: { host: 1; cpu: {0}; gpu: {0} }\n", "this host has no GPU 0, only 0"},
    {"oversubscribe_cpu", "3: { host: 1; cpu: {0-1} }\n", "3 ranks share 2 CPUs"},
};

/* An error by default, a warning or nothing if the file says so. */
START_TEST(what_does_not_fit_is_answered_as_the_file_says)
{
    struct machine *machine = load_machine("offline");
    struct erf_host host = {NULL, 1};
    for (int answer = ERF_ERROR; answer <= ERF_ALLOW; answer++) {
        static const char *const words[] = {"error", "warn", "allow"};
        char text[512];
        struct erf_tasks tasks;
        struct hvd_error err = {""};
        snprintf(text, sizeof(text), "%s: %s\n%s", asked[_i].key, words[answer], asked[_i].rest);
        struct erf *erf = parse(text);
        warned[0] = 0;
        int rc = erf_tasks(erf, machine, &host, &tasks, keep_warning, &err);
        ck_assert_int_eq(rc, answer == ERF_ERROR ? HVD_ERR_INVALID : HVD_OK);
        if (answer == ERF_ERROR)
            ck_assert_msg(strstr(err.text, asked[_i].sentence) != NULL, "%s", err.text);
        if (answer == ERF_WARN)
            ck_assert_msg(strstr(warned, asked[_i].sentence) != NULL, "%s", warned);
        if (answer == ERF_ALLOW)
            ck_assert_str_eq(warned, "");
        if (rc == HVD_OK)
            erf_tasks_free(&tasks);
        erf_destroy(erf);
    }
    machine_destroy(machine);
}
END_TEST

START_TEST(amounts_of_memory_are_warned_of)
{
    struct machine *machine = load_machine("vm1");
    warned[0] = 0;
    plan_destroy(plan_of("1: { host: 1; cpu: {0}; mem: {0-1000} }\n", machine, NULL, 1));
    ck_assert_ptr_nonnull(strstr(warned, "amounts of memory"));
    machine_destroy(machine);
}
END_TEST

/* A plan that is written and read again settles what it said. */
START_TEST(plans_are_written_and_read)
{
    struct machine *machine = load_machine(machine_names[_i]);
    struct plan_request request = {.task_count = machine->core_count > 3 ? 3 : 1, .gpu_count = -1};
    struct plan *plan = make_plan(machine, &request);
    struct erf_plan plans[2] = {{"n1", machine, plan}, {"n2", machine, plan}};
    struct hvd_error err = {""};
    char *text = NULL;
    ck_assert_msg(erf_from_plans(plans, 2, &text, &err) == HVD_OK, "%s", err.text);
    static const char beginning[] =
        "overlapping_rs: allow\ncpu_index_using: logical\n\nrank: 0: { hostname: n1; cpu: {";
    ck_assert_msg(strncmp(text, beginning, strlen(beginning)) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "} ; gpu: * ; mem: * }\n\nrank: "));
    struct plan *again = plan_of(text, machine, "n2", 2);
    ck_assert_int_eq(again->task_count, plan->task_count);
    for (int i = 0; i < plan->task_count; i++)
        ck_assert(bitmap_is_equal(&plan->tasks[i].cpus, &again->tasks[i].cpus));
    free(text);
    plan_destroy(again);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("erf");
    unit_add_rounds(tcase, files_are_read_and_written, 0, sizeof(good) / sizeof(good[0]));
    unit_add_rounds(tcase, a_line_may_count_its_ranks, 0, 4);
    unit_add_rounds(tcase, lines_of_one_host_are_of_one_host, 0, sizeof(hosts) / sizeof(hosts[0]));
    unit_add_rounds(tcase, bad_files_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, a_file_that_is_not_there_is_named);
    tcase_add_test(tcase, ranks_of_a_host_get_what_is_written);
    unit_add_rounds(tcase, what_does_not_fit_is_answered_as_the_file_says, 0,
                    sizeof(asked) / sizeof(asked[0]));
    tcase_add_test(tcase, amounts_of_memory_are_warned_of);
    unit_add_rounds(tcase, plans_are_written_and_read, 0, MACHINE_COUNT);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("erf", fill);
}
