/* map_svg.c: draw a machine, and the placement of tasks on it, as an SVG picture: boxes inside boxes. */
#include "tools/hvdinfo/map_svg.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hvdinfo/map_text.h"

/* Sizes in pixels. */
enum { PAD = 7, TITLE_HEIGHT = 20, MARGIN = 20, LINE = 17, PAGE_MIN = 640, SWATCH = 30 };

#define COLOURS     8
#define USERS_SHOWN 4

/* How a thing is painted: in the colours of its tasks, or like all that are idle, and so on. */
enum map_mark { MARK_TASKS, MARK_MANY, MARK_IDLE, MARK_SYSTEM, MARK_BARRED, MARKS };

static const struct {
    const char *class, *meaning;
} marks[MARKS] = {[MARK_MANY] = {"many", "shared by more tasks than have room"},
                  [MARK_IDLE] = {"idle", "idle"},
                  [MARK_SYSTEM] = {"system", "kept for the system"},
                  [MARK_BARRED] = {"barred", "not granted"}};

/* The tasks that use a thing. */
struct users {
    enum map_mark mark;
    int count, first, last;
    int tasks[USERS_SHOWN];
    char text[48]; /* "7", "0,2", "0-3", or "x24" if they are many and not consecutive; "": none */
};

enum box_kind {
    BOX_DOMAIN, /* the machine, a package, memory or a cache; texts: its name, and its CPUs */
    BOX_CORE,
    BOX_BRIDGE, /* of PCI; texts: its name */
    BOX_DEVICE, /* a GPU or a network card; texts: its name, PCI id and tasks */
    BOX_ENTRY   /* a line of the legend; texts: "task 3" or "", and the rest of the line */
};

struct box {
    enum box_kind kind;
    struct box *child, *last, *next; /* its first and last child, and its parent's next child */
    int x, y, width, height;
    const struct machine_core *core; /* of a BOX_CORE */
    struct bitmap cpus; /* of a package or memory; a device belongs to the smallest with its own */
    int bridge;         /* of a BOX_BRIDGE: its number */
    struct users users; /* of a BOX_DEVICE or BOX_ENTRY */
    char texts[3][96];
    char tip[400]; /* of a BOX_DEVICE or BOX_ENTRY: shown by viewers when it is pointed at */
};

struct map {
    const struct machine *machine;
    const struct plan *plan;
    int count;
    struct box *boxes; /* parents before their children, the machine first */
};

#define APPEND(text, ...) text_append(text, sizeof(text), __VA_ARGS__)

static struct box *add_box(struct map *map, struct box *parent, enum box_kind kind)
{
    struct box *box = &map->boxes[map->count++];
    box->kind = kind;
    if (parent->child == NULL)
        parent->child = box;
    else
        parent->last->next = box;
    parent->last = box;
    return box;
}

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

static struct users users_of_cpu(const struct plan *plan, int cpu)
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
static void add_cores(struct map *map, struct box *parent, const enum domain_kind *level, int first, int end)
{
    const struct machine *machine = map->machine;
    if (*level == DOMAIN_L3 && !machine->has_l3)
        level++;
    if (*level == DOMAIN_KINDS)
        for (; first < end; first++)
            add_box(map, parent, BOX_CORE)->core = &machine->cores[first];
    while (first < end) {
        struct box *box = add_box(map, parent, BOX_DOMAIN);
        int index = machine->cores[first].domain[*level], to = first;
        const struct machine_domain *domain = &machine->domains[*level][index];
        while (to < end && machine->cores[to].domain[*level] == index)
            to++;
        name_domain(box, *level, domain);
        if (*level != DOMAIN_L3)
            box->cpus = domain->cpus;
        bitmap_text(&box->cpus, box->texts[1], sizeof(box->texts[1]));
        add_cores(map, box, level + 1, first, to);
        first = to;
    }
}

/* ---- GPUs and network cards ---- */

