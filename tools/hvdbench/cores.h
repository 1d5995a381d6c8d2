/* cores.h: leave this process, and what it starts, two cores. */
#ifndef TOOLS_HVDBENCH_CORES_H
#define TOOLS_HVDBENCH_CORES_H

#include "base/status.h"

/* Two of those that it may use, which share no core where that is known. Their numbers go into [taken].
 * HVD_ERR_UNSUPPORTED where there is only one. */
int cores_take_two(int taken[2], struct hvd_error *err);

#endif
