/* test_plan_small.c: plans of machines so small that each rule of placement can be seen in one of them. */
#include <string.h>

#include "recorded_machines.h"

#define SMALL_MAX 8 /* tasks, GPUs or NICs of a case */

/* A machine and a request. A list of CPUs for each GPU and NIC says which CPUs are near it; a list for a task
 * says where it is bound. */
struct plan_case {
    const char *behaviour;
    const char *cores; /* of each NUMA node, one digit each; '|' begins the next package */
    int threads;       /* of each core, with CPU numbers next to each other; 0: 1 */
    const char *gpus[SMALL_MAX], *nics[SMALL_MAX];
    int tasks;
    struct bind_options bind;
    const char *rs;      /* NULL: no resource sets */
    const char *granted; /* NULL: all CPUs */
    const char *bound[SMALL_MAX];
    const char *expected; /* as describe_plan writes it */
    const char *note;     /* of the plan; NULL: any */
};

/* ---- The machine ---- */

static void add_core(struct machine *machine, int threads)
{
    struct machine_core *core = &machine->cores[machine->core_count];
    core->os_index = machine->core_count;
    core->cpu_count = threads;
    for (int kind = 0; kind < DOMAIN_KINDS; kind++)
        core->domain[kind] = machine->domain_count[kind] - 1;
    for (int i = 0; i < threads; i++) {
        core->cpus[i] = machine->core_count * threads + i;
        bitmap_set(&machine->cpus, core->cpus[i]);
        for (int kind = 0; kind < DOMAIN_KINDS; kind++)
            bitmap_set(&machine->domains[kind][core->domain[kind]].cpus, core->cpus[i]);
    }
    machine->core_count++;
}

static void add_domain(struct machine *machine, enum domain_kind kind)
{
    int index = machine->domain_count[kind]++;
    machine->domains[kind][index].os_index = index;
    if (kind == DOMAIN_NUMA) {
        bitmap_set(&machine->domains[kind][index].mems, index);
        bitmap_set(&machine->mems, index);
    }
}

/* All devices are behind one switch and as fast as each other. */
static struct pci_device make_device(int bus, const char *near)
{
    struct pci_device pci = {.mbps = 256000, .bridge_count = 2, .bridges = {1, 2}, .cpus = cpu_list(near)};
    snprintf(pci.id, sizeof(pci.id), "0000:%02x:00.0", (unsigned int)bus);
    return pci;
}

static struct machine *make_machine(const struct plan_case *from)
{
    struct machine *machine = calloc(1, sizeof(*machine));
    ck_assert_ptr_nonnull(machine);
    machine->cores = calloc(9 * strlen(from->cores), sizeof(*machine->cores));
    for (int kind = 0; kind < DOMAIN_KINDS; kind++)
        machine->domains[kind] = calloc(strlen(from->cores), sizeof(*machine->domains[kind]));
    add_domain(machine, DOMAIN_PACKAGE);
    for (const char *at = from->cores; *at != 0; at++) {
        if (*at == '|') {
            add_domain(machine, DOMAIN_PACKAGE);
            continue;
        }
        add_domain(machine, DOMAIN_NUMA);
        add_domain(machine, DOMAIN_L3);
        for (int i = 0; i < *at - '0'; i++)
            add_core(machine, from->threads > 0 ? from->threads : 1);
    }
    machine->allowed = machine->cpus;
    machine->allowed_mems = machine->mems;
    for (; machine->gpu_count < SMALL_MAX && from->gpus[machine->gpu_count] != NULL; machine->gpu_count++)
        machine->gpus[machine->gpu_count].pci =
            make_device(machine->gpu_count, from->gpus[machine->gpu_count]);
    for (; machine->nic_count < SMALL_MAX && from->nics[machine->nic_count] != NULL; machine->nic_count++) {
        struct nic *nic = &machine->nics[machine->nic_count];
        nic->pci = make_device(SMALL_MAX + machine->nic_count, from->nics[machine->nic_count]);
        nic->mbps = 100000;
        snprintf(nic->verbs, sizeof(nic->verbs), "mlx5_%d", machine->nic_count);
    }
    return machine;
}

