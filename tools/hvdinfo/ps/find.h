/* find.h: find the ranks of this node that this user may look at. */
#ifndef TOOLS_HVDINFO_PS_FIND_H
#define TOOLS_HVDINFO_PS_FIND_H

#include "base/status.h"
#include "tools/hvdinfo/ps/rank.h"
#include "tools/hvdinfo/ps/sockets.h"

/* For who looks many times: which processes may be ranks. Others are not looked at for FIND_MEMORY_US, so one
 * that becomes a rank is found that much later. A zeroed one is empty. */
#define FIND_MEMORY_US INT64_C(1000000)
struct find_memory {
    int64_t looked_us; /* at all processes */
    pid_t *pids;       /* NULL: not yet */
    int count;
    struct stuck_sockets stuck;
};
void find_memory_free(struct find_memory *memory);

/* Add those of [job], a Slurm job or step id, or unless [slurm] the id of a process from which they
 * descend; NULL: all. The kernel shows a user his own processes, and root those of all users. Others are left
 * out. */
int find_ranks(const char *job, bool slurm, struct find_memory *memory, struct ranks *ranks,
               struct hvd_error *err);

#endif
