/* test_plan_golden.c: whole maps, as they are kept in tests/data/topo/NAME.map; HVD_GOLDEN=write writes them
 * anew. */
#include <string.h>

#include "recorded_machines.h"

static const struct golden {
    const char *machine;
    int tasks;
    const char *bind, *cpus, *rs; /* cpus granted, NULL: all; resource sets, NULL: none */
} goldens[] = {
    {"gpu8", 1, "auto", NULL, NULL},
    {"gpu8", 4, "auto", NULL, NULL},
    {"gpu8", 8, "auto", NULL, NULL},
    {"gpu8", 8, "auto,smt:1,reserve:16", NULL, NULL},
    {"gpu8", 8, "numa", "0-63,128-191", NULL},
    {"gpu8", 6, "l3", NULL, NULL},
    {"gpu8", 16, "core", NULL, NULL},
    {"gpu8", 8, "auto", NULL, "tasks:1,cpus:7,gpus:1,bind:packed:7"},
    {"gpu8", 8, "auto,smt:1", NULL, "tasks:4,cpus:16,gpus:4,bind:packed:4"},
    {"epyc4", 4, "auto", NULL, NULL},
    {"epyc4", 8, "auto", NULL, NULL},
    {"epyc4", 3, "socket", NULL, NULL},
    {"epyc4", 4, "auto,smt:1", "0-7,40-47", NULL},
    {"epyc4", 2, "none", NULL, NULL},
    {"power9", 6, "auto,smt:1", NULL, NULL},
    {"power9", 2, "auto", NULL, NULL},
    {"power9", 6, "auto,smt:1,reserve:2", NULL, "tasks:1,cpus:7,gpus:1,bind:packed:7"},
    {"power9", 6, "auto,smt:1", NULL, "tasks:1,cpus:7,gpus:1,bind:rs,latency_priority:GPU-CPU"},
    {"cpu4", 4, "auto", NULL, NULL},
    {"cpu4", 3, "auto", NULL, NULL},
    {"cpu4", 5, "numa,smt:1", NULL, NULL},
    {"cpu4", 6, "auto,smt:1", "0-9,24-31", NULL},
    {"cpu4", 4, "auto,smt:1", NULL, "tasks:2,cpus:12,bind:packed:6,launch_distribution:cyclic"},
    {"offline", 1, "auto", NULL, NULL},
    {"offline", 2, "auto", NULL, NULL},
    {"offline", 4, "auto", NULL, NULL},
    {"offline", 12, "auto", NULL, NULL},
    {"vm1", 1, "auto", NULL, NULL},
    {"vm1", 2, "auto", NULL, NULL},
};

static void write_map(FILE *file, const struct machine *machine, const struct golden *golden)
{
    struct plan_request request = {.task_count = golden->tasks, .gpu_count = -1};
    struct bitmap cpus;
    struct rs_options rs;
    const char *why = "";
    char text[2048];
    ck_assert_msg(bind_parse(golden->bind, &request.bind, &why) == 0, "%s", why);
    fprintf(file, "# %d task%s, --hvd-bind=%s", golden->tasks, golden->tasks == 1 ? "" : "s", golden->bind);
    if (golden->cpus != NULL) {
        cpus = cpu_list(golden->cpus);
        request.cpus = &cpus;
        fprintf(file, ", CPUs %s granted", golden->cpus);
    }
    if (golden->rs != NULL) {
        ck_assert_msg(rs_parse(golden->rs, &rs, &why) == 0, "%s", why);
        request.rs = &rs;
        fprintf(file, ", --hvd-rs=%s", golden->rs);
    }
    fputc('\n', file);
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < plan->task_count; i++)
        fprintf(file, "%s\n", plan_task_text(&plan->tasks[i], i, text, sizeof(text)));
    if (plan->note[0] != 0)
        fprintf(file, "%s\n", plan->note);
    fputc('\n', file);
    plan_destroy(plan);
}

static void compare(const char *expected, const char *found)
{
    int line = 1;
    size_t at = 0;
    for (; expected[at] == found[at] && expected[at] != 0; at++)
        line += expected[at] == '\n';
    if (expected[at] == found[at])
        return;
    while (at > 0 && expected[at - 1] != '\n')
        at--;
    ck_abort_msg("line %d\nexpected %.*s\nfound    %.*s", line, (int)strcspn(expected + at, "\n"),
                 expected + at, (int)strcspn(found + at, "\n"), found + at);
}

START_TEST(maps_are_as_kept)
{
    const char *folder = getenv("HVD_SOURCE");
    const char *mode = getenv("HVD_GOLDEN");
    char path[1024];
    static char expected[1 << 16];
    char *found = NULL;
    size_t bytes = 0;
    struct machine *machine = load_machine(machine_names[_i]);
    FILE *memory = open_memstream(&found, &bytes);
    for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++)
        if (strcmp(goldens[i].machine, machine_names[_i]) == 0)
            write_map(memory, machine, &goldens[i]);
    fclose(memory);
    machine_destroy(machine);
    snprintf(path, sizeof(path), "%s/tests/data/topo/%s.map", folder != NULL ? folder : ".",
             machine_names[_i]);
    FILE *file = fopen(path, mode != NULL && strcmp(mode, "write") == 0 ? "w+" : "r");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    if (mode != NULL)
        fwrite(found, 1, bytes, file);
    rewind(file);
    expected[fread(expected, 1, sizeof(expected) - 1, file)] = 0;
    fclose(file);
    compare(expected, found);
    free(found);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("golden");
    tcase_add_loop_test(tcase, maps_are_as_kept, 0, MACHINE_COUNT);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("plan_golden", fill);
}