/* ---- The plan ---- */

static void append_indexes(FILE *file, const char *what, const int *indexes, int count)
{
    for (int i = 0; i < count; i++)
        fprintf(file, "%s%d", i == 0 ? what : ",", indexes[i]);
}

/* "0-3 gpu 0 nic 0,1; 4-7 gpu 1 nic 2": of each task its CPUs, GPUs and NICs. */
static void describe_plan(const struct plan *plan, char *text, size_t text_bytes)
{
    char list[128];
    FILE *file = fmemopen(text, text_bytes, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < plan->task_count; i++) {
        const struct plan_task *task = &plan->tasks[i];
        fprintf(file, "%s%s", i == 0 ? "" : "; ", bitmap_text(&task->cpus, list, sizeof(list)));
        append_indexes(file, " gpu ", task->gpus, task->gpu_count);
        append_indexes(file, " nic ", task->nics, task->nic_count);
    }
    fclose(file);
}

static void check_case(const struct plan_case *from)
{
    struct bitmap granted, masks[SMALL_MAX];
    struct request_task tasks[SMALL_MAX] = {{0}};
    struct rs_options rs;
    struct plan_request request = {.task_count = from->tasks, .gpu_count = -1, .bind = from->bind};
    const char *why = "";
    char text[512];
    if (from->granted != NULL) {
        granted = cpu_list(from->granted);
        request.cpus = &granted;
    }
    if (from->rs != NULL) {
        ck_assert_msg(rs_parse(from->rs, &rs, &why) == 0, "%s", why);
        request.rs = &rs;
    }
    for (int i = 0; i < SMALL_MAX; i++)
        if (from->bound[i] != NULL) {
            masks[i] = cpu_list(from->bound[i]);
            tasks[i].cpus = &masks[i];
            request.tasks = tasks;
        }
    struct machine *machine = make_machine(from);
    struct plan *plan = make_plan(machine, &request);
    describe_plan(plan, text, sizeof(text));
    ck_assert_msg(strcmp(text, from->expected) == 0, "%s\nexpected %s\nfound    %s", from->behaviour,
                  from->expected, text);
    if (from->note != NULL)
        ck_assert_str_eq(plan->note, from->note);
    plan_destroy(plan);
    machine_destroy(machine);
}

#define COUNT(cases) ((int)(sizeof(cases) / sizeof((cases)[0])))

/* ---- GPUs for cores that are bound ---- */

static const struct plan_case gpus_by_cores[] = {
    {"a task gets all GPUs near its cores, if none has more", .cores = "22",
     .gpus = {"0-1", "0-1", "2-3", "2-3"}, .tasks = 2, .bound = {"2-3", "0-1"},
     .expected = "2-3 gpu 2,3; 0-1 gpu 0,1"},
    {"a task without a GPU near its cores gets one of its package", .cores = "22", .gpus = {"0-1", "0-1"},
     .tasks = 2, .bound = {"2-3", "0-1"}, .expected = "2-3 gpu 1; 0-1 gpu 0"},
    {"no task gets a GPU twice where their number is odd", .cores = "22", .gpus = {"0-1", "0-1", "2-3"},
     .tasks = 2, .bound = {"0-1", "2-3"}, .expected = "0-1 gpu 0,1; 2-3 gpu 2"},
    {"a GPU of the package is preferred to one of another package", .cores = "11|11", .gpus = {"3", "1"},
     .tasks = 1, .bound = {"0"}, .expected = "0 gpu 1,0"},
    {"one task that is bound is enough, whichever it is", .cores = "22", .gpus = {"0-1", "2-3"}, .tasks = 2,
     .bound = {NULL, "0-1"}, .expected = "2-3 gpu 1; 0-1 gpu 0"},
};