static const struct pci_device *pci_of(const struct machine *machine, int device)
{
    return device < machine->gpu_count ? &machine->gpus[device].pci
                                       : &machine->nics[device - machine->gpu_count].pci;
}

static struct box *smallest_around(const struct map *map, const struct bitmap *cpus)
{
    struct box *best = map->boxes;
    struct bitmap wanted = *cpus;
    bitmap_and(&wanted, &map->machine->cpus);
    for (struct box *box = best + 1; box < map->boxes + map->count; box++)
        if (!bitmap_is_empty(&wanted) && bitmap_is_included(&wanted, &box->cpus) &&
            (best == map->boxes || bitmap_weight(&box->cpus) < bitmap_weight(&best->cpus)))
            best = box;
    return best;
}

/* How many devices are below the bridge that [pci] has at [depth]; 0 if it has none. */
static int count_below(const struct machine *machine, const struct pci_device *pci, int depth)
{
    int below = 0;
    for (int i = 0; depth < pci->bridge_count && i < machine->gpu_count + machine->nic_count; i++)
        if (depth < pci_of(machine, i)->bridge_count &&
            pci_of(machine, i)->bridges[depth] == pci->bridges[depth])
            below++;
    return below;
}

/* The innermost frame for a device near [box]. A bridge has one if several devices are below it, and no other
 * bridge is between. */
static struct box *frame_of_bridge(struct map *map, struct box *box, const struct pci_device *pci)
{
    int below = count_below(map->machine, pci, 0);
    for (int depth = 0; below > 1; depth++) {
        int deeper = count_below(map->machine, pci, depth + 1);
        struct box *frame = deeper == below ? box : box->child;
        while (deeper < below && frame != NULL &&
               (frame->kind != BOX_BRIDGE || frame->bridge != pci->bridges[depth]))
            frame = frame->next;
        if (frame == NULL) {
            frame = add_box(map, box, BOX_BRIDGE);
            frame->bridge = pci->bridges[depth];
            APPEND(frame->texts[0], depth > 0 ? "PCI bridge" : "host bridge");
        }
        box = frame;
        below = deeper;
    }
    return box;
}

static void add_device(struct map *map, int index, const struct nic *nic)
{
    const struct machine *machine = map->machine;
    const struct pci_device *pci = nic != NULL ? &nic->pci : &machine->gpus[index].pci;
    struct box *near = smallest_around(map, &pci->cpus);
    struct box *box = add_box(map, frame_of_bridge(map, near, pci), BOX_DEVICE);
    box->users.mark = nic != NULL && nic->exclusion != NIC_NOT_EXCLUDED ? MARK_BARRED : MARK_IDLE;
    for (int i = 0; i < map->plan->task_count; i++) {
        const struct plan_task *task = &map->plan->tasks[i];
        const int *used = nic == NULL ? task->gpus : task->nics;
        for (int k = 0; k < (nic == NULL ? task->gpu_count : task->nic_count); k++)
            if (used[k] == index)
                add_user(&box->users, i);
    }
    write_users(&box->users);
    if (nic == NULL)
        APPEND(box->texts[0], "GPU %d", index);
    else
        APPEND(box->texts[0], "%s", nic_name(nic) == pci->id ? "NIC" : nic_name(nic));
    APPEND(box->texts[1], "%s", strncmp(pci->id, "0000:", 5) == 0 ? pci->id + 5 : pci->id);
    if (box->users.count == 0)
        APPEND(box->texts[2], "unused");
    else
        APPEND(box->texts[2], "task%s %s", box->users.count > 1 ? "s" : "", box->users.text);
    APPEND(box->tip, "%s%s%s, %s", box->texts[0], pci->id[0] != 0 ? ", " : "", pci->id,
           nic == NULL ? machine->gpus[index].name : nic->why);
    if (box->users.count > 0)
        APPEND(box->tip, ": task %s", box->users.text);
}

/* ---- The legend ---- */

/* A long list of CPUs ends in dots; the table has it in full, and GPUs and network cards say whose they are.
 */
