/* map_svg.c: draw a machine, and the placement of tasks on it, as an SVG picture: boxes inside boxes. */
#include "tools/hvdinfo/map_svg.h"

#include <stdlib.h>
#include <string.h>

#include "tools/hvdinfo/map_text.h"

/* Sizes in pixels. Letters are at most LETTER wide, those of the class "small" SMALL_LETTER. */
enum { GAP = 5, TITLE = 20, MARGIN = 20, LINE = 17, LETTER = 8, SMALL_LETTER = 6, PAGE_MIN = 700 };
enum { CELL_WIDTH = 29, CELL_HEIGHT = 15, DEVICE_WIDTH_MIN = 80, DEVICE_HEIGHT = 43, ENTRY_WIDTH = 330 };

#define COLOURS        8
#define USERS_SHOWN    4
#define DEVICE_COLUMNS 2

/* How a thing is painted: in the colours of its tasks, or like all that are idle, and so on. */
enum map_mark { MARK_TASKS, MARK_MANY, MARK_IDLE, MARK_SYSTEM, MARK_BARRED, MARKS };

static const struct {
    const char *class, *meaning;
} marks[MARKS] = {[MARK_MANY] = {"many", "shared by more tasks than have room"},
                  [MARK_IDLE] = {"idle", "idle"},
                  [MARK_SYSTEM] = {"system", "kept for the system"},
                  [MARK_BARRED] = {"barred", "not granted"}};

/* A hardware thread, a GPU, a network card, or a sample in the legend. */
struct cell {
    int x, y, width, height;
    enum map_mark mark;
    int count, tasks[USERS_SHOWN]; /* that use it */
    char users[48];                /* their numbers: "7", "0,2", or "x24" if they are many */
    char what[400];                /* shown by viewers when it is pointed at */
};

/* What is around a domain's cores and devices. Frames are painted last, when their sizes are known, but lie
 * below the cells. */
struct map_frame {
    struct map_frame *outside; /* NULL: it is the page */
    int x, y, right, bottom;
    char title[96], cpus[96];
};

struct map {
    FILE *cells;
    const struct machine *machine;
    const struct plan *plan;
    int frame_count;
    struct map_frame *frames; /* the page first, and outer ones before inner ones */
    struct map_frame *inside; /* the one that is being filled */
    char title[96];
    int device_width;
    bool painted[MACHINE_MAX_GPUS + NIC_MAX]; /* devices */
};

#define APPEND(text, ...) text_append(text, sizeof(text), __VA_ARGS__)

/* ---- Text and boxes ---- */

