/* map_svg.c: draw the boxes of a map as an SVG picture, each as large as what is in it. */
#include "tools/hvdinfo/map_svg.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hvdinfo/map_boxes.h"
#include "tools/hvdinfo/map_text.h"

/* Sizes in pixels. */
enum { PAD = 7, TITLE_HEIGHT = 20, MARGIN = 20, LINE = 17, PAGE_MIN = 640, SWATCH = 30 };

#define COLOURS 8

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
    ".line{stroke:#000000;stroke-opacity:.22}.system{fill:#c9d0d7}.barred{fill:none;stroke-dasharray:3 "
    "2}.many{fill:#a9b2bb}\n"
    ".t0{fill:#77b8fc}.t1{fill:#e8953a}.t2{fill:#57a564}.t3{fill:#ea64ae}\n"
    ".t4{fill:#f5e24c}.t5{fill:#9a80f7}.t6{fill:#5ce5da}.t7{fill:#dcc39a}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.ground,.idle{fill:#0d1117}.system{fill:#2f363f}.many{fill:#59636e}\n"
    "}\n"
    "</style>\n";

/* ---- Text ---- */

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

/* Write [text] in lines of [width], broken at blanks, and return their height. Without a file, only measure.
 */
static int paint_lines(FILE *file, const char *text, int x, int y, int width)
{
    int lines = 0, most = width * 100 / styles[PLAIN].letter;
    while (*text != 0) {
        int length = (int)strlen(text) <= most ? (int)strlen(text) : most;
        while (length > 0 && text[length] != 0 && text[length] != ' ')
            length--;
        if (length == 0) /* a word that is longer than a line is not cut */
            length = (int)strcspn(text, " ");
        lines++;
        if (file != NULL)
            paint_text(file, PLAIN, x, y + lines * LINE - 5, "%.*s", length, text);
        text += length + (int)strspn(text + length, " ");
    }
    return lines * LINE;
}

/* ---- Sizes and places ---- */

static int gap_of(const struct box *box)
{
    return box->kind == BOX_CORE ? 3 : box->kind == BOX_ENTRY ? 4 : PAD;
}

/* Place the children of [parent] in rows of at most [width]; devices begin a new one. */
static void flow(struct box *parent, int width)
{
    const struct box *before = parent->child;
    int x = 0, y = 0, row = 0;
    parent->width = parent->height = 0;
    for (struct box *box = parent->child; box != NULL; before = box, box = box->next) {
        if (x > 0 && (x + box->width > width || box->is_device != before->is_device)) {
            x = 0;
            y += row + (box->is_device ? PAD : gap_of(before));
            row = 0;
        }
        box->x = x;
        box->y = y;
        row = box->height > row ? box->height : row;
        if (x + box->width > parent->width)
            parent->width = x + box->width;
        parent->height = y + row;
        x += box->width + gap_of(box);
    }
}

/* How far a box is from being small, and 2.3 times as wide as high. */
static int64_t badness(const struct box *box)
{
    int64_t width = box->width + 1, height = box->height + 1;
    int64_t ratio = width * 1000 / height;
    return (ratio > 2300 ? ratio : 2300 * 2300 / (ratio + 1)) * width * height;
}

/* Give the rows of [parent] the length that looks best, that of some of its children. */
static void measure_rows(struct box *parent)
{
    int64_t best = INT64_MAX;
    int length = 0, chosen = 0;
    const struct box *before = parent->child;
    for (struct box *box = parent->child; box != NULL; before = box, box = box->next) {
        length = (box->is_device == before->is_device ? length : 0) + box->width;
        flow(parent, length);
        if (badness(parent) < best) {
            best = badness(parent);
            chosen = length;
        }
        length += gap_of(box);
    }
    flow(parent, chosen);
}

/* [box]'s children have been measured. */
static void measure_box(struct box *box)
{
    int texts[] = {text_width(HEAD, box->texts[0]), text_width(NAME, box->texts[0]),
                   text_width(SMALL, box->texts[1]), text_width(SMALL, box->texts[2])};
    switch (box->kind) {
    case BOX_PLACE:
        measure_rows(box);
        break;
    case BOX_FRAME:
        measure_rows(box);
        box->width = (texts[0] > box->width ? texts[0] : box->width) + 2 * PAD;
        box->height += TITLE_HEIGHT + PAD;
        break;
    case BOX_CORE:
        box->width = 29;
        box->height = box->core->cpu_count > 1 ? box->core->cpu_count * 14 : 22;
        break;
    case BOX_DEVICE:
        box->width = 48;
        for (int i = 1; i < 4; i++)
            box->width = texts[i] > box->width ? texts[i] : box->width;
        box->width += 4;
        box->height = 46;
        break;
    case BOX_ENTRY:
        box->width = SWATCH + 6 + texts[0] + 6 + text_width(PLAIN, box->texts[1]) + PAD;
        box->height = LINE - 2;
        break;
    }
}

