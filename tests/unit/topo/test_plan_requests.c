/* test_plan_requests.c: what may be asked of a plan, what is settled before, and which requests are refused.
 */
#include <string.h>

#include "recorded_machines.h"

/* ---- Refused ---- */

static const struct {
    const char *machine;
    int tasks;
    const char *bind, *cpus, *rs, *sentence;
} refused[] = {
    {"cpu4", 0, "auto", NULL, NULL, "0 tasks are to be placed on one node; expected 1 to 8192"},
    {"cpu4", 8193, "auto", NULL, NULL, "8193 tasks are to be placed"},
    {"cpu4", 1, "gpu", NULL, NULL,
     "--hvd-bind=gpu: no GPU is granted on this node; ask for GPUs, or give auto or numa"},
    {"cpu4", 1, "auto,smt:4", NULL, NULL,
     "smt:4: cores of this machine have 2 hardware threads; expected smt:2 or less"},
    {"cpu4", 1, "auto,reserve:48", NULL, NULL,
     "reserve:48: 48 cores are granted on this node; expected at most reserve:47"},
    {"cpu4", 1, "auto,reserve:1", "5", NULL, "reserve:1: 1 core is granted"},
    {"cpu4", 1, "auto", "", NULL, "no CPU is granted"},
    {"vm1", 1, "auto", "0-1", NULL,
     "CPUs 0-1 are granted, but the topology has 0; it is of another machine or out of date"},
    {"gpu8", 9, "auto", NULL, "tasks:1,cpus:1,gpus:1",
     "9 resource sets of 1 GPU do not fit on this node, where 8 are granted"},
    {"gpu8", 8, "auto", NULL, "cpus:17",
     "8 resource sets of 17 cores do not fit on this node, where 128 are granted"},
    {"gpu8", 8, "auto", NULL, "tasks:4,rs_per_host:1",
     "8 tasks on this node are 2 resource sets of 4, but rs_per_host is 1"},
    {"gpu8", 8, "auto", NULL, "bind:packed:7", "needs resource sets of 7 cores, they have 1; give cpus:7"},
    {"cpu4", 1, "auto", NULL, "gpus:all",
     "1 resource set of 1 GPU do not fit on this node, where 0 are granted"},
    {"cpu4", 3, "auto", NULL, "cpus:16,bind:rs,latency_priority:CPU-MEM",
     "cannot be in one NUMA node, as CPU-MEM demands"},
    {"cpu4", 1, "auto", NULL, "cpus:25,bind:rs,latency_priority:CPU-CPU",
     "cannot be in one package, as CPU-CPU demands"},
    {"epyc4", 4, "auto", "0-15", "cpus:4,gpus:1,bind:rs,latency_priority:GPU-CPU",
     "can be near its GPUs, as GPU-CPU demands"},
};

START_TEST(what_cannot_be_met_is_refused)
{
    struct machine *machine = load_machine(refused[_i].machine);
    struct plan_request request = {.task_count = refused[_i].tasks, .gpu_count = -1};
    struct plan *plan = NULL;
    struct bitmap cpus;
    struct rs_options rs;
    struct hvd_error err = {""};
    const char *why = "";
    ck_assert_int_eq(bind_parse(refused[_i].bind, &request.bind, &why), 0);
    if (refused[_i].cpus != NULL) {
        cpus = cpu_list(refused[_i].cpus);
        request.cpus = &cpus;
    }
    if (refused[_i].rs != NULL) {
        ck_assert_msg(rs_parse(refused[_i].rs, &rs, &why) == 0, "%s", why);
        request.rs = &rs;
    }
    ck_assert_int_eq(plan_create(machine, &request, &plan, &err), HVD_ERR_INVALID);
    ck_assert_ptr_null(plan);
    ck_assert_msg(strstr(err.text, refused[_i].sentence) != NULL, "%s", err.text);
    machine_destroy(machine);
}
END_TEST

START_TEST(gpus_that_are_not_there_are_refused)
{
    struct machine *machine = load_machine("epyc4");
    int wrong[] = {4}, twice[] = {1, 1};
    struct plan_request request = {.task_count = 1, .gpus = wrong, .gpu_count = 1};
    struct plan *plan = NULL;
    struct hvd_error err = {""};
    ck_assert_int_eq(plan_create(machine, &request, &plan, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "GPU 4 is granted, but the topology has 4") != NULL, "%s", err.text);
    request.gpus = twice;
    request.gpu_count = 2;
    ck_assert_int_eq(plan_create(machine, &request, &plan, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "GPU 0000:43:00.0 is granted twice") != NULL, "%s", err.text);
    machine_destroy(machine);
}
END_TEST

