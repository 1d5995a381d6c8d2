/* map_svg.h: draw a machine and the placement of tasks on it as an SVG picture. */
#ifndef TOOLS_HVDINFO_MAP_SVG_H
#define TOOLS_HVDINFO_MAP_SVG_H

#include <stdio.h>

#include "topo/plan/plan.h"

/* The same machine and plan give the same bytes. The picture is self-contained: no script, font or external
 * style sheet. Returns HVD_OK, HVD_ERR_NO_MEMORY, or HVD_ERR_SYSTEM if [file] cannot be written. */
int map_svg(FILE *file, const struct machine *machine, const struct plan *plan, struct hvd_error *err);

#endif
