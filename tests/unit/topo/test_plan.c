/* test_plan.c: what holds for every plan: of each machine, and of those whose hwloc XML is in the folder
 * HVD_TOPOLOGIES, for each policy and each number of tasks up to twice the cores. */
#include <dirent.h>
#include <stdarg.h>
#include <string.h>

#include "recorded_machines.h"
#include "topo/path.h"

/* ---- What is looked at ---- */

/* ck_assert_msg writes to a file each time, which is too slow for millions. */
static void __attribute__((format(printf, 2, 3))) holds(bool condition, const char *format, ...)
{
    char text[512];
    va_list args;
    if (condition)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ck_abort_msg("%s", text);
}

#define GRANTS 3 /* all CPUs, and two parts of them */

struct view {
    const struct machine *machine;
    const struct plan_request *request;
    const struct plan *plan;
    int cores;   /* granted, without those that are reserved */
    int threads; /* of them, that may be used */
    char what[160];
};

static int cores_in(const struct machine *machine, const struct bitmap *cpus)
{
    int count = 0;
    for (int i = 0; i < machine->core_count; i++) {
        bool in = false;
        for (int k = 0; k < machine->cores[i].cpu_count; k++)
            in = in || bitmap_is_set(cpus, machine->cores[i].cpus[k]);
        count += in;
    }
    return count;
}

/* What may be used of [granted]. */
static struct bitmap usable(const struct view *view, const struct bitmap *granted)
{
    struct bitmap set = {{0}};
    int smt = view->request->bind.smt;
    for (int i = 0; i < view->machine->core_count; i++) {
        int used = 0;
        for (int k = 0; k < view->machine->cores[i].cpu_count; k++) {
            int cpu = view->machine->cores[i].cpus[k];
            if (bitmap_is_set(granted, cpu) && !bitmap_is_set(&view->plan->reserved, cpu) &&
                (smt == 0 || used++ < smt))
                bitmap_set(&set, cpu);
        }
    }
    return set;
}

/* ---- Inside, disjoint, balanced ---- */

static void check_inside(const struct view *view, const struct bitmap *granted)
{
    struct bitmap set = usable(view, granted);
    holds(cores_in(view->machine, &view->plan->reserved) == view->request->bind.reserve, "%s: reserve",
          view->what);
    for (int i = 0; i < view->plan->task_count; i++) {
        const struct plan_task *task = &view->plan->tasks[i];
        holds(plan_task_valid(task), "%s: task %d is not valid", view->what, i);
        holds(bitmap_is_included(&task->cpus, &set), "%s: task %d is outside", view->what, i);
        holds(bitmap_is_included(&task->mems, &view->machine->allowed_mems) && !bitmap_is_empty(&task->mems),
              "%s: memory of task %d", view->what, i);
        holds(task->core_count == cores_in(view->machine, &task->cpus), "%s: cores of task %d", view->what,
              i);
        for (int k = 0; k < view->machine->domain_count[DOMAIN_NUMA]; k++) {
            const struct machine_domain *numa = &view->machine->domains[DOMAIN_NUMA][k];
            holds(bitmap_intersects(&numa->cpus, &task->cpus) == bitmap_intersects(&numa->mems, &task->mems),
                  "%s: memory of task %d is not near", view->what, i);
        }
    }
}

