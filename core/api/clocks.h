/* clocks.h: compare the clocks of the job's nodes. */
#ifndef API_CLOCKS_H
#define API_CLOCKS_H

#include "api/context.h"

/* If the job writes timelines, tell them the offset between the clock of rank 0 and ours. Collective over all
 * ranks. Does nothing if --hvd-timeline is not set, or on one node. */
int clocks_measure_offset(struct context *context);

#endif
