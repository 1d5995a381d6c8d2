/* last_line.h: hvdrun's last line, which says which rank failed first, and all that is known of it. */
#ifndef TOOLS_HVDRUN_LAST_LINE_H
#define TOOLS_HVDRUN_LAST_LINE_H

#include "tools/hvdrun/supervisor.h"

/* Print it, and tell it as an event, unless nothing has failed. Call it before the folder with the ranks'
 * traces is removed. */
void last_line_print(const struct supervisor *supervisor);

#endif
