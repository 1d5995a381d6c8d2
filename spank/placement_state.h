/* placement_state.h: the placement that slurmstepd decides before it forks the tasks, which inherit it. */
#ifndef SPANK_PLACEMENT_STATE_H
#define SPANK_PLACEMENT_STATE_H

#include "spank/placement.h"

/* Global, because SPANK passes no data of a plug-in from one call to the next. One slurmstepd serves one
 * step.
 */
struct placement_state {
    struct placement_options options;
    int status; /* HVD_OK, or why there is no answer */
    struct hvd_error failure;
    struct planner_result *answer; /* NULL and HVD_OK: nothing is to be bound or told */
    struct machine *machine;       /* of which only the GPUs are known; NULL: there are none */
};
extern struct placement_state placement_state;

/* Of the step, or of the task in which it is called. Never NULL. */
char *const *placement_environment(spank_t spank);

#endif
