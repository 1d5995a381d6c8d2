/* map_boxes.c: the boxes of a map's picture: cores in caches, memory and packages; devices in PCI bridges. */
#include "config.h"
#include "tools/hvdinfo/map_boxes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hvdinfo/map_text.h"

static struct box *add_box(struct boxes *boxes, struct box *parent, enum box_kind kind)
{
    struct box *box = &boxes->all[boxes->count++];
    box->kind = kind;
    if (parent == NULL)
        return box;
    if (parent->child == NULL)
        parent->child = box;
    else
        parent->last->next = box;
    parent->last = box;
    return box;
}

#define APPEND(text, ...) text_append(text, sizeof(text), __VA_ARGS__)

/* ---- Tasks ---- */

static void add_user(struct users *users, int task)
{
    if (users->count == 0)
        users->first = task;
    if (users->count < USERS_SHOWN)
        users->tasks[users->count] = task;
    users->last = task;
    users->count++;
    users->mark = users->count > USERS_SHOWN ? MARK_MANY : MARK_TASKS;
}

static void write_users(struct users *users)
{
    if (users->count > 2 && users->last - users->first + 1 == users->count)
        APPEND(users->text, "%d-%d", users->first, users->last);
    else if (users->count > USERS_SHOWN)
        APPEND(users->text, "x%d", users->count);
    else
        for (int i = 0; i < users->count; i++)
            APPEND(users->text, "%s%d", i > 0 ? "," : "", users->tasks[i]);
}

struct users users_of_cpu(const struct plan *plan, int cpu)
{
    struct users users = {.mark = MARK_IDLE};
    if (!bitmap_is_set(&plan->granted, cpu))
        users.mark = MARK_BARRED;
    else if (bitmap_is_set(&plan->reserved, cpu))
        users.mark = MARK_SYSTEM;
    for (int i = 0; i < plan->task_count; i++)
        if (bitmap_is_set(&plan->tasks[i].cpus, cpu))
            add_user(&users, i);
    write_users(&users);
    return users;
}

/* ---- Cores ---- */

static void name_domain(struct box *box, enum domain_kind kind, const struct machine_domain *domain)
{
    char mems[48];
    if (kind == DOMAIN_PACKAGE)
        APPEND(box->texts[0], "package %d", domain->os_index);
    else if (kind == DOMAIN_L3)
        APPEND(box->texts[0], "L3");
    else
        APPEND(box->texts[0], "NUMA node%s %s", bitmap_weight(&domain->mems) > 1 ? "s" : "",
               bitmap_text(&domain->mems, mems, sizeof(mems)));
    if (domain->bytes >= INT64_C(1) << 30)
        APPEND(box->texts[0], ", %lld GiB", (long long)domain->bytes >> 30);
    else if (domain->bytes > 0)
        APPEND(box->texts[0], " %lld MiB", (long long)domain->bytes >> 20);
}

/* Add the cores from [first] to [end], in a frame for each domain of that level and of those below. */
static void add_cores(struct boxes *boxes, struct box *parent, const enum domain_kind *level, int first,
                      int end)
{
    const struct machine *machine = boxes->machine;
    if (*level == DOMAIN_L3 && !machine->has_l3)
        level++;
    if (*level == DOMAIN_KINDS)
        for (; first < end; first++)
            add_box(boxes, parent, BOX_CORE)->core = &machine->cores[first];
    while (first < end) {
        struct box *box = add_box(boxes, parent, BOX_FRAME);
        struct bitmap cpus = {{0}};
        int domain = machine->cores[first].domain[*level], to = first;
        for (; to < end && machine->cores[to].domain[*level] == domain; to++)
            for (int k = 0; k < machine->cores[to].cpu_count; k++)
                bitmap_set(&cpus, machine->cores[to].cpus[k]);
        name_domain(box, *level, &machine->domains[*level][domain]);
        bitmap_text(&cpus, box->texts[1], sizeof(box->texts[1]));
        if (*level != DOMAIN_L3)
            box->cpus = cpus;
        add_cores(boxes, box, level + 1, first, to);
        first = to;
    }
}

/* ---- GPUs and network cards ---- */

struct device {
    struct box *near; /* the smallest package or memory with all its CPUs, or the machine */
    const struct pci_device *pci;
    const struct nic *nic; /* NULL: a GPU */
    int index;             /* of the machine's GPUs or network cards */
};

