/* map_picture.h: the picture of a map in the making. Only for tools/map_*.c. */
#ifndef TOOLS_HVDINFO_MAP_PICTURE_H
#define TOOLS_HVDINFO_MAP_PICTURE_H

#include <stdio.h>

#include "topo/plan/plan.h"

#define PICTURE_COLOURS 8
#define USE_SHOWN       4 /* tasks whose colours one thing can show */

/* Which tasks use a CPU, a GPU or a network card. */
struct task_use {
    int count, first, last;
    int tasks[USE_SHOWN];
};

/* A GPU or a network card; or several cards of one place that no task uses, drawn as one. */
struct chip {
    int box; /* where it hangs */
    bool is_gpu;
    int index; /* of the machine's GPUs or NICs */
    int more;  /* cards after that one, in the machine's order */
};

/* Cores that share a package, memory or a cache; the first box is the machine. All sizes are in pixels. */
struct box {
    int level;                 /* of picture->levels; -1: the machine */
    int first, cores;          /* of the machine's cores */
    int child, next, children; /* boxes; -1: none */
    int chip, chips;           /* what hangs here, of picture->chips */
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
    enum domain_kind levels[DOMAIN_KINDS]; /* those around others first */
    int box_count;
    struct box *boxes;
    int chip_count;
    struct chip *chips;
    int chip_width;
    int threads;              /* of the core that has most */
    bool lists[DOMAIN_KINDS]; /* there is room for the lists of CPUs in all boxes of that level */
};

/* ---- map_paint.c: what all parts of the picture are painted with ---- */

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

/* What comes before all else in the file, for a picture of that size; and the end. */
void paint_begin(FILE *file, int width, int height, const char *title);
void paint_end(FILE *file);

/* Text with its base line at [x], [y]. */
void paint_text(FILE *file, enum style style, int x, int y, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Cut [text] to a width; what is cut ends in "..". */
void fit_text(char *text, enum style style, int width);
int text_width(const char *text, enum style style);

/* Open a group: what is in it, which a viewer shows where the pointer rests. [use]'s colours decide that of
 * text in it. */
void paint_group(FILE *file, const struct task_use *use, const char *title);
void paint_group_end(FILE *file);

/* An area in the colours of the tasks; of class [idle] where there are none. */
void paint_use(FILE *file, const struct area *area, const struct task_use *use, const char *idle);

/* "7", "0,2", "0-3", or "x24" of many that are not in a row; "" of none. */
const char *use_text(const struct task_use *use, char *text, size_t text_bytes);
bool use_same(const struct task_use *a, const struct task_use *b);

/* ---- map_boxes.c: packages, memory, caches and cores ---- */

/* HVD_OK or HVD_ERR_NO_MEMORY. */
int boxes_make(struct picture *picture, struct hvd_error *err);

/* The smallest box of a package or memory that holds all of [cpus]. */
int boxes_find(const struct picture *picture, const struct bitmap *cpus);

/* Measure all; then they can be put where they belong, the machine's at [x], [y]. */
void boxes_measure(struct picture *picture);
void boxes_place(struct picture *picture, int x, int y);
void boxes_paint(const struct picture *picture);

/* ---- map_chips.c: GPUs and network cards ---- */

/* HVD_OK or HVD_ERR_NO_MEMORY. */
int chips_make(struct picture *picture, struct hvd_error *err);

/* How wide those of [box] are to be, beside cores as wide as [width]; and how high they are in a width. */
int chips_width(const struct picture *picture, const struct box *box, int width);
int chips_height(const struct picture *picture, const struct box *box, int width);
void chips_paint(const struct picture *picture, const struct box *box, const struct area *area);

#endif
