/* test_node_placement.c: what is placed by: which GPUs there are and may be used, and within which CPUs. */
#include "config.h"

#include "topo/node_placement.h"

#include "temp_folder.h"
#include "recorded_machines.h"

static char topology[1024];

/* An empty file below the folder, with the folders that lead to it. */
static void make_file(const char *name)
{
    char path[300];
    snprintf(path, sizeof(path), "%s%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fclose(file);
}

/* What NVIDIA's driver says of a GPU. */
static void describe_gpu(const char *pci_id, int minor)
{
    char name[200];
    snprintf(name, sizeof(name), "/proc/driver/nvidia/gpus/%s/information", pci_id);
    make_file(name);
    char path[300];
    snprintf(path, sizeof(path), "%s%s", folder, name);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-0000000%d\nDevice Minor: \t %d\n", minor, minor);
    fclose(file);
}

/* The folder is the root of a machine like gpu8, with the driver's word on all its GPUs. */
static struct node_placement make_place(void)
{
    static const char *const ids[] = {"0000:13:00.0", "0000:15:00.0", "0000:33:00.0", "0000:35:00.0",
                                      "0000:93:00.0", "0000:95:00.0", "0000:b3:00.0", "0000:b5:00.0"};
    static const char *const nothing[] = {NULL};
    const char *source = getenv("HVD_SOURCE");
    snprintf(topology, sizeof(topology), "%s/tests/data/topo/gpu8.xml", source != NULL ? source : ".");
    for (int i = 0; i < 8; i++)
        describe_gpu(ids[i], i);
    return (struct node_placement){
        .topology = topology, .root = folder, .task_count = 2, .environment = (char *const *)nothing};
}

static struct machine *load(const struct node_placement *place)
{
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    ck_assert_msg(node_placement_load_machine(place, &machine, &err) == HVD_OK, "%s", err.text);
    return machine;
}

static void expect_gpus(const struct visible_gpus *visible, int first, int second)
{
    ck_assert_int_eq(visible->count, (first >= 0) + (second >= 0));
    if (first >= 0)
        ck_assert_int_eq(visible->gpus[0], first);
    if (second >= 0)
        ck_assert_int_eq(visible->gpus[1], second);
}

START_TEST(gpus_without_a_device_file_are_not_granted)
{
    struct node_placement place = make_place();
    struct visible_gpus visible;
    make_file("/dev/nvidia3");
    make_file("/dev/nvidia6");
    struct machine *machine = load(&place);
    ck_assert_int_eq(machine->gpu_count, 8);
    node_placement_find_gpus(&place, machine, &visible);
    expect_gpus(&visible, 3, 6);
    machine_destroy(machine);
}
END_TEST

START_TEST(the_environment_hides_gpus)
{
    static const char *const environment[] = {"CUDA_VISIBLE_DEVICES=1", NULL};
    struct node_placement place = make_place();
    struct visible_gpus visible;
    make_file("/dev/nvidia3");
    make_file("/dev/nvidia6");
    struct machine *machine = load(&place);
    place.environment = (char *const *)environment;
    node_placement_find_gpus(&place, machine, &visible);
    expect_gpus(&visible, 6, -1); /* numbers count among those that are granted */
    place.elsewhere = true;
    node_placement_find_gpus(&place, machine, &visible);
    ck_assert_int_eq(visible.count, 8);
    machine_destroy(machine);
}
END_TEST

START_TEST(tasks_get_the_gpus_that_are_granted)
{
    struct node_placement place = make_place();
    struct plan *plan = NULL;
    make_file("/dev/nvidia3");
    make_file("/dev/nvidia6");
    struct machine *machine = load(&place);
    ck_assert_int_eq(node_placement_plan(&place, machine, &plan, NULL), HVD_OK);
    ck_assert_int_eq(plan->tasks[0].gpus[0], 3);
    ck_assert_int_eq(plan->tasks[1].gpus[0], 6);
    ck_assert_int_eq(plan->tasks[1].gpu_count, 1);
    ck_assert_int_eq(plan->tasks[1].devices[0], 1);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(tasks_stay_within_what_is_granted)
{
    struct bitmap granted = cpu_list("2-5,40");
    struct node_placement place = make_place();
    struct plan *plan = NULL;
    struct machine *machine = load(&place);
    place.cpus = &granted;
    place.task_count = 4;
    ck_assert_int_eq(node_placement_plan(&place, machine, &plan, NULL), HVD_OK);
    for (int i = 0; i < 4; i++) {
        ck_assert(!bitmap_is_empty(&plan->tasks[i].cpus));
        ck_assert(bitmap_is_included(&plan->tasks[i].cpus, &granted));
    }
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(cores_only_leaves_devices_out)
{
    struct node_placement place = make_place();
    struct plan *plan = NULL;
    place.cores_only = true;
    struct machine *machine = load(&place);
    ck_assert_int_eq(machine->gpu_count, 0);
    ck_assert_int_eq(machine->nic_count, 0);
    ck_assert_int_gt(machine->core_count, 1);
    ck_assert_int_eq(node_placement_plan(&place, machine, &plan, NULL), HVD_OK);
    ck_assert(!bitmap_intersects(&plan->tasks[0].cpus, &plan->tasks[1].cpus));
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(cards_that_are_not_there_are_refused)
{
    struct node_placement place = make_place();
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    place.nics = "eth77";
    ck_assert_int_eq(node_placement_load_machine(&place, &machine, &err), HVD_ERR_INVALID);
    ck_assert_ptr_null(machine);
    ck_assert_msg(strstr(err.text, "eth77") != NULL, "%s", err.text);
}
END_TEST

START_TEST(drivers_tell_whether_there_are_gpus)
{
    static const char *const files[] = {"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/kfd"};
    ck_assert(!node_has_gpus(folder));
    make_file("/dev/dri/card0");
    ck_assert(!node_has_gpus(folder));
    make_file(files[_i]);
    ck_assert(node_has_gpus(folder));
}
END_TEST

START_TEST(the_plugins_of_hwloc_are_the_users_again)
{
    struct node_placement place = make_place();
    setenv("HWLOC_PLUGINS_PATH", "/x", 1);
    machine_destroy(load(&place));
    ck_assert_str_eq(getenv("HWLOC_PLUGINS_PATH"), "/x");
    unsetenv("HWLOC_PLUGINS_PATH");
    machine_destroy(load(&place));
    ck_assert_ptr_null(getenv("HWLOC_PLUGINS_PATH"));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("node_placement");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, folder_empty, NULL);
    tcase_add_test(tcase, gpus_without_a_device_file_are_not_granted);
    tcase_add_test(tcase, the_environment_hides_gpus);
    tcase_add_test(tcase, tasks_get_the_gpus_that_are_granted);
    tcase_add_test(tcase, tasks_stay_within_what_is_granted);
    tcase_add_test(tcase, cores_only_leaves_devices_out);
    tcase_add_test(tcase, cards_that_are_not_there_are_refused);
    tcase_add_loop_test(tcase, drivers_tell_whether_there_are_gpus, 0, 3);
    tcase_add_test(tcase, the_plugins_of_hwloc_are_the_users_again);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_placement", fill);
}
