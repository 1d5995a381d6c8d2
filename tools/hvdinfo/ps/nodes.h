/* nodes.h: ask the hvdinfo of each node of a Slurm job for its ranks, or of one node for the calls of a rank,
 * by one srun. */
#ifndef TOOLS_HVDINFO_PS_NODES_H
#define TOOLS_HVDINFO_PS_NODES_H

#include "base/status.h"
#include "tools/hvdinfo/ps/records.h"

/* For so long answers are waited for. */
#define NODES_WAIT_S 10

/* Is it a Slurm job or step, "4711" or "4711.0"? */
bool nodes_is_job(const char *job);

/* Add the ranks of [job] on all its nodes. [each]: with all that is known of each; otherwise with what the
 * text of hvdinfo ps needs of those in the same state, as merge.h says. HVD_OK also where some nodes did not
 * answer, as [records] says; otherwise an error, with srun's own words. */
int nodes_ask(const char *job, bool each, struct ranks *ranks, struct records *records,
              struct hvd_error *err);

/* As frames_write, of a rank of [job] on its node. */
int nodes_write_frames(FILE *to, const char *job, const struct rank *rank, bool native,
                       struct hvd_error *err);

#endif
