/* clocks.h: compare the clocks of the job's nodes. */
#ifndef API_CLOCKS_H
#define API_CLOCKS_H

#include "api/context.h"

/* Where the job writes timelines, tell them how far the clock of rank 0 is from ours. Collective over all
 * ranks, and nothing happens where the option is not set, or on one node. */
int clocks_measure_offset(struct context *context);

#endif
