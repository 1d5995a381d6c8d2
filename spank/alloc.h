/* alloc.h: what the plug-in does in sbatch and salloc. */
#ifndef SPANK_ALLOC_H
#define SPANK_ALLOC_H

#include "spank/site.h"

/* Put the options that the command was given, and the site's, into its environment. salloc's command, or its
 * shell, may run here and not in a step, and begins with it. In a batch script slurmstepd sets the same. */
void alloc_hand_down(const struct site *site);

#endif
