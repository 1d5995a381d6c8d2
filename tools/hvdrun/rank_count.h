/* rank_count.h: how many ranks a job on this machine has. Pure function. */
#ifndef TOOLS_HVDRUN_RANK_COUNT_H
#define TOOLS_HVDRUN_RANK_COUNT_H

#include "options/resource_set.h"
#include "base/status.h"

#define HVDRUN_MAX_RANKS 4096

/* The number of ranks is [asked] (0: not given), or the number of tasks of the resource sets [rs] (NULL:
 * none), or 1 if neither is given. If both are given they must agree. If the sets do not say how many tasks
 * each has, the ranks are divided among them and rs->tasks is set. Returns HVD_OK, or HVD_ERR_INVALID with
 * *countp and *rs unchanged. */
int rank_count(int asked, struct rs_options *rs, int *countp, struct hvd_error *err);

#endif