/* ---- Granted ---- */

/* Device numbers are those of the program's order, not of PCI. */
START_TEST(devices_count_in_the_order_that_is_given)
{
    struct machine *machine = load_machine("gpu8");
    int gpus[] = {5, 4, 1, 0};
    struct plan_request request = {.task_count = 4, .gpus = gpus, .gpu_count = 4};
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(plan->tasks[i].devices[0], i);
        ck_assert_int_eq(plan->tasks[i].gpus[0], gpus[i]);
        ck_assert(bitmap_is_included(&plan->tasks[i].cpus, &machine->gpus[gpus[i]].pci.cpus));
    }
    ck_assert_int_eq(plan->policy, BIND_GPU);
    plan_destroy(plan);
    request.gpu_count = 0;
    plan = make_plan(machine, &request);
    ck_assert_int_eq(plan->tasks[0].gpu_count, 0);
    ck_assert_int_eq(plan->policy, BIND_AUTO);
    ck_assert_int_eq(plan->tasks[0].core_count, 32);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

static const struct {
    const char *machine, *cpus, *bind;
    int tasks;
    const char *first[3]; /* of the first three tasks */
} leftovers[] = {
    /* two cores of 62 are left, the last ones, of which one is for task 0: all have theirs side by side */
    {"gpu8", "0-63", "auto,reserve:2", 3, {"1-7,9-22", "23-42", "43-63"}},
    {"gpu8", "0-63", "auto,smt:1", 3, {"0-20", "21-41", "42-63"}},
    {"cpu4", "0-11", "auto", 5, {"0-2", "3-5", "6-7"}},
    /* whole caches are not broken for it */
    {"gpu8", "0-24", "socket", 3, {"0-7,24", "8-15", "16-23"}},
    {"power9", "0,4,8,12,16,32,36,40", "auto,smt:1", 3, {"0,4,16", "8,12,40", "32,36"}},
};