static struct box *smallest_around(const struct boxes *boxes, const struct bitmap *cpus)
{
    struct box *best = boxes->all;
    struct bitmap wanted = *cpus;
    bitmap_and(&wanted, &boxes->machine->cpus);
    for (struct box *box = best + 1; box < boxes->all + boxes->count; box++)
        if (!bitmap_is_empty(&wanted) && bitmap_is_included(&wanted, &box->cpus) &&
            (best == boxes->all || bitmap_weight(&box->cpus) < bitmap_weight(&best->cpus)))
            best = box;
    return best;
}

/* Order by box, then by PCI id; devices that are not on PCI come last. */
static int compare_devices(const void *a, const void *b)
{
    const struct device *left = a, *right = b;
    if (left->near != right->near)
        return left->near < right->near ? -1 : 1;
    int order = (left->pci->id[0] == 0) - (right->pci->id[0] == 0);
    if (order == 0)
        order = strcmp(left->pci->id, right->pci->id);
    return order != 0 ? order : left->index - right->index;
}

static struct users users_of_device(const struct plan *plan, const struct device *device)
{
    struct users users = {.mark = MARK_IDLE};
    if (device->nic != NULL && device->nic->exclusion != NIC_NOT_EXCLUDED)
        users.mark = MARK_BARRED;
    for (int i = 0; i < plan->task_count; i++) {
        const struct plan_task *task = &plan->tasks[i];
        const int *used = device->nic == NULL ? task->gpus : task->nics;
        for (int k = 0; k < (device->nic == NULL ? task->gpu_count : task->nic_count); k++)
            if (used[k] == device->index)
                add_user(&users, i);
    }
    write_users(&users);
    return users;
}

static void add_device(struct boxes *boxes, struct box *parent, const struct device *device)
{
    struct box *box = add_box(boxes, parent, BOX_DEVICE);
    const char *id = device->pci->id;
    box->is_device = true;
    box->users = users_of_device(boxes->plan, device);
    if (device->nic == NULL)
        APPEND(box->texts[0], "GPU %d", device->index);
    else
        APPEND(box->texts[0], "%s", nic_name(device->nic) == id ? "NIC" : nic_name(device->nic));
    APPEND(box->texts[1], "%s", strncmp(id, "0000:", 5) == 0 ? id + 5 : id);
    if (box->users.count == 0)
        APPEND(box->texts[2], "unused");
    else if (box->users.text[0] == 'x')
        APPEND(box->texts[2], "%d tasks", box->users.count);
    else
        APPEND(box->texts[2], "task%s %s", box->users.count > 1 ? "s" : "", box->users.text);
    APPEND(box->tip, "%s%s%s, %s", box->texts[0], id[0] != 0 ? ", " : "", id,
           device->nic == NULL ? boxes->machine->gpus[device->index].name : device->nic->why);
    if (box->users.count > 0)
        APPEND(box->tip, ": task %s", box->users.text);
}

static int bridge_of(const struct device *device, int depth)
{
    return depth < device->pci->bridge_count ? device->pci->bridges[depth] : -1;
}

/* The number of devices from the first that are below the same bridge at [depth]. */
static int count_below(const struct device *devices, int count, int depth)
{
    int bridge = bridge_of(&devices[0], depth), end = 1;
    while (bridge >= 0 && end < count && bridge_of(&devices[end], depth) == bridge)
        end++;
    return end;
}

/* Add devices that share [depth] bridges, in a frame if they share more. */
static void add_devices(struct boxes *boxes, struct box *parent, const struct device *devices, int count,
                        int depth)
{
    int shared = depth;
    if (count == 1) {
        add_device(boxes, parent, &devices[0]);
        return;
    }
    while (count_below(devices, count, shared) == count)
        shared++;
    if (shared > depth) {
        parent = add_box(boxes, parent, BOX_FRAME);
        parent->is_device = true;
        APPEND(parent->texts[0], shared > 1 ? "PCI bridge" : "host bridge");
    }
    for (int i = 0, below; i < count; i += below) {
        below = count_below(&devices[i], count - i, shared);
        add_devices(boxes, parent, &devices[i], below, shared);
    }
}

