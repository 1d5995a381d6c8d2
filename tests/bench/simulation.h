/* simulation.h: simulate the ranks of a job in one process; they negotiate over the real tree. */
#ifndef TESTS_BENCH_SIMULATION_H
#define TESTS_BENCH_SIMULATION_H

#include <stdint.h>

#include "base/status.h"

struct simulation;

/* Simulate [ranks] ranks, [node_ranks] on each node. All ranks have the same [tensors] tensors. */
int simulation_open(struct simulation **simulationp, int ranks, int node_ranks, int tensors,
                    struct hvd_error *err);
void simulation_close(struct simulation *simulation); /* NULL is fine */

/* What one round cost. */
struct round_cost {
    int64_t received, sent; /* messages, of the rank that has most */
    int64_t bytes;          /* received by the rank that receives most */
    int64_t root_bytes;     /* received by rank 0 */
    int64_t steps;          /* message hops until all ranks knew the decisions */
    double rank_us;         /* CPU time, mean over all ranks */
    double root_us;
};

/* All ranks submit their first [count] tensors and negotiate. Returns HVD_ERR_SYSTEM unless every rank got
 * the same decisions, each tensor exactly once. */
int simulation_round(struct simulation *simulation, int count, struct round_cost *cost,
                     struct hvd_error *err);

int simulation_depth(const struct simulation *simulation); /* hops from the root to the farthest rank */
int simulation_radix(const struct simulation *simulation); /* children of the rank that has most */

/* Memory that a rank keeps for the negotiation, mean over all ranks. */
int64_t simulation_state_bytes(const struct simulation *simulation);

#endif
