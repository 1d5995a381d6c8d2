/* apps.h: the programs of a job, found in PATH. */
#ifndef TOOLS_HVDRUN_APPS_H
#define TOOLS_HVDRUN_APPS_H

#include "tools/hvdrun/options.h"
#include "tools/hvdrun/reaper.h"

/* Look for the programs, and copy what the reaper needs of them. Complains of one that cannot be found, with
 * the exit status that shells have for it. [apps] was zeroed; free it with apps_free in any case. */
int apps_find(const struct hvdrun_options *options, struct reaper_app apps[HVDRUN_MAX_APPS],
              int *exit_statusp);
void apps_free(struct reaper_app apps[HVDRUN_MAX_APPS]);

#endif