static void check_disjoint(const struct view *view)
{
    static int users[BITMAP_BITS];
    int most = 0, least = view->plan->task_count;
    memset(users, 0, sizeof(users));
    for (int i = 0; i < view->plan->task_count; i++)
        for (int cpu = bitmap_find_next(&view->plan->tasks[i].cpus, 0); cpu >= 0;
             cpu = bitmap_find_next(&view->plan->tasks[i].cpus, cpu + 1))
            users[cpu]++;
    for (int cpu = 0; cpu < BITMAP_BITS; cpu++) {
        most = users[cpu] > most ? users[cpu] : most;
        if (users[cpu] > 0)
            least = users[cpu] < least ? users[cpu] : least;
    }
    if (view->plan->task_count <= view->threads)
        holds(most == 1, "%s: a CPU has %d tasks", view->what, most);
    else if (view->machine->gpu_count == 0)
        holds(most - least <= 1, "%s: CPUs have %d to %d tasks", view->what, least, most);
    for (int cpu = 0; cpu < BITMAP_BITS; cpu++)
        holds(bitmap_is_set(&view->plan->used, cpu) == (users[cpu] > 0), "%s: CPU %d is used or not",
              view->what, cpu);
    for (int i = 0; i < view->plan->task_count; i++) {
        const struct bitmap *cpus = &view->plan->tasks[i].cpus;
        bool shared = false;
        for (int cpu = bitmap_find_next(cpus, 0); cpu >= 0; cpu = bitmap_find_next(cpus, cpu + 1))
            shared = shared || users[cpu] > 1;
        holds(shared == view->plan->tasks[i].shared, "%s: task %d does not say whether it shares", view->what,
              i);
    }
    if (view->plan->task_count > view->cores)
        holds(strstr(view->plan->note, "share") != NULL, "%s: nothing is said of sharing", view->what);
}

static void check_balance(const struct view *view)
{
    int most = 0, least = BITMAP_BITS;
    bool whole = view->plan->task_count <= view->cores;
    for (int i = 0; i < view->plan->task_count; i++) {
        const struct plan_task *task = &view->plan->tasks[i];
        int size = whole ? task->core_count : bitmap_weight(&task->cpus);
        most = size > most ? size : most;
        least = size < least ? size : least;
    }
    holds(most - least <= 1, "%s: tasks have %d to %d", view->what, least, most);
    if (view->request->bind.policy == BIND_AUTO && view->machine->gpu_count == 0 && whole)
        holds(least == view->cores / view->plan->task_count, "%s: %d cores each", view->what, least);
}

/* ---- Domains ---- */

static bool in_one(const struct machine *machine, enum domain_kind kind, const struct bitmap *cpus)
{
    for (int i = 0; i < machine->domain_count[kind]; i++)
        if (bitmap_is_included(cpus, &machine->domains[kind][i].cpus))
            return true;
    return false;
}

static void check_confined(const struct view *view)
{
    static const int kinds[BIND_COUNT] = {
        [BIND_NUMA] = DOMAIN_NUMA, [BIND_SOCKET] = DOMAIN_PACKAGE, [BIND_L3] = DOMAIN_L3};
    enum bind_policy policy = view->request->bind.policy;
    for (int i = 0; i < view->plan->task_count; i++) {
        const struct plan_task *task = &view->plan->tasks[i];
        if (policy == BIND_CORE)
            holds(task->core_count == 1, "%s: task %d has %d cores", view->what, i, task->core_count);
        else if (policy == BIND_NUMA || policy == BIND_SOCKET || policy == BIND_L3)
            holds(in_one(view->machine, (enum domain_kind)kinds[policy], &task->cpus),
                  "%s: task %d is in several", view->what, i);
    }
}

/* Where the tasks fit whole into NUMA nodes, none is in two. */
static void check_memory_first(const struct view *view, const struct bitmap *granted)
{
    int base = view->cores / view->plan->task_count, fitting = 0;
    struct bitmap set = usable(view, granted);
    if (view->request->bind.policy != BIND_AUTO || view->machine->gpu_count > 0 || base == 0)
        return;
    for (int i = 0; i < view->machine->domain_count[DOMAIN_PACKAGE]; i++) {
        struct bitmap package = view->machine->domains[DOMAIN_PACKAGE][i].cpus;
        bitmap_and(&package, &set);
        for (int k = 0; k < view->machine->domain_count[DOMAIN_NUMA]; k++) {
            struct bitmap numa = view->machine->domains[DOMAIN_NUMA][k].cpus;
            bitmap_and(&numa, &package);
            fitting += cores_in(view->machine, &numa) / base;
        }
    }
    for (int i = 0; fitting >= view->plan->task_count && i < view->plan->task_count; i++)
        holds(in_one(view->machine, DOMAIN_NUMA, &view->plan->tasks[i].cpus),
              "%s: task %d is in several NUMA nodes", view->what, i);
}

/* ---- GPUs and network cards ---- */