/* Make the frames of a row, from [first] to before [end], equally high, and divide [spare] of width among
 * them.
 */
static void fill_row(struct box *first, const struct box *end, int spare)
{
    int height = 0, count = 0, nth = 0;
    for (const struct box *box = first; box != end; box = box->next) {
        count += box->kind == BOX_FRAME;
        height = box->height > height ? box->height : height;
    }
    for (struct box *box = first; box != end && count > 0; box = box->next) {
        box->x += spare * nth / count;
        if (box->kind != BOX_FRAME)
            continue;
        box->height = height;
        box->width += spare * (nth + 1) / count - spare * nth / count;
        nth++;
    }
}

/* Move the children of [parent] to where it is. */
static void place_children(struct box *parent)
{
    bool framed = parent->kind == BOX_FRAME;
    int inside = parent->width - (framed ? 2 * PAD : 0);
    for (struct box *first = parent->child, *end; first != NULL; first = end) {
        const struct box *last = first;
        for (end = first; end != NULL && end->y == first->y; end = end->next)
            last = end;
        int spare = inside - last->x - last->width;
        fill_row(first, end, spare < inside / 8 ? spare : 0);
    }
    for (struct box *box = parent->child; box != NULL; box = box->next) {
        box->x += parent->x + (framed ? PAD : 0);
        box->y += parent->y + (framed ? TITLE_HEIGHT : 0);
    }
}

/* ---- Paint ---- */

struct area {
    int x, y, width, height;
};

static void open_group(FILE *file, enum map_mark mark, const char *tip)
{
    fprintf(file, "<g%s><title>", mark == MARK_TASKS ? " class=\"on\"" : "");
    put_escaped(file, tip);
    fputs("</title>\n", file);
}

static void paint_rect(FILE *file, struct area area, const char *class, int number)
{
    fprintf(file, "<rect class=\"%s", class);
    if (number >= 0)
        fprintf(file, "%d", number);
    fprintf(file, "\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>\n", area.x, area.y, area.width,
            area.height);
}

/* Paint an area in stripes of its tasks' colours, or in that of its mark. */
static void paint_users(FILE *file, struct area area, const struct users *users)
{
    static const char *const classes[MARKS] = {"", "many", "idle", "system", "barred"};
    if (users->mark != MARK_TASKS)
        paint_rect(file, area, classes[users->mark], -1);
    for (int i = 0; i < users->count && users->mark == MARK_TASKS; i++) {
        int left = area.width * i / users->count, right = area.width * (i + 1) / users->count;
        paint_rect(file, (struct area){area.x + left, area.y, right - left, area.height}, "t",
                   users->tasks[i] % COLOURS);
    }
}

/* Write the numbers of tasks into an area, as large as fits. */
static void paint_numbers(FILE *file, struct area area, const struct users *users)
{
    int x = area.x + area.width / 2, y = area.y + area.height / 2 + 4;
    if (users->count == 0)
        return;
    if (text_width(NAME, users->text) <= area.width)
        paint_text(file, NAME, x, y, "%s", users->text);
    else if (text_width(SMALL, users->text) <= area.width)
        paint_text(file, SMALL, x, y - 1, "%s", users->text);
    else
        paint_text(file, SMALL, x, y - 1, "x%d", users->count);
}

/* Paint the hardware threads of a core: those of the same tasks as one, with a short line between them at
 * both edges. */
static void paint_core(FILE *file, const struct box *box, const struct plan *plan)
{
    const struct machine_core *core = box->core;
    int height = box->height / core->cpu_count;
    for (int first = 0, end; first < core->cpu_count; first = end) {
        struct users users = users_of_cpu(plan, core->cpus[first]);
        char tip[160] = "";
        text_append(tip, sizeof(tip), "core %d, CPU %d", core->os_index, core->cpus[first]);
        for (end = first + 1; end < core->cpu_count; end++) {
            struct users other = users_of_cpu(plan, core->cpus[end]);
            if (memcmp(&other, &users, sizeof(users)) != 0)
                break;
            text_append(tip, sizeof(tip), ",%d", core->cpus[end]);
        }
        text_append(tip, sizeof(tip), "%s%s", users.count > 0 ? ": task " : "", users.text);
        struct area area = {box->x, box->y + first * height, box->width, (end - first) * height};
        open_group(file, users.mark, tip);
        paint_users(file, area, &users);
        for (int y = area.y + height; y < area.y + area.height; y += height)
            fprintf(file, "<path class=\"line\" d=\"M%d %dh5m%d 0h5\"/>\n", area.x, y, area.width - 10);
        paint_numbers(file, area, &users);
        fputs("</g>\n", file);
    }
}