START_TEST(what_is_left_over_tears_no_task_apart)
{
    char list[128];
    struct machine *machine = load_machine(leftovers[_i].machine);
    struct bitmap cpus = cpu_list(leftovers[_i].cpus);
    struct plan_request request = {.task_count = leftovers[_i].tasks, .cpus = &cpus, .gpu_count = 0};
    const char *why = "";
    ck_assert_int_eq(bind_parse(leftovers[_i].bind, &request.bind, &why), 0);
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(bitmap_text(&plan->tasks[i].cpus, list, sizeof(list)), leftovers[_i].first[i]);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* Memory is never outside what is granted; where none is near, all of that. */
START_TEST(memory_is_of_what_is_granted)
{
    struct machine *machine = load_machine("cpu4");
    struct bitmap mems = cpu_list("1,3");
    struct plan_request request = {.task_count = 4, .mems = &mems};
    struct plan *plan = make_plan(machine, &request);
    static const char *const expected[] = {"1,3", "1", "1,3", "3"};
    char list[64];
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(bitmap_text(&plan->tasks[i].mems, list, sizeof(list)), expected[i]);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(none_binds_nothing)
{
    struct machine *machine = load_machine("cpu4");
    struct plan_request request = {.task_count = 3, .bind = {.policy = BIND_NONE}};
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 3; i++) {
        ck_assert(bitmap_is_equal(&plan->tasks[i].cpus, &machine->allowed));
        ck_assert(!plan->tasks[i].bound);
        ck_assert_int_eq(plan->tasks[i].threads, 32);
        ck_assert_str_eq(plan->tasks[i].places, "");
    }
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* The first core of each L3 group, and no more of one than of another. */
START_TEST(resource_sets_bind_what_none_does_not)
{
    struct machine *machine = load_machine("cpu4");
    struct rs_options rs;
    const char *why = "";
    ck_assert_msg(rs_parse("cpus:2,tasks:2,bind:rs", &rs, &why) == 0, "%s", why);
    struct plan_request request = {
        .task_count = 4, .bind = {.policy = BIND_NONE}, .rs = &rs, .gpu_count = -1};
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(plan->tasks[i].core_count, 2);
    ck_assert(!bitmap_intersects(&plan->tasks[0].cpus, &plan->tasks[2].cpus));
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(reserved_cores_are_of_all_groups)
{
    struct machine *machine = load_machine("gpu8");
    struct plan_request request = {.task_count = 8, .gpu_count = -1, .bind = {.reserve = 16}};
    struct plan *plan = make_plan(machine, &request);
    char list[256];
    ck_assert_str_eq(bitmap_text(&plan->reserved, list, sizeof(list)),
                     "0,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128,136,144,152,160,168,176,184,192,"
                     "200,208,216,224,232,240,248");
    plan_destroy(plan);
    request.bind.reserve = 3;
    plan = make_plan(machine, &request);
    ck_assert_str_eq(bitmap_text(&plan->reserved, list, sizeof(list)), "0,8,64,128,136,192");
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* ---- Settled before ---- */

START_TEST(masks_that_are_bound_are_kept)
{
    struct machine *machine = load_machine("epyc4");
    /* against the order of GPUs, which begins at the last cores */
    struct bitmap masks[4] = {cpu_list("0-3"), cpu_list("20-23"), cpu_list("40-43"), cpu_list("60-63")};
    struct request_task tasks[4];
    struct plan_request request = {.task_count = 4, .gpu_count = -1, .tasks = tasks};
    for (int i = 0; i < 4; i++)
        tasks[i] = (struct request_task){.cpus = &masks[i], .why = "bound by --cpu-bind"};
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 4; i++) {
        ck_assert(bitmap_is_equal(&plan->tasks[i].cpus, &masks[i]));
        ck_assert_int_eq(plan->tasks[i].gpu_count, 1);
        ck_assert_int_eq(plan->tasks[i].gpus[0], 3 - i);
        ck_assert_msg(strncmp(plan->tasks[i].why, "bound by --cpu-bind: 4 of 8 cores of L3 cache", 45) == 0,
                      "%s", plan->tasks[i].why);
    }
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* Whether a task shares is known from every single CPU of its mask, also where only one is shared. */
START_TEST(masks_that_overlap_are_shared)
{
    static const char *const lists[][2] = {{"0-2", "0,3-4"}, {"0-2", "1,3-4"}, {"0-2", "2-4"},
                                           {"0-2", "3-5"},   {"0-3", "3-6"},   {"0-3", "1,4-6"}};
    struct machine *machine = load_machine("cpu4");
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct bitmap masks[2] = {cpu_list(lists[i][0]), cpu_list(lists[i][1])};
        struct request_task tasks[2] = {{.cpus = &masks[0]}, {.cpus = &masks[1]}};
        struct plan_request request = {.task_count = 2, .tasks = tasks};
        struct plan *plan = make_plan(machine, &request);
        bool shared = bitmap_intersects(&masks[0], &masks[1]);
        for (int k = 0; k < 2; k++) {
            int cpus = bitmap_weight(&masks[k]);
            ck_assert(bitmap_is_equal(&plan->tasks[k].cpus, &masks[k]));
            ck_assert_msg(plan->tasks[k].shared == shared, "%s and %s", lists[i][0], lists[i][1]);
            ck_assert_int_eq(plan->tasks[k].threads, shared ? cpus / 2 : cpus);
            ck_assert_str_eq(plan->tasks[k].places, shared ? "" : "threads");
            ck_assert(bitmap_is_included(&masks[k], &plan->used));
        }
        plan_destroy(plan);
    }
    machine_destroy(machine);
}
END_TEST

START_TEST(others_take_what_is_not_settled)
{
    struct machine *machine = load_machine("cpu4");
    struct bitmap mask = cpu_list("0-11");
    struct request_task tasks[4] = {
        {.cpus = NULL}, {.cpus = &mask, .why = "bound"}, {.cpus = NULL}, {.cpus = NULL}};
    struct plan_request request = {.task_count = 4, .tasks = tasks};
    struct plan *plan = make_plan(machine, &request);
    char list[64];
    ck_assert_str_eq(bitmap_text(&plan->tasks[0].cpus, list, sizeof(list)), "12-23,60-71");
    ck_assert(bitmap_is_equal(&plan->tasks[1].cpus, &mask));
    ck_assert_str_eq(bitmap_text(&plan->tasks[2].cpus, list, sizeof(list)), "24-35,72-83");
    ck_assert_str_eq(bitmap_text(&plan->tasks[3].cpus, list, sizeof(list)), "36-47,84-95");
    plan_destroy(plan);
    /* nothing is left: they share */
    mask = machine->allowed;
    plan = make_plan(machine, &request);
    ck_assert_int_eq(plan->tasks[0].core_count, 16);
    ck_assert(plan->tasks[0].shared && plan->tasks[1].shared);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* Two cores of 62 are left, for one of which the tasks would have to move over the settled ones. */
START_TEST(what_is_settled_is_not_moved)
{
    struct machine *machine = load_machine("gpu8");
    struct bitmap cpus = cpu_list("0-63");
    struct bitmap mask = cpu_list("20-21");
    struct request_task tasks[4] = {
        {.cpus = NULL}, {.cpus = &mask, .why = "bound"}, {.cpus = NULL}, {.cpus = NULL}};
    struct plan_request request = {.task_count = 4, .cpus = &cpus, .tasks = tasks, .gpu_count = 0};
    struct plan *plan = make_plan(machine, &request);
    char list[64];
    ck_assert_str_eq(bitmap_text(&plan->tasks[0].cpus, list, sizeof(list)), "0-19,56");
    ck_assert(bitmap_is_equal(&plan->tasks[1].cpus, &mask));
    ck_assert_str_eq(bitmap_text(&plan->tasks[2].cpus, list, sizeof(list)), "22-41");
    ck_assert_str_eq(bitmap_text(&plan->tasks[3].cpus, list, sizeof(list)), "42-55,57-63");
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(gpus_that_are_settled_are_kept)
{
    struct machine *machine = load_machine("gpu8");
    int gpus[2][1] = {{6}, {1}};
    struct request_task tasks[2] = {{.gpus = gpus[0], .gpu_count = 1}, {.gpus = gpus[1], .gpu_count = 1}};
    struct plan_request request = {.task_count = 2, .gpu_count = -1, .tasks = tasks};
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(plan->tasks[i].gpu_count, 1);
        ck_assert_int_eq(plan->tasks[i].gpus[0], gpus[i][0]);
        ck_assert(bitmap_is_included(&plan->tasks[i].cpus, &machine->gpus[gpus[i][0]].pci.cpus));
    }
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(tasks_know_whose_gpus_they_have)
{
    static const char *const names[] = {"gpu8", "epyc4"};
    struct machine *machine = load_machine(names[_i]);
    struct plan_request request = {.task_count = 1, .gpu_count = -1};
    struct plan *plan = make_plan(machine, &request);
    ck_assert_int_eq(plan->tasks[0].gpu_amd, _i == 1);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

START_TEST(masks_outside_of_what_is_granted_are_refused)
{
    struct machine *machine = load_machine("cpu4");
    struct bitmap granted = cpu_list("0-3"), mask = cpu_list("3-4");
    struct request_task task = {.cpus = &mask, .why = "explicit resource file, line 7"};
    struct plan_request request = {.task_count = 1, .cpus = &granted, .tasks = &task};
    struct plan *plan = NULL;
    struct hvd_error err = {""};
    ck_assert_int_eq(plan_create(machine, &request, &plan, &err), HVD_ERR_INVALID);
    ck_assert_str_eq(
        err.text,
        "task 0 is to have CPUs 3-4 (explicit resource file, line 7), but 0-3 are granted on this node");
    machine_destroy(machine);
}
END_TEST

/* ---- Network cards ---- */

/* Four tasks, one GPU each, whose NUMA node has two cards as good: each card has two of them. */
START_TEST(equal_cards_are_spread)
{
    struct machine *machine = load_machine("power9");
    int gpus[] = {0, 1, 2};
    int uses[NIC_MAX] = {0};
    struct plan_request request = {.task_count = 3, .gpus = gpus, .gpu_count = 3};
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 3; i++)
        uses[plan->tasks[i].nics[0]]++;
    ck_assert_int_eq(uses[0] + uses[1], 3);
    ck_assert_int_ge(uses[0], 1);
    ck_assert_int_ge(uses[1], 1);
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* NCCL's start: the device's number modulo the GPUs there, its bits mirrored among four cards. */
START_TEST(starts_are_mirrored_as_nccl_does)
{
    static const int expected[4] = {0, 2, 1, 3};
    struct machine *machine = load_machine("gpu8");
    int gpus[] = {0, 1, 2, 3};
    struct plan_request request = {.task_count = 4, .gpus = gpus, .gpu_count = 4};
    /* all four cards of the socket as near, as if there were no switches */
    for (int i = 0; i < 4; i++)
        machine->gpus[i].pci.bridge_count = 1;
    struct plan *plan = make_plan(machine, &request);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "mlx5_%d", expected[i]);
        ck_assert_int_eq(plan->tasks[i].nic_count, 1);
        ck_assert_str_eq(plan->tasks[i].nic_names[0], name);
    }
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* A card that is faster is better than one that is nearer; of as fast ones the nearer is. */
START_TEST(fast_cards_come_first)
{
    struct machine *machine = load_machine("gpu8");
    int gpus[] = {0};
    struct plan_request request = {.task_count = 1, .gpus = gpus, .gpu_count = 1};
    for (int i = 0; i < machine->nic_count; i++)
        machine->nics[i].mbps = strcmp(machine->nics[i].verbs, "mlx5_5") == 0 ? 100000 : 50000;
    nics_select(machine->nics, machine->nic_count, NULL, NULL);
    struct plan *plan = make_plan(machine, &request);
    ck_assert_str_eq(plan->tasks[0].nic_names[0], "mlx5_5");
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

/* ---- For others ---- */

START_TEST(tasks_from_elsewhere_are_checked)
{
    struct machine *machine = load_machine("gpu8");
    struct plan_request request = {.task_count = 1, .gpu_count = -1};
    struct plan *plan = make_plan(machine, &request);
    struct plan_task task = plan->tasks[0];
    ck_assert(plan_task_valid(&task));
    task.gpu_count = PLAN_TASK_GPUS + 1;
    ck_assert(!plan_task_valid(&task));
    task = plan->tasks[0];
    task.nic_count = -1;
    ck_assert(!plan_task_valid(&task));
    task = plan->tasks[0];
    memset(task.why, 'a', sizeof(task.why));
    ck_assert(!plan_task_valid(&task));
    task = plan->tasks[0];
    task.gpu_ids[0][3] = '\n';
    ck_assert(!plan_task_valid(&task));
    task = plan->tasks[0];
    task.nic_names[task.nic_count - 1][0] = '\n';
    ck_assert(!plan_task_valid(&task));
    /* what is behind the last one is not read */
    task = plan->tasks[0];
    task.gpu_ids[task.gpu_count][0] = '\n';
    task.nic_names[task.nic_count][0] = '\n';
    task.devices[task.gpu_count] = -1;
    ck_assert(plan_task_valid(&task));
    task = plan->tasks[0];
    task.cpus = (struct bitmap){{0}};
    ck_assert(!plan_task_valid(&task));
    task = plan->tasks[0];
    task.threads = 0;
    ck_assert(!plan_task_valid(&task));
    task = plan->tasks[0];
    memset(&task.bound, 2, 1);
    ck_assert(!plan_task_valid(&task));
    plan_destroy(plan);
    plan_destroy(NULL);
    machine_destroy(machine);
    machine_destroy(NULL);
}
END_TEST

START_TEST(long_texts_are_cut)
{
    struct machine *machine = load_machine("gpu8");
    struct plan_request request = {.task_count = 1, .gpu_count = -1};
    struct plan *plan = make_plan(machine, &request);
    char text[32];
    ck_assert_str_eq(plan_task_text(&plan->tasks[0], 0, text, sizeof(text)),
                     "task 0: cpus 0-255, memory 0-1,");
    plan_destroy(plan);
    machine_destroy(machine);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("plan_requests");
    tcase_set_timeout(tcase, 30);
    unit_add_rounds(tcase, what_cannot_be_met_is_refused, 0, sizeof(refused) / sizeof(refused[0]));
    tcase_add_test(tcase, gpus_that_are_not_there_are_refused);
    tcase_add_test(tcase, devices_count_in_the_order_that_is_given);
    unit_add_rounds(tcase, what_is_left_over_tears_no_task_apart, 0,
                    sizeof(leftovers) / sizeof(leftovers[0]));
    tcase_add_test(tcase, memory_is_of_what_is_granted);
    tcase_add_test(tcase, none_binds_nothing);
    tcase_add_test(tcase, resource_sets_bind_what_none_does_not);
    tcase_add_test(tcase, reserved_cores_are_of_all_groups);
    tcase_add_test(tcase, masks_that_are_bound_are_kept);
    tcase_add_test(tcase, masks_that_overlap_are_shared);
    tcase_add_test(tcase, others_take_what_is_not_settled);
    tcase_add_test(tcase, what_is_settled_is_not_moved);
    tcase_add_test(tcase, gpus_that_are_settled_are_kept);
    unit_add_rounds(tcase, tasks_know_whose_gpus_they_have, 0, 2);
    tcase_add_test(tcase, masks_outside_of_what_is_granted_are_refused);
    tcase_add_test(tcase, equal_cards_are_spread);
    tcase_add_test(tcase, starts_are_mirrored_as_nccl_does);
    tcase_add_test(tcase, fast_cards_come_first);
    tcase_add_test(tcase, tasks_from_elsewhere_are_checked);
    tcase_add_test(tcase, long_texts_are_cut);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("plan_requests", fill);
}
