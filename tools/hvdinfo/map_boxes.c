/* map_boxes.c: packages, NUMA nodes, caches and cores as nested boxes of a map's picture. */
#include "tools/hvdinfo/map_picture.h"

#include <stdlib.h>
#include <string.h>

#define PAD      7
#define HEAD     19 /* height of a box's title */
#define BOX_GAP  7
#define CORE_GAP 3

/* ---- Make ---- */

/* The levels to draw, from the outermost to the innermost. */
static void set_levels(struct picture *picture)
{
    enum domain_kind levels[DOMAIN_KINDS];
    machine_sort_levels(picture->machine, levels);
    for (int i = 0; i < DOMAIN_KINDS; i++)
        if (levels[i] != DOMAIN_L3 || picture->machine->has_l3)
            picture->levels[picture->level_count++] = levels[i];
}

static int add_box(struct picture *picture, int level, int first, int cores)
{
    picture->boxes[picture->box_count] =
        (struct box){.level = level, .first = first, .cores = cores, .child = -1, .next = -1};
    return picture->box_count++;
}

/* Divide a box into runs of cores that share a domain of the next level. */
static void divide(struct picture *picture, int box)
{
    const struct machine_core *cores = picture->machine->cores;
    int level = picture->boxes[box].level + 1;
    int from = picture->boxes[box].first, end = from + picture->boxes[box].cores;
    int last = -1;
    if (level == picture->level_count)
        return;
    enum domain_kind kind = picture->levels[level];
    while (from < end) {
        int to = from + 1;
        while (to < end && cores[to].domain[kind] == cores[from].domain[kind])
            to++;
        int child = add_box(picture, level, from, to - from);
        if (last < 0)
            picture->boxes[box].child = child;
        else
            picture->boxes[last].next = child;
        picture->boxes[box].children++;
        last = child;
        from = to;
        divide(picture, child);
    }
}