static const char page[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                           "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>";

/* The colours of tasks can be told apart with colour blindness, and dark text is legible on each. Viewers
 * that support dark mode choose a scheme; others show the light one on its own background. */
static const char sheet[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,\"Segoe UI\",\"Helvetica "
    "Neue\",Arial,sans-serif;fill:#1f2328}\n"
    ".title{font-size:19px;font-weight:600}.head{font-size:12px;font-weight:600}.plain{font-size:11px}\n"
    ".name{font-size:11px;font-weight:600}.small{font-size:9px}.name,.small{text-anchor:middle}\n"
    ".on text{fill:#101418}.on rect{stroke:#000000;stroke-opacity:.3}\n"
    ".ground,.idle{fill:#ffffff}.idle,.system,.barred,.many{stroke:#8c959f;stroke-opacity:.7}\n"
    ".box{fill:#8c959f;fill-opacity:.1;stroke:#8c959f;stroke-opacity:.5}\n"
    ".system{fill:#c9d0d7}.barred{fill:none;stroke-dasharray:3 2}.many{fill:#a9b2bb}\n"
    ".t0{fill:#77b8fc}.t1{fill:#e8953a}.t2{fill:#57a564}.t3{fill:#ea64ae}\n"
    ".t4{fill:#f5e24c}.t5{fill:#9a80f7}.t6{fill:#5ce5da}.t7{fill:#dcc39a}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.ground,.idle{fill:#0d1117}.system{fill:#2f363f}.many{fill:#59636e}\n"
    "}\n"
    "</style>\n";

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

/* Write [text] with its base line at [x], [y]; the classes "name" and "small" are centred there. */
static void paint_text(FILE *file, const char *class, int x, int y, const char *text)
{
    if (*text == 0)
        return;
    fprintf(file, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    put_escaped(file, text);
    fputs("</text>\n", file);
}

/* Write [text] in lines below [y]. Returns where they end. */
static int paint_lines(FILE *file, const char *text, int y)
{
    char line[PAGE_MIN / LETTER + 1];
    for (int length = 0; *text != 0; text += length) {
        length = line_of(text, PAGE_MIN / LETTER);
        snprintf(line, sizeof(line), "%.*s", length, text);
        y += LINE;
        paint_text(file, "plain", MARGIN, y, line);
    }
    return y;
}

static void paint_rect(FILE *file, const char *class, int x, int y, int width, int height)
{
    fprintf(file, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>\n", class, x, y,
            width, height);
}

/* ---- Frames ---- */

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static void extend_frame(struct map_frame *frame, int right, int bottom)
{
    frame->right = larger(frame->right, right);
    frame->bottom = larger(frame->bottom, bottom);
}

static struct map_frame *open_frame(struct map *map, int x, int y)
{
    struct map_frame *frame = &map->frames[map->frame_count++];
    frame->outside = map->inside;
    frame->x = x;
    frame->y = y;
    frame->bottom = y + TITLE;
    map->inside = frame;
    return frame;
}

/* Returns where the next one begins. */
static int close_frame(struct map *map)
{
    struct map_frame *frame = map->inside;
    extend_frame(frame, frame->x + GAP + LETTER * (int)strlen(frame->title), 0);
    frame->right += GAP;
    frame->bottom += GAP;
    extend_frame(frame->outside, frame->right, frame->bottom);
    map->inside = frame->outside;
    return frame->right + GAP;
}

static void paint_frame(FILE *file, const struct map_frame *frame)
{
    int after = frame->x + GAP + LETTER * ((int)strlen(frame->title) + 1);
    paint_rect(file, "box", frame->x, frame->y, frame->right - frame->x, frame->bottom - frame->y);
    paint_text(file, "head", frame->x + GAP, frame->y + 14, frame->title);
    if (after + LETTER * (int)strlen(frame->cpus) < frame->right)
        paint_text(file, "plain", after, frame->y + 14, frame->cpus);
}

/* ---- Cells ---- */

static void add_user(struct cell *cell, int task)
{
    cell->mark = cell->count < USERS_SHOWN ? MARK_TASKS : MARK_MANY;
    if (cell->mark == MARK_TASKS) {
        cell->tasks[cell->count] = task;
        APPEND(cell->users, "%s%d", cell->count > 0 ? "," : "", task);
    } else {
        snprintf(cell->users, sizeof(cell->users), "x%d", cell->count + 1);
    }
    cell->count++;
}

/* Paint a cell in stripes of the colours of its tasks or in that of its mark, with their numbers at the
 * bottom. */
static void paint_cell(struct map *map, const struct cell *cell)
{
    char many[16];
    int length = (int)strlen(cell->users);
    fprintf(map->cells, "<g%s><title>", cell->mark == MARK_TASKS ? " class=\"on\"" : "");
    put_escaped(map->cells, cell->what);
    fprintf(map->cells, "%s%s</title>\n", cell->count > 0 ? ": task " : "", cell->users);
    if (cell->mark != MARK_TASKS)
        paint_rect(map->cells, marks[cell->mark].class, cell->x, cell->y, cell->width, cell->height);
    for (int i = 0; i < cell->count && cell->mark == MARK_TASKS; i++) {
        char colour[] = {'t', (char)('0' + cell->tasks[i] % COLOURS), 0};
        int left = cell->width * i / cell->count, right = cell->width * (i + 1) / cell->count;
        paint_rect(map->cells, colour, cell->x + left, cell->y, right - left, cell->height);
    }
    snprintf(many, sizeof(many), "x%d", cell->count);
    paint_text(map->cells, length * LETTER <= cell->width ? "name" : "small", cell->x + cell->width / 2,
               cell->y + cell->height - 4, length * SMALL_LETTER <= cell->width ? cell->users : many);
    fputs("</g>\n", map->cells);
    extend_frame(map->inside, cell->x + cell->width, cell->y + cell->height);
}

/* ---- GPUs and network cards ---- */

/* NULL for a GPU. They are counted before the network cards. */
static const struct nic *nic_of(const struct machine *machine, int device)
{
    return device < machine->gpu_count ? NULL : &machine->nics[device - machine->gpu_count];
}

static const struct pci_device *pci_of(const struct machine *machine, int device)
{
    return device < machine->gpu_count ? &machine->gpus[device].pci : &nic_of(machine, device)->pci;
}

/* The innermost PCI bridge above a device that has other devices below, too; -1: none. */
static int bridge_of(const struct machine *machine, int device)
{
    const struct pci_device *pci = pci_of(machine, device);
    for (int depth = pci->bridge_count - 1; depth > 0; depth--)
        for (int i = 0; i < machine->gpu_count + machine->nic_count; i++)
            if (i != device && depth < pci_of(machine, i)->bridge_count &&
                pci_of(machine, i)->bridges[depth] == pci->bridges[depth])
                return pci->bridges[depth];
    return -1;
}

static void paint_device(struct map *map, int device, int x, int y)
{
    const struct machine *machine = map->machine;
    const struct nic *nic = nic_of(machine, device);
    const char *id = pci_of(machine, device)->id;
    struct cell cell = {x, y, map->device_width, DEVICE_HEIGHT, .mark = MARK_IDLE};
    char name[NIC_VERBS_BYTES] = "NIC";
    if (nic != NULL && nic->exclusion != NIC_NOT_EXCLUDED)
        cell.mark = MARK_BARRED;
    for (int i = 0; i < map->plan->task_count; i++) {
        const struct plan_task *task = &map->plan->tasks[i];
        for (int k = 0; k < (nic == NULL ? task->gpu_count : task->nic_count); k++)
            if ((nic == NULL ? task->gpus[k] : machine->gpu_count + task->nics[k]) == device)
                add_user(&cell, i);
    }
    if (nic == NULL)
        snprintf(name, sizeof(name), "GPU %d", device);
    else if (nic_name(nic) != id)
        snprintf(name, sizeof(name), "%s", nic_name(nic));
    snprintf(cell.what, sizeof(cell.what), "%s%s%s, %s", name, id[0] != 0 ? ", " : "", id,
             nic == NULL ? machine->gpus[device].name : nic->why);
    paint_cell(map, &cell);
    x += map->device_width / 2;
    paint_text(map->cells, "name", x, y + 13, name);
    paint_text(map->cells, "small", x, y + 25, strncmp(id, "0000:", 5) == 0 ? id + 5 : id);
    map->painted[device] = true;
}

/* Is the device near [cpus], and not in an inner frame? */
static bool is_here(const struct map *map, int device, const struct bitmap *cpus)
{
    const struct bitmap *own = &pci_of(map->machine, device)->cpus;
    return !map->painted[device] &&
           (cpus == NULL || (!bitmap_is_empty(own) && bitmap_is_included(own, cpus)));
}

/* Paint the devices near [cpus], and with NULL all others, below the cores: a frame for each bridge. */
static void paint_devices(struct map *map, const struct bitmap *cpus)
{
    const struct machine *machine = map->machine;
    int count = machine->gpu_count + machine->nic_count, limit = map->inside->right;
    int left = map->inside->x + GAP, x = left, y = map->inside->bottom + GAP;
    for (int first = 0; first < count; first++) {
        int bridge = bridge_of(machine, first), nth = 0;
        if (!is_here(map, first, cpus))
            continue;
        if (x >= limit) {
            x = left;
            y = map->inside->bottom + GAP;
        }
        APPEND(open_frame(map, x, y)->title, bridge < 0 ? "devices" : "PCI bridge");
        for (int i = first; i < count; i++)
            if (is_here(map, i, cpus) && bridge_of(machine, i) == bridge) {
                paint_device(map, i, x + GAP + nth % DEVICE_COLUMNS * (map->device_width + GAP),
                             y + TITLE + nth / DEVICE_COLUMNS * (DEVICE_HEIGHT + GAP));
                nth++;
            }
        x = close_frame(map);
    }
}

/* ---- Cores ---- */

/* Returns where the next core begins. */
static int paint_core(struct map *map, const struct machine_core *core, int x, int y)
{
    const struct plan *plan = map->plan;
    for (int i = 0; i < core->cpu_count; i++) {
        int cpu = core->cpus[i];
        struct cell cell = {x, y + i * CELL_HEIGHT, CELL_WIDTH, CELL_HEIGHT, .mark = MARK_IDLE};
        if (!bitmap_is_set(&plan->granted, cpu))
            cell.mark = MARK_BARRED;
        else if (bitmap_is_set(&plan->reserved, cpu))
            cell.mark = MARK_SYSTEM;
        for (int k = 0; k < plan->task_count; k++)
            if (bitmap_is_set(&plan->tasks[k].cpus, cpu))
                add_user(&cell, k);
        snprintf(cell.what, sizeof(cell.what), "core %d, CPU %d", core->os_index, cpu);
        paint_cell(map, &cell);
    }
    return x + CELL_WIDTH + GAP;
}

static void name_domain(struct map_frame *frame, enum domain_kind kind, const struct machine_domain *domain)
{
    char mems[48];
    if (kind == DOMAIN_PACKAGE)
        APPEND(frame->title, "package %d", domain->os_index);
    else if (kind == DOMAIN_L3)
        APPEND(frame->title, "L3");
    else
        APPEND(frame->title, "NUMA node%s %s", bitmap_weight(&domain->mems) > 1 ? "s" : "",
               bitmap_text(&domain->mems, mems, sizeof(mems)));
    if (domain->bytes >= INT64_C(1) << 30)
        APPEND(frame->title, ", %lld GiB", (long long)domain->bytes >> 30);
    else if (domain->bytes > 0)
        APPEND(frame->title, " %lld MiB", (long long)domain->bytes >> 20);
    bitmap_text(&domain->cpus, frame->cpus, sizeof(frame->cpus));
}

/* The end of the cores, of those from [first] to [end], that are in one domain with the first. */
static int domain_end(const struct machine *machine, enum domain_kind kind, int first, int end)
{
    int to = first + 1;
    while (kind != DOMAIN_KINDS && to < end &&
           machine->cores[to].domain[kind] == machine->cores[first].domain[kind])
        to++;
    return to;
}

/* Of [count] in rows: rows are longer than there are rows, but not more than four times, and full if
 * possible. */
static int columns_of(int count)
{
    int columns = 1;
    while (columns * columns < count || (count % columns != 0 && columns * columns < 4 * count))
        columns++;
    return columns;
}

/* Paint the cores from [first] to [end], in frames for the domains of [level] and of those below. */
static void paint_cores(struct map *map, const enum domain_kind *level, int first, int end, int x, int y)
{
    const struct machine *machine = map->machine;
    int count = 0, left = x;
    if (*level == DOMAIN_L3 && !machine->has_l3)
        level++;
    for (int at = first; at < end; at = domain_end(machine, *level, at, end))
        count++;
    for (int nth = 0, to; nth < count; nth++, first = to) {
        to = domain_end(machine, *level, first, end);
        if (nth > 0 && nth % columns_of(count) == 0) {
            x = left;
            y = map->inside->bottom + GAP;
        }
        if (*level == DOMAIN_KINDS) {
            x = paint_core(map, &machine->cores[first], x, y);
            continue;
        }
        const struct machine_domain *domain = &machine->domains[*level][machine->cores[first].domain[*level]];
        name_domain(open_frame(map, x, y), *level, domain);
        paint_cores(map, level + 1, first, to, x + GAP, y + TITLE);
        if (*level != DOMAIN_L3)
            paint_devices(map, &domain->cpus);
        x = close_frame(map);
    }
}

/* ---- The page ---- */

/* The tasks, and the other marks. A long list of CPUs ends in dots; the table has it in full. */
static void paint_legend(struct map *map)
{
    int columns = (map->inside->right - MARGIN) / ENTRY_WIDTH, top = map->inside->bottom + 2 * GAP;
    int count = map->plan->task_count;
    for (int i = 0; i < count + MARKS - MARK_MANY; i++) {
        struct cell cell = {MARGIN + i % columns * ENTRY_WIDTH, top + i / columns * (CELL_HEIGHT + GAP),
                            CELL_WIDTH, CELL_HEIGHT, .mark = MARK_MANY + i - count};
        const struct plan_task *task = i < count ? &map->plan->tasks[i] : NULL;
        char name[16] = "", detail[96] = "", cpus[20];
        if (task != NULL) {
            add_user(&cell, i);
            snprintf(name, sizeof(name), "task %d", i);
            APPEND(detail, "CPU %s, %d thread%s", bitmap_text(&task->cpus, cpus, sizeof(cpus)), task->threads,
                   task->threads == 1 ? "" : "s");
        } else {
            APPEND(detail, "%s", marks[cell.mark].meaning);
        }
        APPEND(cell.what, "%s", task != NULL ? task->why : detail);
        int x = cell.x + CELL_WIDTH + GAP, y = cell.y + CELL_HEIGHT - 4;
        paint_cell(map, &cell);
        paint_text(map->cells, "head", x, y, name);
        paint_text(map->cells, "plain", x + LETTER * (int)strlen(name) + GAP, y, detail);
    }
}

/* Returns where it ends. */
static int paint_map(struct map *map)
{
    const struct machine *machine = map->machine;
    enum domain_kind levels[DOMAIN_KINDS + 1] = {[DOMAIN_KINDS] = DOMAIN_KINDS};
    char summary[256];
    paint_text(map->cells, "title", MARGIN, MARGIN + 14, map->title);
    int y =
        paint_lines(map->cells, machine_summary(machine, summary, sizeof(summary)), MARGIN + 14) + 2 * GAP;
    struct map_frame *all = open_frame(map, MARGIN - GAP, y - TITLE);
    all->right = PAGE_MIN;
    machine_sort_levels(machine, levels);
    paint_cores(map, levels, 0, machine->core_count, MARGIN, y);
    paint_devices(map, NULL);
    paint_legend(map);
    return paint_lines(map->cells, map->plan->note, all->bottom);
}

static void write_page(FILE *file, const struct map *map, int height, const char *cells)
{
    int width = map->frames->right + MARGIN;
    fprintf(file, page, width, height, width, height);
    put_escaped(file, map->title);
    fprintf(file, "</title>\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", sheet, width,
            height);
    for (int i = 1; i < map->frame_count; i++)
        paint_frame(file, &map->frames[i]);
    fprintf(file, "%s</svg>\n", cells);
}

int map_svg(FILE *file, const struct machine *machine, const struct plan *plan, struct hvd_error *err)
{
    size_t most = 1 + (size_t)(machine->core_count * DOMAIN_KINDS + machine->gpu_count + machine->nic_count);
    size_t bytes;
    char *cells = NULL;
    int end = 0;
    struct map map = {.machine = machine,
                      .plan = plan,
                      .device_width = DEVICE_WIDTH_MIN,
                      .frames = calloc(most, sizeof(*map.frames)),
                      .cells = open_memstream(&cells, &bytes)};
    APPEND(map.title, "%s%s%d task%s", machine->name, machine->name[0] != 0 ? ": " : "", plan->task_count,
           plan->task_count == 1 ? "" : "s");
    for (int i = 0; i < machine->nic_count; i++)
        map.device_width = larger(map.device_width, LETTER * (int)strlen(nic_name(&machine->nics[i])));
    if (map.frames != NULL && map.cells != NULL)
        end = paint_map(&map);
    if (map.cells != NULL && fclose(map.cells) != 0)
        end = 0;
    if (end > 0)
        write_page(file, &map, end + MARGIN, cells);
    free(cells);
    free(map.frames);
    return end > 0 ? HVD_OK : error_set(err, HVD_ERR_NO_MEMORY, "no memory to draw %zu boxes", most);
}
