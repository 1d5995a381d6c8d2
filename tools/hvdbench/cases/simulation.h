/* simulation.h: ranks that are simulated in one process, and agree over the real tree. */
#ifndef TOOLS_HVDBENCH_CASES_SIMULATION_H
#define TOOLS_HVDBENCH_CASES_SIMULATION_H

#include <stdint.h>

#include "base/status.h"

struct simulation;

/* [ranks] of them, [node_ranks] on each node, with [tensors] tensors that all of them have. */
int simulation_open(struct simulation **simulationp, int ranks, int node_ranks, int tensors,
                    struct hvd_error *err);
void simulation_close(struct simulation *simulation); /* NULL is fine */

/* What one round cost. */
struct round_cost {
    int64_t received, sent; /* messages, of the rank with the most */
    int64_t bytes;          /* received by the rank with the most */
    int64_t root_bytes;     /* received by rank 0 */
    int64_t steps;          /* from link to link, until all ranks knew what to do */
    double rank_us;         /* of CPU time, mean of all ranks */
    double root_us;
};

/* All ranks submit their first [count] tensors, and are told what to do. HVD_ERR_SYSTEM where that was not
 * the same, or not all of them once. */
int simulation_round(struct simulation *simulation, int count, struct round_cost *cost,
                     struct hvd_error *err);

int simulation_depth(const struct simulation *simulation); /* links from the root to the farthest rank */
int simulation_radix(const struct simulation *simulation); /* children of the rank with the most */

/* Memory that a rank keeps for the agreement, mean of all. */
int64_t simulation_state_bytes(const struct simulation *simulation);

#endif
