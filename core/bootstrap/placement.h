/* placement.h: place this rank where no launcher did: under mpirun, jsrun, or srun without the plug-in. */
#ifndef BOOTSTRAP_PLACEMENT_H
#define BOOTSTRAP_PLACEMENT_H

#include "options/config.h"
#include "base/log.h"
#include "bootstrap/bootstrap.h"

/* Bind all threads of this process to the rank's share of the CPUs that they may run on, and write what a
 * launcher would have told it into the environment. Left alone is a rank that a launcher has placed
 * (PLACED_VARIABLE); one whose CPUs are not those of the other ranks of its node, for then somebody has bound
 * them, unless "force" is given; and a lone rank where nothing is asked for. The ranks of a node come to the
 * same plan, each by itself. HVD_OK; an error only where placement was asked for: otherwise it is logged. */
int placement_apply(const struct bootstrap *bootstrap, const struct hvd_config *config,
                    const struct hvd_log *log, struct hvd_error *err);

#endif
