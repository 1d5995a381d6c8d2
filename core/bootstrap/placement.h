/* placement.h: places this rank if no launcher did: under mpirun, jsrun, or srun without the plug-in. */
#ifndef BOOTSTRAP_PLACEMENT_H
#define BOOTSTRAP_PLACEMENT_H

#include "options/config.h"
#include "base/log.h"
#include "bootstrap/bootstrap.h"

/* Bind all threads of this process to the rank's share of the CPUs that they may run on, and set the
 * environment variables that a launcher would have set. Three kinds of ranks are left alone: a rank that a
 * launcher has placed (PLACED_VARIABLE); a rank whose CPUs differ from those of the other ranks of its
 * node, as something else has bound them, unless "force" is given; and a rank that is alone on its node,
 * if no placement is requested. Every rank of a node computes the same plan by itself. HVD_OK; an error
 * only if placement was requested, else the failure is logged. */
int placement_apply(const struct bootstrap *bootstrap, const struct hvd_config *config,
                    const struct hvd_log *log, struct hvd_error *err);

#endif
