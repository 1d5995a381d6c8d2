/* foreign.h: run the launcher that hvdrun becomes, and wait for its end. */
#ifndef TOOLS_HVDRUN_LAUNCHER_FOREIGN_H
#define TOOLS_HVDRUN_LAUNCHER_FOREIGN_H

#include "tools/hvdrun/launcher/line.h"
#include "tools/hvdrun/restarts.h"

/* Run [line] with a new secret for the job. A terminal's signals reach the launcher directly, as it is in
 * hvdrun's process group; others are passed on. When hvdrun is killed, the launcher gets SIGTERM.
 * [options] says what else is needed: a folder for the ranks' output, and HVD_RESTART. */
void foreign_run(struct launch_line *line, const struct hvdrun_options *options,
                 const struct job_signals *signals, int restart, struct attempt *attempt);

#endif
