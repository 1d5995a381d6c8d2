/* programs.h: the programs that hvdbench starts: itself, and those of the same installation or build tree. */
#ifndef TOOLS_HVDBENCH_PROGRAMS_H
#define TOOLS_HVDBENCH_PROGRAMS_H

#include <limits.h>

#include "base/status.h"

struct programs {
    char hvdbench[PATH_MAX];
    char hvdrun[PATH_MAX]; /* only the name, to be found in PATH, if it is not next to hvdbench */
};

int programs_find(struct programs *programs, struct hvd_error *err);

/* Returns HVD_ERR_INVALID if this process is a rank: the case [title] starts ranks itself and cannot run in
 * one. */
int programs_check_alone(const char *title, struct hvd_error *err);

#endif
