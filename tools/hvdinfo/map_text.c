/* map_text.c: print a map as a table or as JSON. */
#include "tools/hvdinfo/map_text.h"

#include <string.h>

#include "tools/common/json.h"

/* ---- The machine ---- */

static void append_count(char *text, size_t text_bytes, int count, const char *what)
{
    text_append(text, text_bytes, "%s%d %s%s", text[0] != 0 ? ", " : "", count, what, count == 1 ? "" : "s");
}

/* The model that all GPUs have in common, or "". */
static const char *gpu_model(const struct machine *machine)
{
    for (int i = 1; i < machine->gpu_count; i++)
        if (strcmp(machine->gpus[i].name, machine->gpus[0].name) != 0)
            return "";
    return machine->gpu_count > 0 ? machine->gpus[0].name : "";
}

const char *machine_summary(const struct machine *machine, char *text, size_t text_bytes)
{
    text[0] = 0;
    append_count(text, text_bytes, machine->domain_count[DOMAIN_PACKAGE], "package");
    append_count(text, text_bytes, machine->domain_count[DOMAIN_NUMA], "NUMA node");
    if (machine->has_l3)
        append_count(text, text_bytes, machine->domain_count[DOMAIN_L3], "L3 cache");
    append_count(text, text_bytes, machine->core_count, "core");
    append_count(text, text_bytes, bitmap_weight(&machine->cpus), "hardware thread");
    if (machine->gpu_count > 0)
        append_count(text, text_bytes, machine->gpu_count, "GPU");
    if (gpu_model(machine)[0] != 0)
        text_append(text, text_bytes, " (%s)", gpu_model(machine));
    if (machine->nic_count > 0)
        append_count(text, text_bytes, machine->nic_count, "network card");
    return text;
}

/* ---- The table ---- */

enum { TASK, CPUS, MEMORY, GPU, NIC, THREADS, REASON, COLUMNS };

#define CELL_BYTES 1536 /* a longer list ends in dots; JSON has it in full */

static const struct column {
    const char *head;
    int most;   /* widest, in characters; longer cells continue on the next line */
    bool right; /* aligned to the right, for numbers */
} columns[COLUMNS] = {
    [TASK] = {"task", 4, true},        [CPUS] = {"cpus", 22, false}, [MEMORY] = {"memory", 8, false},
    [GPU] = {"GPU", 12, false},        [NIC] = {"NIC", 12, false},   [THREADS] = {"threads", 7, true},
    [REASON] = {"reason", 1000, false}};

#define REASON_WIDTH_MIN 28

/* The kernel allows nearly all bytes in names of interfaces. */
static char harmless(char character)
{
    return (char)(character < ' ' || character > '~' ? '?' : character);
}

static void join(char *text, size_t text_bytes, int count, const char *names, size_t name_bytes)
{
    text[0] = 0;
    for (int i = 0; i < count; i++)
        text_append(text, text_bytes, "%s%s", i > 0 ? "," : "", names + (size_t)i * name_bytes);
    if (count == 0)
        text_append(text, text_bytes, "-");
    for (char *at = text; *at != 0; at++)
        *at = harmless(*at);
}

/* Copy a reason without the names of the task's GPU and NIC, which have their own columns. */
static void copy_general(char to[PLAN_WHY_BYTES], const struct plan_task *task)
{
    const char *own[] = {task->gpu_count > 0 ? task->gpu_ids[0] : "",
                         task->nic_count > 0 ? task->nic_names[0] : ""};
    const char *at = task->why;
    while (*at != 0) {
        size_t skip = 0;
        for (int i = 0; i < 2; i++)
            if (own[i][0] != 0 && strncmp(at, own[i], strlen(own[i])) == 0)
                skip = strlen(own[i]);
        at += skip;
        if (skip == 0)
            *to++ = *at++;
    }
    *to = 0;
}

/* Whether the task has the same reason as the previous one. */
static bool is_likewise(const struct plan *plan, int index)
{
    char before[PLAN_WHY_BYTES], reason[PLAN_WHY_BYTES];
    if (index == 0)
        return false;
    copy_general(before, &plan->tasks[index - 1]);
    copy_general(reason, &plan->tasks[index]);
    return strcmp(before, reason) == 0;
}

static void fill_cell(const struct plan *plan, int index, int column, char text[CELL_BYTES])
{
    const struct plan_task *task = &plan->tasks[index];
    if (column == TASK)
        snprintf(text, CELL_BYTES, "%d", index);
    else if (column == CPUS)
        bitmap_text(&task->cpus, text, CELL_BYTES);
    else if (column == MEMORY)
        bitmap_text(&task->mems, text, CELL_BYTES);
    else if (column == GPU)
        join(text, CELL_BYTES, task->gpu_count, task->gpu_ids[0], sizeof(task->gpu_ids[0]));
    else if (column == NIC)
        join(text, CELL_BYTES, task->nic_count, task->nic_names[0], sizeof(task->nic_names[0]));
    else if (column == THREADS)
        snprintf(text, CELL_BYTES, "%d", task->threads);
    else
        snprintf(text, CELL_BYTES, "%s", is_likewise(plan, index) ? "likewise" : task->why);
}

