/* test_resource_set.c: the values of --hvd-rs, jsrun's options, and which ranks are in which set. */
#include "options/resource_set.h"

#include <string.h>

#include "unit.h"

static const struct {
    const char *text;
    struct rs_options options;
    const char *again; /* NULL: the same */
} good[] = {
    {"tasks:1,cpus:7,gpus:1,bind:packed:7", {.tasks = 1, .cpus = 7, .gpus = 1, .bind_cpus = 7}, NULL},
    {"nrs:12,rs_per_host:6,cpus:all,gpus:all,bind:rs",
     {.nrs = 12, .rs_per_host = 6, .cpus = RS_ALL, .gpus = RS_ALL, .bind = RS_BIND_RS, .bind_cpus = 1},
     "nrs:12,cpus:all,gpus:all,rs_per_host:6,bind:rs"},
    {"np:8,tasks:2,bind:none,launch_distribution:cyclic",
     {.np = 8, .tasks = 2, .bind = RS_BIND_NONE, .bind_cpus = 1, .distribution = RS_DIST_CYCLIC},
     NULL},
    {"launch_distribution:plane:4,tasks:1",
     {.tasks = 1, .bind_cpus = 1, .distribution = RS_DIST_PLANE, .plane = 4},
     "tasks:1,launch_distribution:plane:4"},
    {"bind:packed,gpus:0", {.bind_cpus = 1}, ""},
    {"latency_priority:gpu-cpu+cpu-mem",
     {.bind_cpus = 1, .latency_count = 2, .latency = {RS_GPU_CPU, RS_CPU_MEM}},
     NULL},
    {"latency_priority:CPU-CPU",
     {.bind_cpus = 1, .latency_count = 1, .latency = {RS_CPU_CPU}, .latency_strict = true},
     NULL},
    {"nrs:1048576,np:1048576,tasks:1048576,cpus:1048576,gpus:1048576,rs_per_host:1048576,bind:packed:1048576,"
     "launch_distribution:plane:1048576,latency_priority:gpu-cpu+cpu-cpu+cpu-mem",
     {.nrs = RS_MAX,
      .np = RS_MAX,
      .tasks = RS_MAX,
      .cpus = RS_MAX,
      .gpus = RS_MAX,
      .rs_per_host = RS_MAX,
      .bind_cpus = RS_MAX,
      .distribution = RS_DIST_PLANE,
      .plane = RS_MAX,
      .latency_count = 3,
      .latency = {RS_GPU_CPU, RS_CPU_CPU, RS_CPU_MEM}},
     NULL},
};

START_TEST(values_are_read_and_written)
{
    struct rs_options options;
    char text[RS_TEXT_BYTES];
    const char *why = "";
    ck_assert_msg(rs_parse(good[_i].text, &options, &why) == 0, "%s: %s", good[_i].text, why);
    const struct rs_options *expect = &good[_i].options;
    ck_assert_int_eq(options.nrs, expect->nrs);
    ck_assert_int_eq(options.np, expect->np);
    ck_assert_int_eq(options.tasks, expect->tasks);
    ck_assert_int_eq(options.cpus, expect->cpus);
    ck_assert_int_eq(options.gpus, expect->gpus);
    ck_assert_int_eq(options.rs_per_host, expect->rs_per_host);
    ck_assert_int_eq(options.bind, expect->bind);
    ck_assert_int_eq(options.bind_cpus, expect->bind_cpus);
    ck_assert_int_eq(options.distribution, expect->distribution);
    ck_assert_int_eq(options.plane, expect->plane);
    ck_assert_int_eq(options.latency_count, expect->latency_count);
    ck_assert_int_eq(options.latency_strict, expect->latency_strict);
    for (int i = 0; i < expect->latency_count; i++)
        ck_assert_int_eq(options.latency[i], expect->latency[i]);
    ck_assert_str_eq(rs_text(&options, text), good[_i].again != NULL ? good[_i].again : good[_i].text);
}
END_TEST

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "is empty"},
    {"tasks", "a key without a value"},
    {"tasks:", "not a whole one"},
    {"tasks:0", "too small"},
    {"tasks:1048577", "too large"},
    {"tasks:1,", "has an unknown key"},
    {"tasks:1,tasks:2", "has a key twice"},
    {"tasks: 1", "not a whole one"},
    {"Tasks:1", "has an unknown key"},
    {"tasks_per_rs:1", "has an unknown key"},
    {"cpus:ALL", "not a whole one"},
    {"cpus:0", "too small"},
    {"bind:packed:0", "too small"},
    {"bind:packed:", "not a whole one"},
    {"bind:proportional-packed:2", "bind that is not"},
    {"launch_distribution:plane", "launch_distribution that is not"},
    {"launch_distribution:plane:0", "too small"},
    {"latency_priority:gpu", "latency_priority that is not"},
    {"latency_priority:gpu-cpu+", "latency_priority that is not"},
    {"latency_priority:gpu-cpu+gpu-cpu", "a word twice"},
    {"latency_priority:gpu-cpu+cpu-cpu+cpu-mem+gpu-cpu", "latency_priority that is not"},
};

