/* find.h: find the ranks of this node that this user may look at. */
#ifndef TOOLS_HVDINFO_PS_FIND_H
#define TOOLS_HVDINFO_PS_FIND_H

#include "base/status.h"
#include "tools/hvdinfo/ps/rank.h"

/* Add those of [job], a Slurm job or step id, or unless [slurm] the id of a process from which they
 * descend; NULL: all. The kernel shows a user his own processes, and root those of all users. Others are left
 * out. */
int find_ranks(const char *job, bool slurm, struct ranks *ranks, struct hvd_error *err);

#endif
