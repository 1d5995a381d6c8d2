/* placement_state.h: what is found out about placement before the tasks are forked, and they inherit. */
#ifndef SPANK_PLACEMENT_STATE_H
#define SPANK_PLACEMENT_STATE_H

#include "spank/placement.h"

/* One process serves one step, and SPANK hands nothing of ours from one call to the next. */
struct placement_state {
    struct placement_options wish;
    int status; /* HVD_OK, or why there is no answer */
    struct hvd_error failure;
    struct planner_result *answer; /* NULL and HVD_OK: nothing is to be bound or told */
    struct machine *machine;       /* of which only the GPUs are known; NULL: there are none */
};
extern struct placement_state placement_state;

/* Of the step, or of the task in which it is called. Never NULL. */
char *const *placement_environment(spank_t spank);

#endif