int line_of(const char *text, int width)
{
    int best = 0, i = 0;
    for (; i < width && text[i] != 0; i++)
        if (text[i] == ',' || text[i] == ' ')
            best = i + 1;
    return text[i] == 0 || best == 0 ? i : text[i] == ' ' ? i + 1 : best;
}

static void print_row(FILE *file, char cells[COLUMNS][CELL_BYTES], const int *widths)
{
    const char *rest[COLUMNS];
    bool more = true;
    for (int i = 0; i < COLUMNS; i++)
        rest[i] = cells[i];
    while (more) {
        int gap = 0; /* blanks are printed before the next word, so that no line ends in blanks */
        more = false;
        for (int i = 0; i < COLUMNS; i++) {
            int length = line_of(rest[i], widths[i]), shown = length;
            while (shown > 0 && rest[i][shown - 1] == ' ')
                shown--;
            int before = columns[i].right ? widths[i] - shown : 0;
            if (shown > 0) {
                fprintf(file, "%*s%.*s", gap + before, "", shown, rest[i]);
                gap = widths[i] - before - shown + 2;
            } else {
                gap += widths[i] + 2;
            }
            rest[i] += length;
            more = more || *rest[i] != 0;
        }
        fputc('\n', file);
    }
}

static void measure_columns(const struct plan *plan, int width, int widths[COLUMNS])
{
    char text[CELL_BYTES];
    int used = 0;
    for (int column = 0; column < COLUMNS; column++) {
        widths[column] = (int)strlen(columns[column].head);
        for (int i = 0; column < REASON && i < plan->task_count; i++) {
            fill_cell(plan, i, column, text);
            int length = (int)strlen(text);
            length = length > columns[column].most ? columns[column].most : length;
            widths[column] = length > widths[column] ? length : widths[column];
        }
        if (column < REASON)
            used += widths[column] + 2;
    }
    widths[REASON] = width - used < REASON_WIDTH_MIN ? REASON_WIDTH_MIN : width - used;
}

/* Print text with [before] in front of the first line, and the same number of blanks in front of the others.
 */
static void print_text(FILE *file, const char *before, const char *text, int width)
{
    int indent = (int)strlen(before);
    while (*text != 0) {
        int length = line_of(text, width - indent), shown = length;
        while (shown > 0 && text[shown - 1] == ' ')
            shown--;
        fprintf(file, "%*s%.*s\n", indent, before, shown, text);
        text += length;
        before = "";
    }
}

void map_table(FILE *file, const struct machine *machine, const struct plan *plan, int width)
{
    char cells[COLUMNS][CELL_BYTES];
    char name[MACHINE_NAME_BYTES + 2], text[256];
    int widths[COLUMNS];
    measure_columns(plan, width, widths);
    snprintf(name, sizeof(name), "%s%s", machine->name, machine->name[0] != 0 ? ": " : "");
    print_text(file, name, machine_summary(machine, text, sizeof(text)), width);
    fputc('\n', file);
    for (int column = 0; column < COLUMNS; column++)
        snprintf(cells[column], CELL_BYTES, "%s", columns[column].head);
    print_row(file, cells, widths);
    for (int i = 0; i < plan->task_count; i++) {
        for (int column = 0; column < COLUMNS; column++)
            fill_cell(plan, i, column, cells[column]);
        print_row(file, cells, widths);
    }
    if (plan->note[0] != 0)
        fputc('\n', file);
    print_text(file, "note: ", plan->note, width);
}

/* ---- JSON ---- */

static void add_texts(struct json *json, const char *key, int count, const char *texts, size_t text_bytes)
{
    json_open_array(json, key);
    for (int i = 0; i < count; i++)
        json_add_text(json, i, texts + (size_t)i * text_bytes);
    json_close_array(json);
}

void map_json(FILE *file, const struct plan *plan)
{
    char list[BITMAP_TEXT_BYTES];
    for (int i = 0; i < plan->task_count; i++) {
        const struct plan_task *task = &plan->tasks[i];
        fputs(i == 0 ? "[" : ",\n ", file);
        struct json json = json_open(file);
        json_count(&json, "task", i);
        json_text(&json, "cpus", bitmap_text(&task->cpus, list, sizeof(list)));
        json_text(&json, "mems", bitmap_text(&task->mems, list, sizeof(list)));
        add_texts(&json, "gpus", task->gpu_count, task->gpu_ids[0], sizeof(task->gpu_ids[0]));
        add_texts(&json, "nics", task->nic_count, task->nic_names[0], sizeof(task->nic_names[0]));
        json_count(&json, "threads", task->threads);
        json_text(&json, "reason", task->why);
        json_close(&json);
    }
    fputs("]\n", file);
}