static void add_task(struct map *map, int index)
{
    const struct plan_task *task = &map->plan->tasks[index];
    struct box *box = add_box(map, map->boxes, BOX_ENTRY);
    char cpus[36];
    add_user(&box->users, index);
    write_users(&box->users);
    APPEND(box->texts[0], "task %d", index);
    APPEND(box->texts[1], "CPU %s", bitmap_text(&task->cpus, cpus, sizeof(cpus)));
    APPEND(box->texts[1], ", %d thread%s", task->threads, task->threads == 1 ? "" : "s");
    APPEND(box->tip, "%s", task->why);
}

/* The tasks, and how CPUs are painted that belong to none or to many. */
static void add_legend(struct map *map)
{
    const struct bitmap *cpus = &map->machine->cpus;
    bool seen[MARKS] = {false};
    for (int i = 0; i < map->plan->task_count; i++)
        add_task(map, i);
    for (int cpu = bitmap_find_next(cpus, 0); cpu >= 0; cpu = bitmap_find_next(cpus, cpu + 1))
        seen[users_of_cpu(map->plan, cpu).mark] = true;
    for (enum map_mark mark = MARK_MANY; mark < MARKS; mark++) {
        if (!seen[mark])
            continue;
        struct box *box = add_box(map, map->boxes, BOX_ENTRY);
        box->users.mark = mark;
        APPEND(box->texts[1], "%s", marks[mark].meaning);
        APPEND(box->tip, "%s", marks[mark].meaning);
    }
}

/* ---- Text ---- */

