/* map_boxes.h: what a map's picture shows, as boxes inside boxes. */
#ifndef TOOLS_HVDINFO_MAP_BOXES_H
#define TOOLS_HVDINFO_MAP_BOXES_H

#include "topo/plan/plan.h"

#define USERS_SHOWN 4

enum box_kind {
    BOX_PLACE,  /* the machine, and the legend; has no frame */
    BOX_FRAME,  /* a package, memory, a cache or a PCI bridge; texts: its name, and its CPUs */
    BOX_CORE,   /* a core */
    BOX_DEVICE, /* a GPU or a network card; texts: its name, PCI id and tasks */
    BOX_ENTRY   /* a line of the legend; texts: "task 3" or "", and the rest of the line */
};

/* How a thing is painted: in the colours of its tasks, or like all that are idle, and so on. */
enum map_mark { MARK_TASKS, MARK_MANY, MARK_IDLE, MARK_SYSTEM, MARK_BARRED, MARKS };

/* The tasks that use a thing. */
struct users {
    enum map_mark mark;
    int count, first, last;
    int tasks[USERS_SHOWN];
    char text[48]; /* "7", "0,2", "0-3", or "x24" if they are many and not consecutive; "": none */
};

struct box {
    enum box_kind kind;
    bool is_device;                  /* a device, or a frame of devices */
    struct box *child, *last, *next; /* its first and last child, and its parent's next child */
    int x, y, width, height;         /* set by map_svg.c */
    const struct machine_core *core; /* of a BOX_CORE */
    struct bitmap cpus; /* of a package or memory; a device belongs to the smallest with its own */
    struct users users; /* of a BOX_DEVICE or BOX_ENTRY */
    char texts[3][96];
    char tip[400]; /* of a BOX_DEVICE or BOX_ENTRY: shown by viewers when it is pointed at */
};

struct boxes {
    const struct machine *machine;
    const struct plan *plan;
    int count;
    struct box *all; /* parents before their children, the machine first */
    struct box *legend;
};

/* Make the boxes, without sizes. Returns HVD_OK or HVD_ERR_NO_MEMORY. Free boxes->all in both cases. */
int boxes_make(struct boxes *boxes, const struct machine *machine, const struct plan *plan,
               struct hvd_error *err);

struct users users_of_cpu(const struct plan *plan, int cpu);

#endif
