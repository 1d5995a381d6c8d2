/* placement_state.h: the placement that slurmstepd decides before it forks the tasks, which inherit it. */
#ifndef SPANK_PLACEMENT_STATE_H
#define SPANK_PLACEMENT_STATE_H

#include "spank/placement.h"

/* Global, because SPANK passes no data of a plug-in from one call to the next. One slurmstepd serves one
 * step. */
struct placement_state {
    struct placement_options options;
    int status; /* HVD_OK, or why there is no plan */
    struct hvd_error failure;
    struct planner_result *answer;   /* NULL with HVD_OK: there is nothing to bind or print */
    char (*seen_gpus)[PCI_ID_BYTES]; /* shared with the tasks, which write them, each its first; NULL: none */
    struct machine *machine;         /* has only the node's GPUs; NULL: there are none */
};
extern struct placement_state placement_state;

#endif
