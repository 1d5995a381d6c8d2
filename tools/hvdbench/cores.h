/* cores.h: restrict this process and its children to two cores. */
#ifndef TOOLS_HVDBENCH_CORES_H
#define TOOLS_HVDBENCH_CORES_H

#include "base/status.h"

/* Choose two of the CPUs that this process may use, on different cores if the topology is known, and store
 * them in [taken]. Returns HVD_ERR_UNSUPPORTED if there is only one. */
int cores_take_two(int taken[2], struct hvd_error *err);

#endif
