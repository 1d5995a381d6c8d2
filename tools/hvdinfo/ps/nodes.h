/* nodes.h: ask the hvdinfo of each node of a Slurm job for its ranks, or of one node for the calls of a rank,
 * by one srun. */
#ifndef TOOLS_HVDINFO_PS_NODES_H
#define TOOLS_HVDINFO_PS_NODES_H

#include "base/status.h"
#include "tools/hvdinfo/ps/records.h"

/* For so long answers are waited for. */
#define NODES_WAIT_S    10
#define NODES_WAIT_ON_S 5 /* by a node that others wait for, and that has to end its own srun as well */

/* Is it a Slurm job or step, "4711" or "4711.0"? */
bool nodes_is_job(const char *job);

/* What the nodes of a job are asked. */
struct nodes_question {
    const char *job;
    bool each;       /* with all that is known of each rank; otherwise as merge.h says */
    int wait_s;      /* for so long */
    int64_t fan_out; /* of more nodes than this, each [fan_out]th asks those up to the next one */
};

#define NODES_FAN_OUT 64 /* where the user says nothing */

/* Add the ranks of the job on all its nodes. HVD_OK also where some nodes did not answer, as [records] says;
 * otherwise an error, with srun's own words. */
int nodes_ask(const struct nodes_question *question, struct ranks *ranks, struct records *records,
              struct hvd_error *err);

/* Likewise on this node, which is asked for others too, and on those. */
int nodes_ask_on(const struct nodes_question *question, struct ranks *ranks, struct records *records,
                 struct hvd_error *err);

/* As frames_write, of a rank of [job] on its node. */
int nodes_write_frames(FILE *to, const char *job, const struct rank *rank, bool native,
                       struct hvd_error *err);

#endif