START_TEST(bad_values_are_refused)
{
    struct rs_options options = {.nrs = 4711};
    const char *why = "";
    ck_assert_int_eq(rs_parse(bad[_i].text, &options, &why), -1);
    ck_assert_msg(strstr(why, bad[_i].why) != NULL, "%s: %s", bad[_i].text, why);
    ck_assert_int_eq(options.nrs, 4711);
}
END_TEST

START_TEST(jsruns_options_set_the_same)
{
    static const char *const words[][2] = {{"nrs", "12"},
                                           {"tasks_per_rs", "2"},
                                           {"cpu_per_rs", "7"},
                                           {"gpu_per_rs", "ALL_GPUS"},
                                           {"rs_per_host", "6"},
                                           {"bind", "packed:3"},
                                           {"np", "24"},
                                           {"launch_distribution", "plane:2"},
                                           {"latency_priority", "gpu-cpu,cpu-mem"}};
    struct rs_options options;
    char text[RS_TEXT_BYTES];
    const char *why = "";
    rs_init(&options);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        ck_assert_msg(rs_set(&options, words[i][0], words[i][1], &why) == 0, "%s: %s", words[i][0], why);
    ck_assert_str_eq(rs_text(&options, text),
                     "nrs:12,np:24,tasks:2,cpus:7,gpus:all,rs_per_host:6,bind:packed:3,"
                     "launch_distribution:plane:2,latency_priority:gpu-cpu+cpu-mem");
    ck_assert_int_eq(rs_set(&options, "cpu_per_rs", "x", &why), -1);
    ck_assert_int_eq(options.cpus, 7);
    ck_assert_int_eq(rs_set(&options, "cpu", "7", &why), -1);
}
END_TEST

static const struct {
    const char *text;
    int rs_count;
    const char *order; /* the sets of ranks 0, 1, ... */
} orders[] = {
    {"tasks:2", 3, "001122"},
    {"tasks:2,launch_distribution:cyclic", 3, "012012"},
    {"tasks:3,launch_distribution:plane:2", 2, "001101"},
    {"tasks:4,launch_distribution:plane:2", 2, "00110011"},
    {"tasks:2,launch_distribution:plane:9", 2, "0011"},
    {"launch_distribution:plane:2", 4, "0123"},
};

START_TEST(ranks_are_in_the_sets_that_the_distribution_says)
{
    struct rs_options options;
    const char *why = "";
    bool taken[8][8] = {{false}};
    ck_assert_int_eq(rs_parse(orders[_i].text, &options, &why), 0);
    int count = (int)strlen(orders[_i].order);
    int set = -1, place = -1;
    for (int rank = 0; rank < count; rank++) {
        ck_assert(rs_locate_rank(&options, orders[_i].rs_count, rank, &set, &place));
        ck_assert_int_eq(set, orders[_i].order[rank] - '0');
        ck_assert_int_ge(place, 0);
        ck_assert_int_lt(place, options.tasks > 0 ? options.tasks : 1);
        ck_assert(!taken[set][place]);
        taken[set][place] = true;
    }
    ck_assert(!rs_locate_rank(&options, orders[_i].rs_count, count, &set, &place));
    ck_assert(!rs_locate_rank(&options, orders[_i].rs_count, -1, &set, &place));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("resource_set");
    unit_add_rounds(tcase, values_are_read_and_written, 0, sizeof(good) / sizeof(good[0]));
    unit_add_rounds(tcase, bad_values_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, jsruns_options_set_the_same);
    unit_add_rounds(tcase, ranks_are_in_the_sets_that_the_distribution_says, 0,
                    sizeof(orders) / sizeof(orders[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("resource_set", fill);
}