START_TEST(gpus_follow_the_cores_that_are_bound)
{
    check_case(&gpus_by_cores[_i]);
}
END_TEST

/* ---- Cores near GPUs ---- */

static const struct plan_case cores_near_gpus[] = {
    {"cores are near all GPUs of a task", .cores = "22", .gpus = {"0-1", "2-3"}, .tasks = 1,
     .expected = "0-3 gpu 0,1"},
    {"where too few are near one of the GPUs, all tasks get cores of their package", .cores = "13|22",
     .gpus = {"0", "4-5"}, .tasks = 2, .expected = "0-3 gpu 0; 4-7 gpu 1"},
    {"what is near a GPU is shared with the tasks of all GPUs that are near a part of it", .cores = "22|8",
     .gpus = {"0-1", "2-3", "0-3"}, .tasks = 3, .expected = "0-1,4-5 gpu 0; 2-3,6-7 gpu 1; 8-11 gpu 2"},
};

START_TEST(cores_are_near_gpus)
{
    check_case(&cores_near_gpus[_i]);
}
END_TEST

/* ---- Cores of resource sets ---- */

static const struct plan_case cores_of_sets[] = {
    {"what is not near the GPU comes from the NUMA node of its package with the most free cores",
     .cores = "113", .gpus = {"0"}, .tasks = 1, .rs = "cpus:3,gpus:1,bind:rs", .expected = "0,2-3 gpu 0"},
    {"a NUMA node of the GPU's package is preferred to a larger one of another package", .cores = "4|12",
     .gpus = {"4"}, .tasks = 1, .rs = "cpus:2,gpus:1,bind:rs", .expected = "4-5 gpu 0"},
    {"a set of one core has one core", .cores = "4", .tasks = 1, .rs = "cpus:1,bind:rs", .expected = "0"},
    {"a set has as many GPUs as are asked for", .cores = "4", .gpus = {"0-3", "0-3", "0-3", "0-3"},
     .tasks = 2, .rs = "cpus:2,gpus:1,bind:rs", .expected = "0-1 gpu 0; 2-3 gpu 1"},
    {"sets share out all GPUs", .cores = "4", .gpus = {"0-3", "0-3", "0-3", "0-3"}, .tasks = 2,
     .rs = "cpus:2,gpus:all,bind:rs", .expected = "0-1 gpu 0,1; 2-3 gpu 2,3"},
    {"tasks have the cores of their place in the set", .cores = "23", .tasks = 4, .rs = "tasks:2,cpus:2",
     .expected = "0; 1; 2; 3"},
    {"the tasks of a set begin with different GPUs of it", .cores = "4", .gpus = {"0-3", "0-3", "0-3"},
     .tasks = 3, .rs = "tasks:3,cpus:3,gpus:3", .expected = "0 gpu 0,1,2; 1 gpu 1,2,0; 2 gpu 2,0,1"},
};

START_TEST(sets_take_the_nearest_cores)
{
    check_case(&cores_of_sets[_i]);
}
END_TEST

/* ---- Reserved cores, and hardware threads ---- */

static const struct plan_case parts_of_machines[] = {
    {"the core for the system is one of the largest NUMA node", .cores = "12", .tasks = 1,
     .bind = {.reserve = 1}, .expected = "0,2", .note = "1 core is kept for the system."},
    {"a machine of one core has as many threads as its core", .cores = "1", .threads = 2, .tasks = 1,
     .bind = {.smt = 2}, .expected = "0-1", .note = ""},
    {"one core that is left over is idle", .cores = "3", .tasks = 2, .bind = {.policy = BIND_CORE},
     .expected = "0; 1", .note = "1 of 3 granted cores is idle, as all tasks have equal shares."},
};

START_TEST(parts_are_used)
{
    check_case(&parts_of_machines[_i]);
}
END_TEST

/* ---- Confined to a domain ---- */

