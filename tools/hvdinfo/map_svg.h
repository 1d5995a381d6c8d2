/* map_svg.h: draw a machine, and what each task of a plan gets of it, as one SVG picture. */
#ifndef TOOLS_HVDINFO_MAP_SVG_H
#define TOOLS_HVDINFO_MAP_SVG_H

#include <stdio.h>

#include "topo/plan/plan.h"

/* The same machine and plan give the same bytes. It needs nothing beside itself: no script, font or style
 * sheet. HVD_OK, HVD_ERR_NO_MEMORY, or HVD_ERR_SYSTEM where [file] cannot be written. */
int map_svg(FILE *file, const struct machine *machine, const struct plan *plan, struct hvd_error *err);

#endif