static void check_gpus(const struct view *view)
{
    int uses[MACHINE_MAX_GPUS] = {0};
    int tasks = view->plan->task_count, gpus = view->machine->gpu_count;
    for (int i = 0; i < tasks; i++) {
        const struct plan_task *task = &view->plan->tasks[i];
        holds(task->gpu_count == (gpus == 0      ? 0
                                  : tasks > gpus ? 1
                                                 : (i + 1) * gpus / tasks - i * gpus / tasks),
              "%s: task %d has %d GPUs", view->what, i, task->gpu_count);
        for (int k = 0; k < task->gpu_count; k++) {
            holds(task->devices[k] == task->gpus[k], "%s: device %d of task %d", view->what, k, i);
            uses[task->gpus[k]]++;
        }
    }
    for (int i = 0; i < gpus; i++)
        holds(uses[i] >= 1 && uses[i] <= (tasks + gpus - 1) / gpus, "%s: GPU %d has %d tasks", view->what, i,
              uses[i]);
}

/* A task has a core near its GPU (by --hvd-bind=socket, in its package), where there is one for each of those
 * that want one. */
static void check_near(const struct view *view, const struct bitmap *granted)
{
    const struct machine_gpu *gpus = view->machine->gpus;
    const struct plan_task *tasks = view->plan->tasks;
    int count = view->plan->task_count;
    struct bitmap set = usable(view, granted);
    for (int i = 0; i < count && count <= view->cores; i++) {
        struct bitmap home = {{0}};
        int wanting = 0, far = 2;
        for (int k = 0; k < tasks[i].gpu_count; k++)
            bitmap_or(&home, &gpus[tasks[i].gpus[k]].pci.cpus);
        bitmap_and(&home, &set);
        for (int n = 0; n < count && tasks[i].gpu_count > 0; n++)
            wanting += bitmap_intersects(&home, &gpus[tasks[n].gpus[0]].pci.cpus);
        if (wanting == 0 || cores_in(view->machine, &home) / wanting * 2 < (view->cores + count - 1) / count)
            continue;
        for (int k = 0; k < tasks[i].gpu_count; k++) {
            int distance = path_to_cpus(view->machine, &gpus[tasks[i].gpus[k]].pci, &tasks[i].cpus);
            far = distance < far ? distance : far;
        }
        holds(far <= (view->request->bind.policy == BIND_SOCKET), "%s: task %d is not near its GPU",
              view->what, i);
    }
}

/* NCCL's rule, by itself: no card that is kept is better than the first one of a task. */
static void check_nics(const struct view *view)
{
    const struct machine *machine = view->machine;
    for (int i = 0; i < view->plan->task_count; i++) {
        const struct plan_task *task = &view->plan->tasks[i];
        const struct nic *own = task->nic_count > 0 ? &machine->nics[task->nics[0]] : NULL;
        for (int k = 0; k < machine->nic_count; k++) {
            const struct nic *other = &machine->nics[k];
            if (other->exclusion != NIC_NOT_EXCLUDED)
                continue;
            holds(own != NULL && own->exclusion == NIC_NOT_EXCLUDED, "%s: task %d has no NIC", view->what, i);
            if (task->gpu_count > 0) {
                const struct machine_gpu *gpu = &machine->gpus[task->gpus[0]];
                int64_t mbps = path_mbps(machine, gpu, own), others = path_mbps(machine, gpu, other);
                holds(others <= mbps, "%s: task %d has a slow NIC", view->what, i);
                holds(others < mbps ||
                          path_between(&gpu->pci, &other->pci) >= path_between(&gpu->pci, &own->pci),
                      "%s: task %d has a NIC far from its GPU", view->what, i);
            } else if (nic_mbps(other) == nic_mbps(own)) {
                holds(path_to_cpus(machine, &other->pci, &task->cpus) >=
                          path_to_cpus(machine, &own->pci, &task->cpus),
                      "%s: task %d has a NIC far from its cores", view->what, i);
            }
        }
    }
}

/* ---- Every plan ---- */

static void check_again(const struct view *view)
{
    struct plan *again = make_plan(view->machine, view->request);
    size_t bytes = (size_t)again->task_count * sizeof(*again->tasks);
    holds(memcmp(view->plan->tasks, again->tasks, bytes) == 0, "%s: it differs the second time", view->what);
    holds(strcmp(view->plan->note, again->note) == 0, "%s: its note differs the second time", view->what);
    plan_destroy(again);
}

