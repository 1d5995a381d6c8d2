/* test_apply.c: what a placed task finds in its environment, and where it may run. */
#include "topo/apply.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

#define MAX_ENTRIES 6

/* A task with [gpus] GPUs, which its program would call 2 and up. */
static struct plan_task make_task(int gpus, bool amd)
{
    struct plan_task task = {
        .bound = true, .core_count = 4, .threads = 8, .places = "threads", .gpu_count = gpus, .gpu_amd = amd};
    for (int i = 0; i < gpus; i++) {
        task.devices[i] = 2 + i;
        snprintf(task.gpu_ids[i], PCI_ID_BYTES, "0000:%u7:00.0", (i + 1U) % 10);
    }
    bitmap_set(&task.cpus, 0);
    return task;
}

static const struct wanted {
    int gpus;
    bool amd, one, kept, loose, shared; /* loose: not bound */
    const char *environment[MAX_ENTRIES];
    const char *told[MAX_ENTRIES + 1]; /* all that is written, in order */
    const char *refused;               /* in the sentence; NULL: it is not */
} cases[] = {
    {.told = {"OMP_NUM_THREADS=8", "OMP_PLACES=threads", "HVD_PLACED=srun,OMP_NUM_THREADS,OMP_PLACES"}},
    {.loose = true, .told = {"HVD_PLACED=srun"}},
    {.kept = true, .told = {"HVD_PLACED=srun"}},
    {.shared = true, .told = {"OMP_NUM_THREADS=8", "HVD_PLACED=srun,OMP_NUM_THREADS"}},
    {.environment = {"OMP_NUM_THREADS=3", "OMP_PLACES_=x"},
     .told = {"OMP_PLACES=threads", "HVD_PLACED=srun,OMP_PLACES"}},
    {.environment = {"OMP_NUM_THREADS=", "OMP_PLACES=cores"}, .told = {"HVD_PLACED=srun"}},
    /* GPUs, all of which are visible */
    {.gpus = 1,
     .loose = true,
     .told = {"HVD_GPU_PCI=0000:17:00.0", "HVD_LOCAL_DEVICE=2", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,CUDA_DEVICE_ORDER"}},
    {.gpus = 2,
     .kept = true,
     .environment = {"CUDA_DEVICE_ORDER=FASTEST_FIRST", "CUDA_VISIBLE_DEVICES=0,1,2,3"},
     .told = {"HVD_GPU_PCI=0000:17:00.0,0000:27:00.0", "HVD_LOCAL_DEVICE=2",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE"}},
    {.gpus = 1,
     .amd = true,
     .loose = true,
     .told = {"HVD_GPU_PCI=0000:17:00.0", "HVD_LOCAL_DEVICE=2",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE"}},
    /* its own alone */
    {.one = true, .loose = true, .told = {"HVD_PLACED=srun"}},
    {.gpus = 2,
     .one = true,
     .loose = true,
     .told = {"HVD_GPU_PCI=0000:17:00.0,0000:27:00.0", "HVD_LOCAL_DEVICE=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
              "CUDA_VISIBLE_DEVICES=2,3",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,CUDA_DEVICE_ORDER,CUDA_VISIBLE_DEVICES"}},
    {.gpus = 2,
     .one = true,
     .loose = true,
     .environment = {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c,GPU-d,GPU-e"},
     .told = {"HVD_GPU_PCI=0000:17:00.0,0000:27:00.0", "HVD_LOCAL_DEVICE=0",
              "CUDA_VISIBLE_DEVICES=GPU-c,GPU-d",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,CUDA_VISIBLE_DEVICES"}},
    {.gpus = 1,
     .one = true,
     .loose = true,
     .environment = {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=7,6,5,4"},
     .told = {"HVD_GPU_PCI=0000:17:00.0", "HVD_LOCAL_DEVICE=0", "CUDA_VISIBLE_DEVICES=5",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,CUDA_VISIBLE_DEVICES"}},
    {.gpus = 2,
     .one = true,
     .environment = {"CUDA_VISIBLE_DEVICES=7,6,5"},
     .refused = "CUDA_VISIBLE_DEVICES=7,6,5 has no entry for GPU 0000:27:00.0"},
    {.gpus = 1,
     .one = true,
     .amd = true,
     .loose = true,
     .environment = {"CUDA_VISIBLE_DEVICES=7", "ROCR_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c"},
     .told = {"HVD_GPU_PCI=0000:17:00.0", "HVD_LOCAL_DEVICE=0", "ROCR_VISIBLE_DEVICES=GPU-c",
              "HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,ROCR_VISIBLE_DEVICES"}},
    {.gpus = 1, .one = true, .amd = true, .environment = {"HIP_VISIBLE_DEVICES=0"}, .refused = "unset it"},
};

START_TEST(a_task_is_told_what_it_has)
{
    const struct wanted *wanted = &cases[_i];
    struct plan_task task = make_task(wanted->gpus, wanted->amd);
    struct env_variable variables[APPLY_MAX];
    struct hvd_error err = {""};
    task.bound = !wanted->loose;
    if (wanted->shared)
        task.places[0] = 0;
    const struct launched_task launched = {.task = &task,
                                           .launcher = "srun",
                                           .kept = wanted->kept,
                                           .gpu_visible = wanted->one ? GPU_VISIBLE_ONE : GPU_VISIBLE_ALL,
                                           .environment = (char *const *)wanted->environment};
    int count = apply_variables(&launched, variables, &err);
    if (wanted->refused != NULL) {
        ck_assert_int_eq(count, HVD_ERR_INVALID);
        ck_assert_msg(strstr(err.text, wanted->refused) != NULL, "%s", err.text);
        return;
    }
    for (int i = 0; i < count; i++) {
        char entry[APPLY_VALUE_BYTES + 64];
        snprintf(entry, sizeof(entry), "%s=%s", variables[i].name, variables[i].value);
        ck_assert_ptr_nonnull(wanted->told[i]);
        ck_assert_str_eq(entry, wanted->told[i]);
    }
    ck_assert_ptr_null(wanted->told[count]);
}
END_TEST

START_TEST(without_an_environment_it_is_that_of_this_process)
{
    struct plan_task task = make_task(0, false);
    struct env_variable variables[APPLY_MAX];
    const struct launched_task launched = {.task = &task, .launcher = "hvd"};
    setenv("OMP_NUM_THREADS", "3", 1);
    unsetenv("OMP_PLACES");
    ck_assert_int_eq(apply_variables(&launched, variables, NULL), 2);
    ck_assert_str_eq(variables[1].name, PLACED_VARIABLE);
    ck_assert_str_eq(variables[1].value, "hvd,OMP_PLACES");
}
END_TEST

/* As many GPUs as there can be fit in. */
START_TEST(all_gpus_of_a_node_are_told)
{
    struct plan_task task = make_task(0, false);
    struct env_variable variables[APPLY_MAX];
    const struct launched_task launched = {.task = &task, .launcher = "srun", .gpu_visible = GPU_VISIBLE_ONE};
    task.gpu_count = PLAN_TASK_GPUS;
    for (int i = 0; i < PLAN_TASK_GPUS; i++) {
        task.devices[i] = i;
        snprintf(task.gpu_ids[i], PCI_ID_BYTES, "10000:%02x:00.0", (unsigned)i);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    ck_assert_int_gt(apply_variables(&launched, variables, NULL), 3);
    ck_assert_str_eq(strrchr(variables[0].value, ','), ",10000:3f:00.0");
}
END_TEST

START_TEST(what_is_listed_is_found)
{
    ck_assert(placed_has_variable("srun,OMP_NUM_THREADS,OMP_PLACES", "OMP_NUM_THREADS"));
    ck_assert(placed_has_variable("srun,OMP_NUM_THREADS,OMP_PLACES", "OMP_PLACES"));
    ck_assert(!placed_has_variable("srun,OMP_NUM_THREADS", "OMP_NUM"));
    ck_assert(!placed_has_variable("srun,OMP_NUM_THREADS", "OMP_PLACES"));
    ck_assert(!placed_has_variable("srun,OMP_NUM_THREADS", "srun"));
    ck_assert(!placed_has_variable("srun", "srun"));
    ck_assert(!placed_has_variable("srun", ""));
    ck_assert(!placed_has_variable("", "OMP_PLACES"));
    ck_assert(!placed_has_variable(NULL, "OMP_PLACES"));
}
END_TEST

START_TEST(cpus_are_set_and_read)
{
    struct bitmap own, one = {{0}}, now;
    struct hvd_error err = {""};
    ck_assert_int_eq(apply_read_cpus(0, &own, &err), HVD_OK);
    ck_assert(!bitmap_is_empty(&own));
    bitmap_set(&one, bitmap_find_next(&own, 0));
    ck_assert_int_eq(apply_cpus(0, &one, &err), HVD_OK);
    ck_assert_int_eq(apply_read_cpus(0, &now, &err), HVD_OK);
    ck_assert(bitmap_is_equal(&now, &one));
    ck_assert_int_eq(apply_cpus(0, &own, &err), HVD_OK);
    ck_assert_int_eq(apply_read_cpus(0, &now, &err), HVD_OK);
    ck_assert(bitmap_is_equal(&now, &own));
}
END_TEST

START_TEST(cpus_that_are_not_there_are_an_error)
{
    struct bitmap none = {{0}};
    struct hvd_error err = {""};
    bitmap_set(&none, BITMAP_BITS - 1);
    ck_assert_int_eq(apply_cpus(0, &none, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "CPUs 4095") != NULL, "%s", err.text);
}
END_TEST

/* Where the kernel does not let us, nothing is chosen, and nothing fails. */
START_TEST(memory_is_preferred_and_left)
{
    struct bitmap first = {{0}}, none = {{0}};
    ck_assert(!apply_mems_are_set());
    apply_mems(&none);
    ck_assert(!apply_mems_are_set());
    bitmap_set(&first, 0);
    apply_mems(&first);
    apply_default_mems();
    ck_assert(!apply_mems_are_set());
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("apply");
    tcase_add_loop_test(tcase, a_task_is_told_what_it_has, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, without_an_environment_it_is_that_of_this_process);
    tcase_add_test(tcase, all_gpus_of_a_node_are_told);
    tcase_add_test(tcase, what_is_listed_is_found);
    tcase_add_test(tcase, cpus_are_set_and_read);
    tcase_add_test(tcase, cpus_that_are_not_there_are_an_error);
    tcase_add_test(tcase, memory_is_preferred_and_left);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("apply", fill);
}
