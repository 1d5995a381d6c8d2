/* show.h: print the ranks that were found. */
#ifndef TOOLS_HVDINFO_PS_SHOW_H
#define TOOLS_HVDINFO_PS_SHOW_H

#include <stdio.h>

#include "tools/hvdinfo/ps/rank.h"

/* Longest in its state first; waits most first. */
enum show_order { SHOW_BY_RANK, SHOW_BY_TIME, SHOW_BY_WAITING, SHOW_ORDERS };

struct show_view {
    bool each;             /* a line for each rank; otherwise one for all that do the same */
    enum show_order order; /* of the lines of each rank */
    int selected;          /* which of the ranks is shown with its last operations; -1: none */
};

/* The ranks are judged. HVD_OK, or HVD_ERR_NO_MEMORY. */
int show_text(FILE *to, const struct ranks *ranks, const struct show_view *view);

/* The line of one of them. */
void show_rank(FILE *to, const struct rank *rank, int64_t now_us);

/* An object with what ps --json of hvdinfo(1) says. HVD_OK, or HVD_ERR_NO_MEMORY. */
int show_json(FILE *to, const struct ranks *ranks);

#endif