int boxes_make(struct picture *picture, struct hvd_error *err)
{
    const struct machine *machine = picture->machine;
    set_levels(picture);
    size_t most = (size_t)machine->core_count * (size_t)picture->level_count + 1;
    picture->boxes = calloc(most, sizeof(*picture->boxes));
    if (picture->boxes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to draw %d cores", machine->core_count);
    for (int i = 0; i < machine->core_count; i++)
        if (machine->cores[i].cpu_count > picture->threads)
            picture->threads = machine->cores[i].cpu_count;
    divide(picture, add_box(picture, -1, 0, machine->core_count));
    return HVD_OK;
}

/* The CPUs of all cores of a box: a domain may be split over several boxes. */
static struct bitmap cpus_of(const struct picture *picture, const struct box *box)
{
    struct bitmap cpus = {{0}};
    for (int i = box->first; i < box->first + box->cores; i++)
        for (int k = 0; k < picture->machine->cores[i].cpu_count; k++)
            bitmap_set(&cpus, picture->machine->cores[i].cpus[k]);
    return cpus;
}

int boxes_find(const struct picture *picture, const struct bitmap *cpus)
{
    struct bitmap wanted = *cpus;
    int best = 0;
    bitmap_and(&wanted, &picture->machine->cpus);
    for (int i = 1; i < picture->box_count; i++) {
        const struct box *box = &picture->boxes[i];
        struct bitmap own = cpus_of(picture, box);
        if (picture->levels[box->level] != DOMAIN_L3 && !bitmap_is_empty(&wanted) &&
            bitmap_is_included(&wanted, &own) && (best == 0 || box->cores < picture->boxes[best].cores))
            best = i;
    }
    return best;
}

/* ---- Measure ---- */

/* The hardware threads of a core are drawn in one column, and more than two in two columns. */
static int thread_columns(int threads)
{
    return threads > 2 ? 2 : 1;
}

static int core_width(const struct picture *picture)
{
    return thread_columns(picture->threads) * 29;
}

static int core_height(const struct picture *picture)
{
    int columns = thread_columns(picture->threads), rows = (picture->threads + columns - 1) / columns;
    return rows < 2 ? 22 : rows * 14;
}

static enum style head_style(enum domain_kind kind)
{
    return kind == DOMAIN_L3 ? STYLE_QUIET : STYLE_HEAD;
}

static int label_of(const struct picture *picture, const struct box *box, char *text, size_t text_bytes)
{
    enum domain_kind kind = picture->levels[box->level];
    const struct machine_domain *domain =
        &picture->machine->domains[kind][picture->machine->cores[box->first].domain[kind]];
    char mems[64];
    int used = 0;
    if (kind == DOMAIN_PACKAGE)
        used = snprintf(text, text_bytes, "package %d", domain->os_index);
    else if (kind == DOMAIN_L3)
        used = snprintf(text, text_bytes, "L3");
    else
        used = snprintf(text, text_bytes, "NUMA node%s %s", bitmap_weight(&domain->mems) > 1 ? "s" : "",
                        bitmap_text(&domain->mems, mems, sizeof(mems)));
    if (domain->bytes >= INT64_C(1) << 30)
        snprintf(text + used, text_bytes - (size_t)used, ", %lld GiB", (long long)domain->bytes >> 30);
    else if (domain->bytes > 0)
        snprintf(text + used, text_bytes - (size_t)used, " %lld MiB", (long long)domain->bytes >> 20);
    return text_width(text, head_style(kind));
}

/* How far the ratio of width to height is from [wanted], in hundredths. A last row with gaps costs extra. */
static int64_t badness(int width, int height, int wanted, bool gaps)
{
    int64_t ratio = (int64_t)width * 100000 / (height > 0 ? height : 1) / wanted;
    if (ratio < 1000)
        ratio = 1000000 / (ratio > 0 ? ratio : 1);
    return ratio + (gaps ? 1500 : 0);
}

/* Choose the number of columns. It depends on the cores alone, so that all boxes of a kind look alike, with
 * or without devices. */
static void arrange(const struct picture *picture, struct box *box, const struct area *cell, int gap)
{
    int count = box->children > 0 ? box->children : box->cores;
    int64_t best = INT64_MAX;
    for (int columns = 1; columns <= count; columns++) {
        int rows = (count + columns - 1) / columns;
        int width = columns * (cell->width + gap) - gap;
        int height = rows * (cell->height + gap) - gap;
        int64_t bad = badness(width, height, box->level < 0 ? 220 : 230, count % columns != 0);
        if (bad >= best)
            continue;
        best = bad;
        box->columns = columns;
        box->width = width;
        box->grid_height = height;
    }
    if (box->width < chips_width(picture, box, box->width))
        box->width = chips_width(picture, box, box->width);
    box->height = box->grid_height + chips_height(picture, box, box->width);
    if (box->level >= 0) {
        box->width += 2 * PAD;
        box->height += HEAD + PAD;
    }
}

/* The size of the largest child, which all children get. */
static struct area largest_child(const struct picture *picture, const struct box *box)
{
    struct area largest = {0};
    for (int i = box->child; i >= 0; i = picture->boxes[i].next) {
        const struct box *child = &picture->boxes[i];
        largest.width = child->width > largest.width ? child->width : largest.width;
        largest.height = child->height > largest.height ? child->height : largest.height;
    }
    return largest;
}

/* Children come after their parents. */
void boxes_measure(struct picture *picture)
{
    char text[128];
    for (int i = picture->box_count - 1; i >= 0; i--) {
        struct box *box = &picture->boxes[i];
        struct area cell = {.width = core_width(picture), .height = core_height(picture)};
        if (box->children > 0)
            cell = largest_child(picture, box);
        arrange(picture, box, &cell, box->children > 0 ? BOX_GAP : CORE_GAP);
        if (box->level >= 0 && box->width < label_of(picture, box, text, sizeof(text)) + 2 * PAD)
            box->width = label_of(picture, box, text, sizeof(text)) + 2 * PAD;
    }
}

static struct area inside_of(const struct box *box)
{
    if (box->level < 0)
        return (struct area){box->x, box->y, box->width, box->height, 0};
    return (struct area){box->x + PAD, box->y + HEAD, box->width - 2 * PAD, box->height - HEAD - PAD, 0};
}

/* Whether there is space for the list of CPUs next to the title of [box]. */
static bool has_room(const struct picture *picture, const struct box *box, char list[128])
{
    char text[128];
    struct bitmap cpus = cpus_of(picture, box);
    bitmap_text(&cpus, list, 128);
    return label_of(picture, box, text, sizeof(text)) + text_width(list, STYLE_SMALL) + 2 * PAD + 4 <=
           box->width;
}

static void choose_lists(struct picture *picture)
{
    char list[128];
    for (int i = 0; i < picture->level_count; i++)
        picture->lists[i] = true;
    for (int i = 1; i < picture->box_count; i++)
        if (!has_room(picture, &picture->boxes[i], list))
            picture->lists[picture->boxes[i].level] = false;
}

/* Divide the width among the children, and the spare height unless they hold cores. */
static void place_children(struct picture *picture, struct box *box)
{
    struct area inside = inside_of(box), cell = largest_child(picture, box);
    int rows = (box->children + box->columns - 1) / box->columns, nth = 0;
    int left = inside.height - box->grid_height - chips_height(picture, box, inside.width);
    cell.width = (inside.width + BOX_GAP) / box->columns - BOX_GAP;
    if (left > 0 && picture->boxes[box->child].children > 0) {
        cell.height += left / rows;
        box->grid_height += left / rows * rows;
    }
    for (int i = box->child; i >= 0; i = picture->boxes[i].next, nth++) {
        struct box *child = &picture->boxes[i];
        child->x = inside.x + nth % box->columns * (cell.width + BOX_GAP);
        child->y = inside.y + nth / box->columns * (cell.height + BOX_GAP);
        child->width = cell.width;
        child->height = cell.height;
    }
}

/* Parents come before their children. */
void boxes_place(struct picture *picture, int x, int y)
{
    picture->boxes[0].x = x;
    picture->boxes[0].y = y;
    for (int i = 0; i < picture->box_count; i++)
        if (picture->boxes[i].children > 0)
            place_children(picture, &picture->boxes[i]);
    choose_lists(picture);
}

/* ---- Paint ---- */

/* The style class of CPUs that no task uses. */
static const char *idle_class(const struct picture *picture, int cpu)
{
    if (!bitmap_is_set(&picture->plan->granted, cpu))
        return "barred";
    return bitmap_is_set(&picture->plan->reserved, cpu) ? "system" : "idle";
}

static struct area thread_area(const struct area *core, int threads, int nth)
{
    int columns = thread_columns(threads), rows = (threads + columns - 1) / columns;
    return (struct area){core->x + core->width / columns * (nth % columns),
                         core->y + core->height / rows * (nth / columns), core->width / columns,
                         core->height / rows, 2};
}

/* Whether all hardware threads of a core belong to the same tasks. */
static bool is_uniform(const struct picture *picture, const struct machine_core *core)
{
    for (int k = 1; k < core->cpu_count; k++)
        if (!use_same(&picture->cpus[core->cpus[k]], &picture->cpus[core->cpus[0]]) ||
            strcmp(idle_class(picture, core->cpus[k]), idle_class(picture, core->cpus[0])) != 0)
            return false;
    return true;
}

/* Draw lines between the hardware threads of a core that belongs to one task. */
static void paint_splits(const struct picture *picture, const struct area *area, int threads)
{
    int columns = thread_columns(threads), rows = (threads + columns - 1) / columns;
    for (int side = 0; side < 2; side++)
        for (int row = 1; row < rows; row++)
            fprintf(picture->file, "<path class=\"split\" d=\"M%d %dh%d\"/>\n",
                    side == 0 ? area->x : area->x + area->width - 5, area->y + area->height / rows * row, 5);
    if (columns > 1)
        fprintf(picture->file, "<path class=\"split\" d=\"M%d %dv5m0 %dv5\"/>\n", area->x + area->width / 2,
                area->y, area->height - 10);
}

/* Write the task numbers in the largest style that fits. */
static void paint_tasks(const struct picture *picture, const struct area *area, const struct task_use *use,
                        const char *tasks)
{
    char number[16];
    enum style style = area->height < 20 ? STYLE_NAME : STYLE_TASK;
    int x = area->x + area->width / 2, y = area->y + area->height / 2 + 4;
    snprintf(number, sizeof(number), "x%d", use->count);
    if (use->count == 0)
        return;
    if (text_width(tasks, style) <= area->width)
        paint_text(picture->file, style, x, y, "%s", tasks);
    else if (text_width(tasks, STYLE_ID) <= area->width)
        paint_text(picture->file, STYLE_ID, x, y - 1, "%s", tasks);
    else
        paint_text(picture->file, STYLE_ID, x, y - 1, "%s", number);
}

/* Paint [count] hardware threads of a core that belong to the same tasks. */
static void paint_threads(const struct picture *picture, const struct area *area,
                          const struct machine_core *core, int first, int count)
{
    const struct task_use *use = &picture->cpus[core->cpus[first]];
    struct bitmap cpus = {{0}};
    char list[64], tasks[32], title[160];
    for (int k = first; k < first + count; k++)
        bitmap_set(&cpus, core->cpus[k]);
    use_text(use, tasks, sizeof(tasks));
    snprintf(title, sizeof(title), "core %d, CPU %s%s%s", core->os_index,
             bitmap_text(&cpus, list, sizeof(list)), use->count > 0 ? ": task " : "", tasks);
    paint_group(picture->file, use, title);
    paint_use(picture->file, area, use, idle_class(picture, core->cpus[first]));
    paint_splits(picture, area, count);
    paint_tasks(picture, area, use, tasks);
    paint_group_end(picture->file);
}

static void paint_core(const struct picture *picture, const struct area *area, int index)
{
    const struct machine_core *core = &picture->machine->cores[index];
    if (is_uniform(picture, core)) {
        paint_threads(picture, area, core, 0, core->cpu_count);
        return;
    }
    for (int k = 0; k < core->cpu_count; k++) {
        struct area part = thread_area(area, core->cpu_count, k);
        paint_threads(picture, &part, core, k, 1);
    }
}

static void paint_cores(const struct picture *picture, const struct box *box, const struct area *inside)
{
    int width = core_width(picture), height = core_height(picture);
    int used = box->columns * (width + CORE_GAP) - CORE_GAP;
    for (int i = 0; i < box->cores; i++) {
        struct area area = {inside->x + (inside->width - used) / 2 + i % box->columns * (width + CORE_GAP),
                            inside->y + i / box->columns * (height + CORE_GAP), width, height, 3};
        paint_core(picture, &area, box->first + i);
    }
}

static void paint_frame(const struct picture *picture, const struct box *box)
{
    char text[128], list[128];
    label_of(picture, box, text, sizeof(text));
    fprintf(picture->file, "<rect class=\"box%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>\n",
            box->level, box->x, box->y, box->width, box->height);
    paint_text(picture->file, head_style(picture->levels[box->level]), box->x + PAD, box->y + 14, "%s", text);
    has_room(picture, box, list);
    if (picture->lists[box->level])
        paint_text(picture->file, STYLE_SMALL, box->x + box->width - PAD, box->y + 13, "%s", list);
}

void boxes_paint(const struct picture *picture)
{
    for (int i = 0; i < picture->box_count; i++) {
        const struct box *box = &picture->boxes[i];
        struct area inside = inside_of(box);
        if (box->level >= 0)
            paint_frame(picture, box);
        if (box->children == 0)
            paint_cores(picture, box, &inside);
        inside.y += box->grid_height;
        chips_paint(picture, box, &inside);
    }
}
