/* rank_count.h: how many ranks a job on this machine has. Pure. */
#ifndef TOOLS_HVDRUN_RANK_COUNT_H
#define TOOLS_HVDRUN_RANK_COUNT_H

#include "base/resource_set.h"
#include "base/status.h"

#define HVDRUN_MAX_RANKS 4096

/* As many as [asked] (0: not given), or as resource sets [rs] (NULL: none) have tasks; 1 where neither says
 * it. Both must say the same; where sets do not say how many tasks they have, they share those that are
 * asked for: rs->tasks is set then. HVD_OK, or HVD_ERR_INVALID with *countp and *rs unchanged. */
int rank_count(int asked, struct rs_options *rs, int *countp, struct hvd_error *err);

#endif