static void check_plan(const struct machine *machine, const struct plan_request *request,
                       const struct bitmap *granted)
{
    struct plan *plan = make_plan(machine, request);
    struct view view = {.machine = machine, .request = request, .plan = plan};
    struct bitmap set = usable(&view, granted);
    char list[64];
    view.cores = cores_in(machine, &set);
    view.threads = bitmap_weight(&set);
    snprintf(view.what, sizeof(view.what), "%s, %d tasks, %s,smt:%d,reserve:%d, CPUs %s", machine->name,
             request->task_count, bind_policy_names[request->bind.policy], request->bind.smt,
             request->bind.reserve, bitmap_text(granted, list, sizeof(list)));
    if (request->task_count % 4 == 0)
        check_again(&view);
    check_inside(&view, granted);
    check_gpus(&view);
    check_near(&view, granted);
    check_nics(&view);
    if (request->bind.policy != BIND_NONE) {
        check_disjoint(&view);
        check_balance(&view);
        check_confined(&view);
        check_memory_first(&view, granted);
    }
    plan_destroy(plan);
}

/* Some CPUs of a machine, always the same ones. */
static struct bitmap part_of(const struct machine *machine, int which)
{
    struct bitmap set = machine->allowed;
    uint32_t seed = 12345u * (unsigned int)which;
    for (int cpu = bitmap_find_next(&machine->allowed, 0); which > 0 && cpu >= 0;
         cpu = bitmap_find_next(&machine->allowed, cpu + 1)) {
        seed = seed * 1664525u + 1013904223u;
        if ((which == 1 ? seed >> 30 : (unsigned int)cpu / 5 % 3) == 0)
            bitmap_clear(&set, cpu);
    }
    return bitmap_is_empty(&set) ? machine->allowed : set;
}

static void check_machine(const struct machine *machine, enum bind_policy policy)
{
    for (int which = 0; which < GRANTS; which++) {
        struct bitmap granted = part_of(machine, which);
        struct plan_request request = {.cpus = &granted, .gpu_count = -1, .bind = {.policy = policy}};
        int cores = cores_in(machine, &granted);
        /* all numbers of tasks where all is granted; of the parts every third */
        for (int tasks = 1; tasks <= 2 * cores; tasks += which == 0 ? 1 : 3) {
            request.task_count = tasks;
            request.bind.smt = tasks % 5 == 4;
            request.bind.reserve = tasks % 7 == 6 && cores > 8 ? tasks % 8 : 0;
            check_plan(machine, &request, &granted);
        }
    }
}

START_TEST(plans_of_test_machines)
{
    struct machine *machine = load_machine(machine_names[_i / BIND_COUNT]);
    if (machine->gpu_count > 0 || _i % BIND_COUNT != BIND_GPU)
        check_machine(machine, (enum bind_policy)(_i % BIND_COUNT));
    machine_destroy(machine);
}
END_TEST

START_TEST(plans_of_recorded_machines)
{
    const char *set = getenv("HVD_TOPOLOGIES");
    const char *folder = set == NULL || set[0] == 0 ? NULL : set;
    DIR *files = folder == NULL ? NULL : opendir(folder);
    ck_assert_msg(folder == NULL || files != NULL, "HVD_TOPOLOGIES=%s: the folder cannot be read", folder);
    for (struct dirent *i = files == NULL ? NULL : readdir(files); i != NULL; i = readdir(files)) {
        char path[2048];
        size_t length = strlen(i->d_name);
        if (length < 4 || strcmp(i->d_name + length - 4, ".xml") != 0)
            continue;
        snprintf(path, sizeof(path), "%.1000s/%s", folder, i->d_name);
        struct machine *machine = load_xml(path);
        if (machine->gpu_count > 0 || _i != BIND_GPU)
            check_machine(machine, (enum bind_policy)_i);
        machine_destroy(machine);
    }
    if (files != NULL)
        closedir(files);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("plan");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, plans_of_test_machines, 0, MACHINE_COUNT * BIND_COUNT);
    tcase_add_loop_test(tcase, plans_of_recorded_machines, 0, BIND_COUNT);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("plan", fill);
}