static void paint_frame(FILE *file, const struct box *box)
{
    int room = box->width - text_width(HEAD, box->texts[0]) - 2 * PAD - 4;
    paint_rect(file, (struct area){box->x, box->y, box->width, box->height}, "box", -1);
    paint_text(file, HEAD, box->x + PAD, box->y + 14, "%s", box->texts[0]);
    if (box->texts[1][0] != 0 && text_width(LIST, box->texts[1]) <= room)
        paint_text(file, LIST, box->x + box->width - PAD, box->y + 13, "%s", box->texts[1]);
}

static void paint_device(FILE *file, const struct box *box)
{
    int middle = box->x + box->width / 2;
    open_group(file, box->users.mark, box->tip);
    paint_users(file, (struct area){box->x, box->y, box->width, box->height}, &box->users);
    paint_text(file, NAME, middle, box->y + 15, "%s", box->texts[0]);
    paint_text(file, SMALL, middle, box->y + 27, "%s", box->texts[1]);
    paint_text(file, SMALL, middle, box->y + 40, "%s", box->texts[2]);
    fputs("</g>\n", file);
}

static void paint_entry(FILE *file, const struct box *box)
{
    struct area swatch = {box->x, box->y, SWATCH, box->height};
    int x = box->x + SWATCH + 6, y = box->y + 12;
    open_group(file, box->users.mark, box->tip);
    paint_users(file, swatch, &box->users);
    paint_numbers(file, swatch, &box->users);
    fputs("</g>\n", file);
    paint_text(file, HEAD, x, y, "%s", box->texts[0]);
    paint_text(file, PLAIN, x + text_width(HEAD, box->texts[0]) + 6, y, "%s", box->texts[1]);
}

static void paint_boxes(FILE *file, const struct boxes *boxes)
{
    for (int i = 0; i < boxes->count; i++) {
        struct box *box = &boxes->all[i];
        place_children(box);
        if (box->kind == BOX_FRAME)
            paint_frame(file, box);
        else if (box->kind == BOX_CORE)
            paint_core(file, box, boxes->plan);
        else if (box->kind == BOX_DEVICE)
            paint_device(file, box);
        else if (box->kind == BOX_ENTRY)
            paint_entry(file, box);
    }
}

/* ---- The page ---- */

/* All lines of the legend become as long as the longest. */
static void measure_legend(struct box *legend, int width)
{
    int longest = 0;
    for (const struct box *box = legend->child; box != NULL; box = box->next)
        longest = box->width > longest ? box->width : longest;
    for (struct box *box = legend->child; box != NULL; box = box->next)
        box->width = longest;
    flow(legend, width);
}

static void paint_page(FILE *file, const struct boxes *boxes)
{
    const struct machine *machine = boxes->machine;
    const struct plan *plan = boxes->plan;
    char title[256] = "", summary[256];
    for (int i = boxes->count - 1; i >= 0; i--)
        measure_box(&boxes->all[i]);
    int width = boxes->all->width > PAGE_MIN ? boxes->all->width : PAGE_MIN;
    measure_legend(boxes->legend, width);
    text_append(title, sizeof(title), "%s%s%d task%s", machine->name, machine->name[0] != 0 ? ": " : "",
                plan->task_count, plan->task_count == 1 ? "" : "s");
    machine_summary(machine, summary, sizeof(summary));
    boxes->all->x = boxes->legend->x = MARGIN;
    boxes->all->y = MARGIN + 30 + paint_lines(NULL, summary, 0, 0, width);
    boxes->legend->y = boxes->all->y + boxes->all->height + 14;
    int notes_y = boxes->legend->y + boxes->legend->height + 6;
    int height = notes_y + paint_lines(NULL, plan->note, 0, 0, width) + MARGIN;
    fprintf(file, page, width + 2 * MARGIN, height, width + 2 * MARGIN, height);
    put_escaped(file, title);
    fprintf(file, "</title>\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", sheet,
            width + 2 * MARGIN, height);
    paint_text(file, TITLE, MARGIN, MARGIN + 14, "%s", title);
    paint_lines(file, summary, MARGIN, MARGIN + 20, width);
    paint_boxes(file, boxes);
    paint_lines(file, plan->note, MARGIN, notes_y, width);
    fputs("</svg>\n", file);
}

int map_svg(FILE *file, const struct machine *machine, const struct plan *plan, struct hvd_error *err)
{
    struct boxes boxes;
    int rc = boxes_make(&boxes, machine, plan, err);
    if (rc == HVD_OK)
        paint_page(file, &boxes);
    free(boxes.all);
    return rc;
}
