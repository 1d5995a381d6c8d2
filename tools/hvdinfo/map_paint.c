/* map_paint.c: the text and the colours of a map's picture. */
#include "tools/hvdinfo/map_picture.h"

#include <stdarg.h>
#include <string.h>

/* ---- The style sheet ---- */

static const struct {
    const char *class;
    int size, width; /* of a letter in a wide font, in hundredths of the size */
} styles[STYLE_COUNT] = {
    [STYLE_TITLE] = {"title", 19, 67}, [STYLE_HEAD] = {"head", 12, 67},  [STYLE_PLAIN] = {"plain", 12, 60},
    [STYLE_QUIET] = {"quiet", 11, 60}, [STYLE_SMALL] = {"small", 9, 60}, [STYLE_TASK] = {"task", 12, 67},
    [STYLE_NAME] = {"name", 11, 67},   [STYLE_ID] = {"id", 9, 60}};

/* The colours of tasks can be told apart with colour blindness, and dark text is legible on each. Viewers
 * that support dark mode choose a scheme; others show the light one on its own background. */
static const char sheet[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,\"Segoe UI\",\"Helvetica "
    "Neue\",Arial,sans-serif;fill:#1f2328}\n"
    ".title{font-size:19px;font-weight:600}.head{font-size:12px;font-weight:600}.plain{font-size:12px}\n"
    ".quiet{font-size:11px;fill:#59636e}.small{font-size:9px;fill:#59636e;text-anchor:end}\n"
    ".task,.name,.id{text-anchor:middle}.task{font-size:12px;font-weight:600}\n"
    ".name{font-size:11px;font-weight:600}.id{font-size:9px}\n"
    ".on text{fill:#101418}\n"
    ".ground{fill:#ffffff}.box0{fill:#f3f5f7;stroke:#c3cad1}.box1{fill:#ffffff;stroke:#c3cad1}\n"
    ".box2{fill:#f3f5f7;stroke:#dde2e7}\n"
    ".idle{fill:#ffffff;stroke:#b4bcc4}.system{fill:#dde2e7;stroke:#b4bcc4}\n"
    ".barred{fill:none;stroke:#c3cad1;stroke-dasharray:3 2}.many{fill:#c3cad1;stroke:#9aa3ac}\n"
    ".edge{stroke:#000000;stroke-opacity:.3}.split{stroke:#000000;stroke-opacity:.22}\n"
    ".wire{fill:none;stroke:#8c959f;stroke-width:1.5}.joint{fill:#8c959f}\n"
    ".none{fill:none}"
    ".t0{fill:#77b8fc}.t1{fill:#e8953a}.t2{fill:#57a564}.t3{fill:#ea64ae}\n"
    ".t4{fill:#f5e24c}.t5{fill:#9a80f7}.t6{fill:#5ce5da}.t7{fill:#dcc39a}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.quiet,.small{fill:#9198a1}\n"
    ".ground{fill:#0d1117}.box0{fill:#161b22;stroke:#3d444d}.box1{fill:#0d1117;stroke:#3d444d}\n"
    ".box2{fill:#161b22;stroke:#2a313a}\n"
    ".idle{fill:#0d1117;stroke:#59636e}.system{fill:#2a313a;stroke:#59636e}\n"
    ".barred{stroke:#59636e}.many{fill:#484f58;stroke:#6e7681}.wire{stroke:#767f89}.joint{fill:#767f89}\n"
    "}\n"
    "</style>\n";

/* Names come from files and drivers: drop characters that XML does not allow. */
static void put_escaped(FILE *file, const char *text)
{
    for (; *text != 0; text++) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else
            fputc(*text < ' ' || *text > '~' ? '?' : *text, file);
    }
}

void paint_begin(FILE *file, int width, int height, const char *title)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "role=\"img\">\n<title>",
            width, height, width, height);
    put_escaped(file, title);
    fprintf(file, "</title>\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", sheet, width,
            height);
}

void paint_end(FILE *file)
{
    fputs("</svg>\n", file);
}

/* ---- Text ---- */

void paint_text(FILE *file, enum style style, int x, int y, const char *format, ...)
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

int text_width(const char *text, enum style style)
{
    return ((int)strlen(text) * styles[style].size * styles[style].width + 99) / 100;
}

void fit_text(char *text, enum style style, int width)
{
    size_t room = (size_t)(width * 100 / (styles[style].size * styles[style].width));
    if (strlen(text) <= room)
        return;
    text[room] = 0;
    if (room > 2)
        text[room - 1] = text[room - 2] = '.';
}

/* ---- Who uses what ---- */

/* Whether the thing can show the colours of all its tasks. */
static bool shows_colours(const struct task_use *use)
{
    return use->count > 0 && use->count <= USE_SHOWN;
}

void paint_group(FILE *file, const struct task_use *use, const char *title)
{
    fprintf(file, "<g%s><title>", shows_colours(use) ? " class=\"on\"" : "");
    put_escaped(file, title);
    fputs("</title>\n", file);
}

void paint_group_end(FILE *file)
{
    fputs("</g>\n", file);
}

static void paint_rect(FILE *file, const struct area *area, const char *class)
{
    fprintf(file, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", class, area->x, area->y,
            area->width, area->height);
    if (area->radius > 0)
        fprintf(file, " rx=\"%d\"", area->radius);
    fputs("/>\n", file);
}

/* Paint one stripe of an area, with round corners where the area has them. */
static void paint_stripe(FILE *file, const struct area *area, int nth, const struct task_use *use)
{
    int left = area->x + area->width * nth / use->count,
        right = area->x + area->width * (nth + 1) / use->count;
    int bottom = area->y + area->height;
    int begin = nth == 0 ? area->radius : 0, end = nth == use->count - 1 ? area->radius : 0;
    fprintf(file, "<path class=\"t%d\" d=\"M%d %dH%da%d %d 0 0 1 %d %dV%da%d %d 0 0 1 -%d %d",
            use->tasks[nth] % PICTURE_COLOURS, left + begin, area->y, right - end, end, end, end, end,
            bottom - end, end, end, end, end);
    fprintf(file, "H%da%d %d 0 0 1 -%d -%dV%da%d %d 0 0 1 %d -%dz\"/>\n", left + begin, begin, begin, begin,
            begin, area->y + begin, begin, begin, begin, begin);
}

void paint_use(FILE *file, const struct area *area, const struct task_use *use, const char *idle)
{
    char class[16];
    if (!shows_colours(use)) {
        paint_rect(file, area, use->count == 0 ? idle : "many");
        return;
    }
    snprintf(class, sizeof(class), "edge t%d", use->first % PICTURE_COLOURS);
    if (use->count == 1) {
        paint_rect(file, area, class);
        return;
    }
    for (int i = 0; i < use->count; i++)
        paint_stripe(file, area, i, use);
    paint_rect(file, area, "edge none");
}

const char *use_text(const struct task_use *use, char *text, size_t text_bytes)
{
    int used = 0;
    text[0] = 0;
    if (use->count > 2 && use->last - use->first + 1 == use->count)
        snprintf(text, text_bytes, "%d-%d", use->first, use->last);
    else if (use->count > USE_SHOWN)
        snprintf(text, text_bytes, "x%d", use->count);
    else
        for (int i = 0; i < use->count; i++)
            used += snprintf(text + used, text_bytes - (size_t)used, "%s%d", i > 0 ? "," : "", use->tasks[i]);
    return text;
}

bool use_same(const struct task_use *a, const struct task_use *b)
{
    return a->count == b->count && a->first == b->first && a->last == b->last &&
           memcmp(a->tasks, b->tasks, sizeof(a->tasks)) == 0;
}
