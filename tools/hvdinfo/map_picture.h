/* map_picture.h: the layout of a map's picture, shared by map_boxes.c (cores), map_chips.c (devices),
 * map_paint.c (text and colours) and map_svg.c (the page). */
#ifndef TOOLS_HVDINFO_MAP_PICTURE_H
#define TOOLS_HVDINFO_MAP_PICTURE_H

#include <stdio.h>

#include "topo/plan/plan.h"

#define PICTURE_COLOURS 8
#define USE_SHOWN       4 /* most tasks whose colours one thing shows */

/* Which tasks use a CPU, a GPU or a network card. */
struct task_use {
    int count, first, last;
    int tasks[USE_SHOWN];
};

/* A GPU or a NIC, or several unused cards of one place that are drawn as one. */
struct chip {
    int box; /* the box it is attached to */
    bool is_gpu;
    int index; /* of the machine's GPUs or NICs */
    int more;  /* further cards that it stands for, in the machine's order */
};

/* Cores that share a package, memory or a cache; the first box is the machine. All sizes are in pixels. */
struct box {
    int level;                 /* index into picture->levels; -1: the machine */
    int first, cores;          /* of the machine's cores */
    int child, next, children; /* boxes; -1: none */
    int chip, chips;           /* the devices attached here, of picture->chips */
    int columns;               /* of children or cores */
    int x, y, width, height;
    int grid_height; /* of the children or cores alone */
};

struct picture {
    FILE *file;
    const struct machine *machine;
    const struct plan *plan;
    struct task_use *cpus, *gpus, *nics;
    int level_count;
    enum domain_kind levels[DOMAIN_KINDS]; /* outermost first */
    int box_count;
    struct box *boxes;
    int chip_count;
    struct chip *chips;
    int chip_width;
    int threads;              /* hardware threads of the core that has most */
    bool lists[DOMAIN_KINDS]; /* all boxes of that level have space for their lists of CPUs */
};

/* ---- map_paint.c: text and colours ---- */

enum style {
    STYLE_TITLE,
    STYLE_HEAD,
    STYLE_PLAIN,
    STYLE_QUIET,
    STYLE_SMALL, /* ends at its place; the rest of what follows is centred there */
    STYLE_TASK,
    STYLE_NAME,
    STYLE_ID,
    STYLE_COUNT
};

struct area {
    int x, y, width, height, radius;
};

/* Write the head of the file for a picture of that size, and its end. */
void paint_begin(FILE *file, int width, int height, const char *title);
void paint_end(FILE *file);

/* Write text with its base line at [x], [y]. */
void paint_text(FILE *file, enum style style, int x, int y, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Shorten [text] to a width; a shortened text ends in "..". */
void fit_text(char *text, enum style style, int width);
int text_width(const char *text, enum style style);

/* Open a group with a title that a viewer shows as a tooltip. The colours of [use] decide the colour of its
 * text. */
void paint_group(FILE *file, const struct task_use *use, const char *title);
void paint_group_end(FILE *file);

/* Paint an area in the colours of its tasks, or in class [idle] if it has none. */
void paint_use(FILE *file, const struct area *area, const struct task_use *use, const char *idle);

/* The tasks as "7", "0,2", "0-3", or "x24" if they are many and not consecutive; "" for none. */
const char *use_text(const struct task_use *use, char *text, size_t text_bytes);
bool use_same(const struct task_use *a, const struct task_use *b);

/* ---- map_boxes.c: packages, memory, caches and cores ---- */

/* HVD_OK or HVD_ERR_NO_MEMORY. */
int boxes_make(struct picture *picture, struct hvd_error *err);

/* The smallest package or NUMA node whose box contains all of [cpus]. */
int boxes_find(const struct picture *picture, const struct bitmap *cpus);

/* Measure all boxes; then place them, the machine's at [x], [y]. */
void boxes_measure(struct picture *picture);
void boxes_place(struct picture *picture, int x, int y);
void boxes_paint(const struct picture *picture);

/* ---- map_chips.c: GPUs and network cards ---- */

/* HVD_OK or HVD_ERR_NO_MEMORY. */
int chips_make(struct picture *picture, struct hvd_error *err);

/* The width of the chips of [box], given that its cores are [width] wide; and their height at a width. */
int chips_width(const struct picture *picture, const struct box *box, int width);
int chips_height(const struct picture *picture, const struct box *box, int width);
void chips_paint(const struct picture *picture, const struct box *box, const struct area *area);

#endif