static void add_all_devices(struct boxes *boxes, struct device *devices)
{
    const struct machine *machine = boxes->machine;
    int count = 0;
    for (int i = 0; i < machine->gpu_count; i++)
        devices[count++] = (struct device){NULL, &machine->gpus[i].pci, NULL, i};
    for (int i = 0; i < machine->nic_count; i++)
        devices[count++] = (struct device){NULL, &machine->nics[i].pci, &machine->nics[i], i};
    for (int i = 0; i < count; i++)
        devices[i].near = smallest_around(boxes, &devices[i].pci->cpus);
    qsort(devices, (size_t)count, sizeof(devices[0]), compare_devices);
    for (int i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && devices[end].near == devices[i].near)
            end++;
        add_devices(boxes, devices[i].near, &devices[i], end - i, 0);
    }
}

/* ---- The legend ---- */

/* Long lists are shortened and end in dots; the table has them in full. */
static void add_task(struct boxes *boxes, int index)
{
    const struct plan_task *task = &boxes->plan->tasks[index];
    struct box *box = add_box(boxes, boxes->legend, BOX_ENTRY);
    char cpus[36];
    add_user(&box->users, index);
    write_users(&box->users);
    APPEND(box->texts[0], "task %d", index);
    APPEND(box->texts[1], "CPU %s", bitmap_text(&task->cpus, cpus, sizeof(cpus)));
    if (task->gpu_count > 0)
        APPEND(box->texts[1], ", GPU %d", task->gpus[0]);
    if (task->gpu_count > 1)
        APPEND(box->texts[1], " and %d more", task->gpu_count - 1);
    if (task->nic_count > 0)
        APPEND(box->texts[1], ", %s", task->nic_names[0]);
    if (task->nic_count > 1)
        APPEND(box->texts[1], " and %d more", task->nic_count - 1);
    APPEND(box->texts[1], ", %d thread%s", task->threads, task->threads == 1 ? "" : "s");
    APPEND(box->tip, "%s", task->why);
}

/* The tasks, and how CPUs are painted that belong to none or to many. */
static void add_legend(struct boxes *boxes)
{
    static const char *const words[MARKS] = {[MARK_MANY] = "shared by more tasks than have room",
                                             [MARK_IDLE] = "idle",
                                             [MARK_SYSTEM] = "kept for the system",
                                             [MARK_BARRED] = "not granted"};
    const struct bitmap *cpus = &boxes->machine->cpus;
    bool seen[MARKS] = {false};
    boxes->legend = add_box(boxes, NULL, BOX_PLACE);
    for (int i = 0; i < boxes->plan->task_count; i++)
        add_task(boxes, i);
    for (int cpu = bitmap_find_next(cpus, 0); cpu >= 0; cpu = bitmap_find_next(cpus, cpu + 1))
        seen[users_of_cpu(boxes->plan, cpu).mark] = true;
    for (enum map_mark mark = MARK_MANY; mark < MARKS; mark++) {
        if (!seen[mark])
            continue;
        struct box *box = add_box(boxes, boxes->legend, BOX_ENTRY);
        box->users.mark = mark;
        APPEND(box->texts[1], "%s", words[mark]);
        APPEND(box->tip, "%s", words[mark]);
    }
}

int boxes_make(struct boxes *boxes, const struct machine *machine, const struct plan *plan,
               struct hvd_error *err)
{
    enum domain_kind levels[DOMAIN_KINDS + 1] = {[DOMAIN_KINDS] = DOMAIN_KINDS};
    size_t devices = (size_t)(machine->gpu_count + machine->nic_count);
    size_t most = 2 + (size_t)machine->core_count * (DOMAIN_KINDS + 1) + devices * (PCI_MAX_BRIDGES + 1) +
                  (size_t)plan->task_count + MARKS;
    struct device *list = calloc(devices + 1, sizeof(*list));
    *boxes = (struct boxes){.machine = machine, .plan = plan, .all = calloc(most, sizeof(*boxes->all))};
    if (boxes->all == NULL || list == NULL) {
        free(list);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to draw %zu boxes", most);
    }
    machine_sort_levels(machine, levels);
    add_cores(boxes, add_box(boxes, NULL, BOX_PLACE), levels, 0, machine->core_count);
    add_all_devices(boxes, list);
    add_legend(boxes);
    free(list);
    return HVD_OK;
}