static const char page[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                           "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>";

/* The colours of tasks can be told apart with colour blindness, and dark text is legible on each. Viewers
 * that support dark mode choose a scheme; others show the light one on its own background. */
static const char sheet[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,\"Segoe UI\",\"Helvetica "
    "Neue\",Arial,sans-serif;fill:#1f2328}\n"
    ".title{font-size:19px;font-weight:600}.head{font-size:12px;font-weight:600}.plain{font-size:11px}\n"
    ".name{font-size:11px;font-weight:600}.small,.list{font-size:9px}.name,.small{text-anchor:middle}\n"
    ".list{text-anchor:end;fill-opacity:.7}.on text{fill:#101418}.on rect{stroke:#000000;stroke-opacity:.3}\n"
    ".ground,.idle{fill:#ffffff}.idle,.system,.barred,.many{stroke:#8c959f;stroke-opacity:.7}\n"
    ".box{fill:#8c959f;fill-opacity:.1;stroke:#8c959f;stroke-opacity:.5}\n"
    ".system{fill:#c9d0d7}.barred{fill:none;stroke-dasharray:3 2}.many{fill:#a9b2bb}\n"
    ".t0{fill:#77b8fc}.t1{fill:#e8953a}.t2{fill:#57a564}.t3{fill:#ea64ae}\n"
    ".t4{fill:#f5e24c}.t5{fill:#9a80f7}.t6{fill:#5ce5da}.t7{fill:#dcc39a}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.ground,.idle{fill:#0d1117}.system{fill:#2f363f}.many{fill:#59636e}\n"
    "}\n"
    "</style>\n";

enum style { TITLE, HEAD, PLAIN, NAME, SMALL, LIST };

/* The width of a letter in a wide font, in hundredths of a pixel. NAME and SMALL are centred, LIST ends at
 * its place. */
static const struct {
    const char *class;
    int letter;
} styles[] = {[TITLE] = {"title", 1273}, [HEAD] = {"head", 804},   [PLAIN] = {"plain", 660},
              [NAME] = {"name", 737},    [SMALL] = {"small", 540}, [LIST] = {"list", 540}};

static int text_width(enum style style, const char *text)
{
    return ((int)strlen(text) * styles[style].letter + 99) / 100;
}

/* Names come from files and drivers: characters that XML does not allow are replaced. */
static void put_escaped(FILE *file, const char *text)
{
    for (; *text != 0; text++)
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else
            fputc(*text < ' ' || *text > '~' ? '?' : *text, file);
}

/* Write text with its base line at [x], [y]. */
static void __attribute__((format(printf, 5, 6)))
paint_text(FILE *file, enum style style, int x, int y, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(file, "<text class=\"%s\" x=\"%d\" y=\"%d\">", styles[style].class, x, y);
    put_escaped(file, text);
    fputs("</text>\n", file);
}

/* Write [text] in lines of [width], and return their height. Without a file, only measure. */
static int paint_lines(FILE *file, const char *text, int x, int y, int width)
{
    int lines = 0;
    for (int length = 0; *text != 0; text += length) {
        length = line_of(text, width * 100 / styles[PLAIN].letter);
        lines++;
        if (file != NULL)
            paint_text(file, PLAIN, x, y + lines * LINE - 5, "%.*s", length, text);
    }
    return lines * LINE;
}

/* ---- Sizes and places ---- */

/* Children that follow each other and have the same part of their parent: domains and cores, devices, or the
 * legend. They lie in equal cells. */
struct grid {
    struct box *end; /* the first child behind it */
    int columns, rows;
    int gap, width, height; /* of a cell, with the gap behind it */
};

static bool are_in_one_grid(const struct box *a, const struct box *b)
{
    return (a->kind >= BOX_BRIDGE) == (b->kind >= BOX_BRIDGE) &&
           (a->kind == BOX_ENTRY) == (b->kind == BOX_ENTRY);
}

/* The grid from [first] on. Devices and the legend have as many columns as fit into [width]; no grid has so
 * few that it is much higher than wide. */
static struct grid grid_from(struct box *first, int width)
{
    struct grid grid = {.end = first, .gap = first->kind == BOX_CORE ? 3 : PAD};
    int count = 0;
    for (; grid.end != NULL && are_in_one_grid(grid.end, first); grid.end = grid.end->next) {
        grid.width = grid.end->width > grid.width ? grid.end->width : grid.width;
        grid.height = grid.end->height > grid.height ? grid.end->height : grid.height;
        count++;
    }
    grid.width += grid.gap;
    grid.height += grid.gap;
    grid.columns = first->kind < BOX_BRIDGE ? 1 : 1 + (width + grid.gap - grid.width) / grid.width;
    while (grid.columns < count && 10 * grid.columns * grid.columns * grid.width < 23 * count * grid.height)
        grid.columns++;
    grid.rows = (count + grid.columns - 1) / grid.columns;
    grid.columns = (count + grid.rows - 1) / grid.rows;
    return grid;
}

static int widest(int width, enum style style, const char *text)
{
    return text_width(style, text) > width ? text_width(style, text) : width;
}

/* [box]'s children have been measured. */
static void measure_box(struct box *box)
{
    switch (box->kind) {
    case BOX_DOMAIN:
    case BOX_BRIDGE:
        box->width = widest(0, HEAD, box->texts[0]);
        box->height = TITLE_HEIGHT;
        for (struct box *child = box->child; child != NULL;) {
            struct grid grid = grid_from(child, box->width);
            int width = grid.columns * grid.width - grid.gap;
            box->width = width > box->width ? width : box->width;
            box->height += grid.rows * grid.height - grid.gap + PAD;
            child = grid.end;
        }
        box->width += 2 * PAD;
        break;
    case BOX_CORE:
        box->width = 29;
        box->height = box->core->cpu_count > 1 ? box->core->cpu_count * 14 : 22;
        break;
    case BOX_DEVICE:
        box->width = widest(widest(48, NAME, box->texts[0]), SMALL, box->texts[1]);
        box->width = widest(box->width, SMALL, box->texts[2]) + 4;
        box->height = 46;
        break;
    case BOX_ENTRY:
        box->width = SWATCH + 6 + text_width(HEAD, box->texts[0]) + 6 + text_width(PLAIN, box->texts[1]);
        box->height = LINE - 2;
        break;
    }
}

/* Move the children of [parent] to where it is; those with a frame fill their cells. */
static void place_children(struct box *parent)
{
    int inside = parent->width - 2 * PAD, y = parent->y + TITLE_HEIGHT;
    for (struct box *box = parent->child; box != NULL;) {
        struct grid grid = grid_from(box, inside);
        if (box->kind == BOX_DOMAIN)
            grid.width = (inside + PAD) / grid.columns;
        for (int nth = 0; box != grid.end; nth++, box = box->next) {
            box->x = parent->x + PAD + nth % grid.columns * grid.width;
            box->y = y + nth / grid.columns * grid.height;
            if (box->kind != BOX_DOMAIN && box->kind != BOX_BRIDGE)
                continue;
            box->width = grid.width - PAD;
            box->height = grid.height - PAD;
        }
        y += grid.rows * grid.height - grid.gap + PAD;
    }
}

/* ---- Paint ---- */

static void paint_rect(FILE *file, const char *class, int x, int y, int width, int height)
{
    fprintf(file, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>\n", class, x, y,
            width, height);
}

/* Open a group for what [users] have, and paint it in stripes of their colours or in that of its mark. */
static void open_group(FILE *file, const struct users *users, const char *tip, const struct box *area)
{
    fprintf(file, "<g%s><title>", users->mark == MARK_TASKS ? " class=\"on\"" : "");
    put_escaped(file, tip);
    fputs("</title>\n", file);
    if (users->mark != MARK_TASKS)
        paint_rect(file, marks[users->mark].class, area->x, area->y, area->width, area->height);
    for (int i = 0; i < users->count && users->mark == MARK_TASKS; i++) {
        char colour[] = {'t', (char)('0' + users->tasks[i] % COLOURS), 0};
        int left = area->width * i / users->count, right = area->width * (i + 1) / users->count;
        paint_rect(file, colour, area->x + left, area->y, right - left, area->height);
    }
}

/* Write the numbers of tasks into an area, as large as fits. */
static void paint_numbers(FILE *file, const struct users *users, const struct box *area)
{
    int x = area->x + area->width / 2, y = area->y + area->height / 2 + 4;
    if (text_width(SMALL, users->text) > area->width)
        paint_text(file, SMALL, x, y - 1, "x%d", users->count);
    else
        paint_text(file, text_width(NAME, users->text) <= area->width ? NAME : SMALL, x, y, "%s",
                   users->text);
}

/* Each hardware thread of a core has a cell. */
static void paint_core(FILE *file, const struct box *box, const struct plan *plan)
{
    const struct machine_core *core = box->core;
    struct box cell = {.x = box->x, .width = box->width, .height = box->height / core->cpu_count};
    for (int i = 0; i < core->cpu_count; i++) {
        struct users users = users_of_cpu(plan, core->cpus[i]);
        char tip[160] = "";
        APPEND(tip, "core %d, CPU %d%s%s", core->os_index, core->cpus[i], users.count > 0 ? ": task " : "",
               users.text);
        cell.y = box->y + i * cell.height;
        open_group(file, &users, tip, &cell);
        paint_numbers(file, &users, &cell);
        fputs("</g>\n", file);
    }
}

static void paint_frame(FILE *file, const struct box *box)
{
    int room = box->width - text_width(HEAD, box->texts[0]) - 2 * PAD - 4;
    paint_rect(file, "box", box->x, box->y, box->width, box->height);
    paint_text(file, HEAD, box->x + PAD, box->y + 14, "%s", box->texts[0]);
    if (text_width(LIST, box->texts[1]) <= room)
        paint_text(file, LIST, box->x + box->width - PAD, box->y + 13, "%s", box->texts[1]);
}

static void paint_device(FILE *file, const struct box *box)
{
    int middle = box->x + box->width / 2;
    open_group(file, &box->users, box->tip, box);
    paint_text(file, NAME, middle, box->y + 15, "%s", box->texts[0]);
    paint_text(file, SMALL, middle, box->y + 27, "%s", box->texts[1]);
    paint_text(file, SMALL, middle, box->y + 40, "%s", box->texts[2]);
    fputs("</g>\n", file);
}

static void paint_entry(FILE *file, const struct box *box)
{
    struct box swatch = {.x = box->x, .y = box->y, .width = SWATCH, .height = box->height};
    int x = box->x + SWATCH + 6, y = box->y + 12;
    open_group(file, &box->users, box->tip, &swatch);
    paint_numbers(file, &box->users, &swatch);
    fputs("</g>\n", file);
    paint_text(file, HEAD, x, y, "%s", box->texts[0]);
    paint_text(file, PLAIN, x + text_width(HEAD, box->texts[0]) + 6, y, "%s", box->texts[1]);
}

static void paint_box(FILE *file, const struct box *box, const struct plan *plan)
{
    if (box->kind == BOX_CORE)
        paint_core(file, box, plan);
    else if (box->kind == BOX_DEVICE)
        paint_device(file, box);
    else if (box->kind == BOX_ENTRY)
        paint_entry(file, box);
    else
        paint_frame(file, box);
}

/* ---- The page ---- */

static void paint_page(FILE *file, const struct map *map)
{
    const struct machine *machine = map->machine;
    const struct plan *plan = map->plan;
    char title[256] = "", summary[256];
    struct box *all = map->boxes;
    for (int i = map->count - 1; i >= 0; i--)
        measure_box(&all[i]);
    all->width = all->width > PAGE_MIN ? all->width : PAGE_MIN;
    int width = all->width - 2 * PAD;
    APPEND(title, "%s%s%d task%s", machine->name, machine->name[0] != 0 ? ": " : "", plan->task_count,
           plan->task_count == 1 ? "" : "s");
    machine_summary(machine, summary, sizeof(summary));
    all->x = MARGIN - PAD;
    all->y = MARGIN + 30 - TITLE_HEIGHT + paint_lines(NULL, summary, 0, 0, width);
    int notes_y = all->y + all->height;
    int height = notes_y + paint_lines(NULL, plan->note, 0, 0, width) + MARGIN;
    fprintf(file, page, width + 2 * MARGIN, height, width + 2 * MARGIN, height);
    put_escaped(file, title);
    fprintf(file, "</title>\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", sheet,
            width + 2 * MARGIN, height);
    paint_text(file, TITLE, MARGIN, MARGIN + 14, "%s", title);
    paint_lines(file, summary, MARGIN, MARGIN + 20, width);
    for (int i = 0; i < map->count; i++) {
        place_children(&all[i]);
        if (i > 0)
            paint_box(file, &all[i], plan);
    }
    paint_lines(file, plan->note, MARGIN, notes_y, width);
    fputs("</svg>\n", file);
}

int map_svg(FILE *file, const struct machine *machine, const struct plan *plan, struct hvd_error *err)
{
    enum domain_kind levels[DOMAIN_KINDS + 1] = {[DOMAIN_KINDS] = DOMAIN_KINDS};
    size_t devices = (size_t)(machine->gpu_count + machine->nic_count);
    size_t most = 1 + (size_t)machine->core_count * (DOMAIN_KINDS + 1) + devices * (PCI_MAX_BRIDGES + 1) +
                  (size_t)plan->task_count + MARKS;
    struct map map = {
        .machine = machine, .plan = plan, .count = 1, .boxes = calloc(most, sizeof(*map.boxes))};
    if (map.boxes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to draw %zu boxes", most);
    machine_sort_levels(machine, levels);
    add_cores(&map, map.boxes, levels, 0, machine->core_count);
    for (int i = 0; i < machine->gpu_count; i++)
        add_device(&map, i, NULL);
    for (int i = 0; i < machine->nic_count; i++)
        add_device(&map, i, &machine->nics[i]);
    add_legend(&map);
    paint_page(file, &map);
    free(map.boxes);
    return HVD_OK;
}
