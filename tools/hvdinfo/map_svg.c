/* map_svg.c: draw a machine and the placement of tasks on it as an SVG picture: title, machine, legend and
 * notes. */
#include "tools/hvdinfo/map_svg.h"

#include <stdlib.h>
#include <string.h>

#include "tools/hvdinfo/map_picture.h"
#include "tools/hvdinfo/map_text.h"

#define MARGIN      20
#define WIDTH_MIN   640
#define LEGEND_LINE 19
#define MARKS_GAP   5
#define SWATCH      30
#define LINE        17

/* ---- Who uses what ---- */

static void add_user(struct task_use *use, int task)
{
    if (use->count == 0)
        use->first = task;
    if (use->count < USE_SHOWN)
        use->tasks[use->count] = task;
    use->last = task;
    use->count++;
}

static int take_uses(struct picture *picture, struct hvd_error *err)
{
    const struct plan *plan = picture->plan;
    picture->cpus = calloc(BITMAP_BITS, sizeof(*picture->cpus));
    picture->gpus = calloc(MACHINE_MAX_GPUS, sizeof(*picture->gpus));
    picture->nics = calloc(NIC_MAX, sizeof(*picture->nics));
    if (picture->cpus == NULL || picture->gpus == NULL || picture->nics == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to draw %d tasks", plan->task_count);
    for (int i = 0; i < plan->task_count; i++) {
        const struct plan_task *task = &plan->tasks[i];
        for (int cpu = bitmap_find_next(&task->cpus, 0); cpu >= 0;
             cpu = bitmap_find_next(&task->cpus, cpu + 1))
            add_user(&picture->cpus[cpu], i);
        for (int k = 0; k < task->gpu_count; k++)
            add_user(&picture->gpus[task->gpus[k]], i);
        for (int k = 0; k < task->nic_count; k++)
            add_user(&picture->nics[task->nics[k]], i);
    }
    return HVD_OK;
}

/* ---- The legend ---- */

struct legend {
    int columns, rows, column_width;
    bool idle, system, barred, many; /* used on some core, so that the legend explains it */
};

/* Long lists are shortened and end in dots; the table has them in full. */
static void legend_text(const struct plan_task *task, char *text, size_t text_bytes)
{
    char cpus[36];
    int used = snprintf(text, text_bytes, "CPU %s", bitmap_text(&task->cpus, cpus, sizeof(cpus)));
    if (task->gpu_count > 0)
        used += snprintf(text + used, text_bytes - (size_t)used, ", GPU %d", task->gpus[0]);
    if (task->gpu_count > 1)
        used += snprintf(text + used, text_bytes - (size_t)used, " and %d more", task->gpu_count - 1);
    if (task->nic_count > 0)
        used += snprintf(text + used, text_bytes - (size_t)used, ", %s", task->nic_names[0]);
    if (task->nic_count > 1)
        used += snprintf(text + used, text_bytes - (size_t)used, " and %d more", task->nic_count - 1);
    snprintf(text + used, text_bytes - (size_t)used, ", %d thread%s", task->threads,
             task->threads == 1 ? "" : "s");
}

static int label_width(const struct plan *plan)
{
    char label[32];
    snprintf(label, sizeof(label), "task %d", plan->task_count - 1);
    return text_width(label, STYLE_HEAD) + 6;
}

static void choose_cpu_marks(const struct picture *picture, struct legend *legend)
{
    for (int i = 0; i < picture->machine->core_count; i++)
        for (int k = 0; k < picture->machine->cores[i].cpu_count; k++) {
            int cpu = picture->machine->cores[i].cpus[k];
            bool granted = bitmap_is_set(&picture->plan->granted, cpu);
            bool reserved = bitmap_is_set(&picture->plan->reserved, cpu);
            int count = picture->cpus[cpu].count;
            legend->barred = legend->barred || !granted;
            legend->system = legend->system || reserved;
            legend->idle = legend->idle || (granted && !reserved && count == 0);
            legend->many = legend->many || count > USE_SHOWN;
        }
}

static struct legend measure_legend(const struct picture *picture, int width)
{
    struct legend legend = {.columns = 1};
    char text[256];
    for (int i = 0; i < picture->plan->task_count; i++) {
        legend_text(&picture->plan->tasks[i], text, sizeof(text));
        int wanted = SWATCH + 6 + label_width(picture->plan) + text_width(text, STYLE_QUIET) + 14;
        legend.column_width = wanted > legend.column_width ? wanted : legend.column_width;
    }
    if (width > legend.column_width)
        legend.columns = width / legend.column_width;
    legend.rows = (picture->plan->task_count + legend.columns - 1) / legend.columns;
    choose_cpu_marks(picture, &legend);
    return legend;
}

static bool has_marks(const struct legend *legend)
{
    return legend->idle || legend->system || legend->barred || legend->many;
}

static int legend_height(const struct legend *legend)
{
    return legend->rows * LEGEND_LINE + (has_marks(legend) ? LEGEND_LINE + MARKS_GAP : 0);
}

static void paint_task(const struct picture *picture, int index, int x, int y)
{
    char text[256];
    struct task_use use = {0};
    struct area swatch = {x, y, SWATCH, LEGEND_LINE - 4, 3};
    add_user(&use, index);
    snprintf(text, sizeof(text), "task %d", index);
    paint_group(picture->file, &use, picture->plan->tasks[index].why);
    paint_use(picture->file, &swatch, &use, "");
    paint_text(picture->file, STYLE_NAME, x + SWATCH / 2, y + 12, "%d", index);
    paint_group_end(picture->file);
    paint_text(picture->file, STYLE_HEAD, x + SWATCH + 6, y + 12, "%s", text);
    legend_text(&picture->plan->tasks[index], text, sizeof(text));
    paint_text(picture->file, STYLE_QUIET, x + SWATCH + 6 + label_width(picture->plan), y + 12, "%s", text);
}

static int paint_mark(const struct picture *picture, const char *class, const char *words, int x, int y)
{
    struct area swatch = {x, y, SWATCH, LEGEND_LINE - 4, 3};
    struct task_use none = {0};
    paint_use(picture->file, &swatch, &none, class);
    paint_text(picture->file, STYLE_QUIET, x + SWATCH + 6, y + 12, "%s", words);
    return x + SWATCH + 6 + text_width(words, STYLE_QUIET) + 14;
}

/* Tasks are listed column by column. */
static void paint_legend(const struct picture *picture, const struct legend *legend, int x, int y)
{
    for (int i = 0; i < picture->plan->task_count; i++)
        paint_task(picture, i, x + i / legend->rows * legend->column_width,
                   y + i % legend->rows * LEGEND_LINE);
    y += legend->rows * LEGEND_LINE + MARKS_GAP;
    if (legend->many)
        x = paint_mark(picture, "many", "shared by more tasks than have room", x, y);
    if (legend->idle)
        x = paint_mark(picture, "idle", "idle", x, y);
    if (legend->system)
        x = paint_mark(picture, "system", "kept for the system", x, y);
    if (legend->barred)
        paint_mark(picture, "barred", "not granted", x, y);
}

/* ---- Text that is as wide as the page ---- */

/* The length of the next line of [text], broken at a blank. A word that is longer than a line is not cut. */
static size_t line_length(const char *text, int width)
{
    size_t room = (size_t)(width * 10 / text_width("nnnnnnnnnn", STYLE_PLAIN)), best = 0;
    for (size_t i = 0; (i <= room || best == 0) && text[i] != 0; i++)
        if (text[i] == ' ')
            best = i;
    return strlen(text) <= room || best == 0 ? strlen(text) : best;
}

/* Returns the height. If [file] is NULL, nothing is painted. */
static int paint_lines(FILE *file, const char *text, int x, int y, int width)
{
    int lines = 0;
    while (*text != 0) {
        size_t length = line_length(text, width);
        lines++;
        if (file != NULL)
            paint_text(file, STYLE_PLAIN, x, y + lines * LINE - 5, "%.*s", (int)length, text);
        text += length + strspn(text + length, " ");
    }
    return lines * LINE;
}

/* ---- The page ---- */

static void paint_page(struct picture *picture)
{
    const struct machine *machine = picture->machine;
    const struct plan *plan = picture->plan;
    char title[256], machine_text[256];
    snprintf(title, sizeof(title), "%s%s%d task%s", machine->name, machine->name[0] != 0 ? ": " : "",
             plan->task_count, plan->task_count == 1 ? "" : "s");
    machine_summary(machine, machine_text, sizeof(machine_text));
    int inner = picture->boxes[0].width;
    inner = inner < WIDTH_MIN ? WIDTH_MIN : inner;
    int width = inner + 2 * MARGIN;
    struct legend legend = measure_legend(picture, inner);
    int notes = paint_lines(NULL, plan->note, 0, 0, inner);
    int words = paint_lines(NULL, machine_text, 0, 0, inner);
    int top = MARGIN + 20 + words + 10;
    int bottom = top + picture->boxes[0].height + 14;
    int height = bottom + legend_height(&legend) + (notes > 0 ? notes + 6 : 0) + MARGIN;
    paint_begin(picture->file, width, height, title);
    paint_text(picture->file, STYLE_TITLE, MARGIN, MARGIN + 14, "%s", title);
    paint_lines(picture->file, machine_text, MARGIN, MARGIN + 20, inner);
    boxes_place(picture, MARGIN + (inner - picture->boxes[0].width) / 2, top);
    boxes_paint(picture);
    paint_legend(picture, &legend, MARGIN, bottom);
    paint_lines(picture->file, plan->note, MARGIN, bottom + legend_height(&legend) + 6, inner);
    paint_end(picture->file);
}

int map_svg(FILE *file, const struct machine *machine, const struct plan *plan, struct hvd_error *err)
{
    struct picture picture = {.file = file, .machine = machine, .plan = plan};
    int rc = take_uses(&picture, err);
    if (rc == HVD_OK)
        rc = boxes_make(&picture, err);
    if (rc == HVD_OK)
        rc = chips_make(&picture, err);
    if (rc == HVD_OK) {
        boxes_measure(&picture);
        paint_page(&picture);
    }
    free(picture.cpus);
    free(picture.gpus);
    free(picture.nics);
    free(picture.boxes);
    free(picture.chips);
    return rc;
}
