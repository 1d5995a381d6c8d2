/* programs.h: the programs that hvdbench starts: itself and those installed, or built, with it. */
#ifndef TOOLS_HVDBENCH_BARS_PROGRAMS_H
#define TOOLS_HVDBENCH_BARS_PROGRAMS_H

#include <limits.h>

#include "base/status.h"

struct programs {
    char hvdbench[PATH_MAX];
    char hvdrun[PATH_MAX];    /* or only its name, for PATH, where it is not beside hvdbench */
    char two_nodes[PATH_MAX]; /* hvd's two-nodes, and MPI's part of hvdbench as a program of its own: */
    char plain[PATH_MAX];     /* beside hvdbench in a build tree, with the modules where installed */
};

int programs_find(struct programs *programs, struct hvd_error *err);

/* HVD_ERR_INVALID in a process that is a rank: a case that starts ranks itself, [title], cannot be run there.
 */
int programs_check_alone(const char *title, struct hvd_error *err);

#endif