static const struct plan_case confined[] = {
    {"tasks of one core each have cores next to each other", .cores = "4", .tasks = 2,
     .bind = {.policy = BIND_CORE}, .expected = "0; 1"},
    {"tasks of a cache have its cores in their order, also beside one that is bound", .cores = "3",
     .gpus = {"0", "2", "1"}, .tasks = 3, .bind = {.policy = BIND_L3}, .bound = {"0"},
     .expected = "0 gpu 0; 1 gpu 1; 2 gpu 2"},
    {"a NUMA node of which only a part is near the GPU is used as a whole", .cores = "22", .gpus = {"2"},
     .tasks = 1, .bind = {.policy = BIND_NUMA}, .expected = "2-3 gpu 0"},
    {"a thread that is left goes to a task on its left, and those in between move", .cores = "3",
     .threads = 2, .tasks = 4, .bind = {.policy = BIND_NUMA}, .expected = "0-1; 2-3; 4; 5"},
    {"every task whose NUMA node is too small gets another one", .cores = "13|13", .gpus = {"0", "4"},
     .tasks = 2, .bind = {.policy = BIND_NUMA}, .expected = "1-3 gpu 0; 5-7 gpu 1"},
    {"the other NUMA node is one of the GPU's package", .cores = "13|13", .gpus = {"4"}, .tasks = 1,
     .bind = {.policy = BIND_NUMA}, .expected = "5-7 gpu 0"},
    {"tasks that share a core have all its hardware threads", .cores = "1114", .threads = 2,
     .gpus = {"0-1", "2-3", "0-1", "2-3", "2-3", "4-5", "2-3", "4-5"}, .tasks = 4,
     .bind = {.policy = BIND_NUMA}, .expected = "0-1 gpu 0,1; 2-3 gpu 2,3; 2-3 gpu 4,5; 4-5 gpu 6,7"},
};

START_TEST(tasks_are_confined_to_domains)
{
    check_case(&confined[_i]);
}
END_TEST

/* ---- Network cards ---- */

static const struct plan_case cards[] = {
    {"tasks take cards in turn", .cores = "4", .nics = {"0-3", "0-3"}, .tasks = 4,
     .expected = "0 nic 0; 1 nic 1; 2 nic 0; 3 nic 1"},
    {"where there are more cards than tasks, each card has one task", .cores = "2",
     .nics = {"0-1", "0-1", "0-1"}, .tasks = 2, .expected = "0 nic 0; 1 nic 1,2"},
    {"tasks near different cards do not count for each other", .cores = "22",
     .nics = {"0-1", "0-1", "2-3", "2-3"}, .tasks = 4, .expected = "0 nic 0; 1 nic 1; 2 nic 2; 3 nic 3"},
    {"a task uses the cards of each of its GPUs, each card once", .cores = "22",
     .gpus = {"0-1", "0-1", "2-3"}, .nics = {"0-1", "0-1", "0-1"}, .tasks = 2,
     .expected = "0-1 gpu 0 nic 0,1; 2-3 gpu 1,2 nic 1,2,0"},
    {"one task uses all cards that are as good", .cores = "2", .nics = {"0-1", "0-1", "0-1"}, .tasks = 1,
     .expected = "0-1 nic 0,1,2"},
};

START_TEST(cards_are_shared_among_tasks)
{
    check_case(&cards[_i]);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("plan_small");
    tcase_add_loop_test(tcase, gpus_follow_the_cores_that_are_bound, 0, COUNT(gpus_by_cores));
    tcase_add_loop_test(tcase, cores_are_near_gpus, 0, COUNT(cores_near_gpus));
    tcase_add_loop_test(tcase, sets_take_the_nearest_cores, 0, COUNT(cores_of_sets));
    tcase_add_loop_test(tcase, parts_are_used, 0, COUNT(parts_of_machines));
    tcase_add_loop_test(tcase, tasks_are_confined_to_domains, 0, COUNT(confined));
    tcase_add_loop_test(tcase, cards_are_shared_among_tasks, 0, COUNT(cards));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("plan_small", fill);
}
