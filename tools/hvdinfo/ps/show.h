/* show.h: print the ranks that were found. */
#ifndef TOOLS_HVDINFO_PS_SHOW_H
#define TOOLS_HVDINFO_PS_SHOW_H

#include <stdio.h>

#include "tools/hvdinfo/ps/rank.h"

/* The ranks are judged. A line for all that do the same, or with [each] one for each rank. HVD_OK, or
 * HVD_ERR_NO_MEMORY. */
int show_text(FILE *to, const struct ranks *ranks, bool each);

/* An array with an object for each rank. */
void show_json(FILE *to, const struct ranks *ranks);

#endif
