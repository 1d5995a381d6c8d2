/* bootstrap.h: from wire-up to a control tree that works: the start of a job, as a list of steps. */
#ifndef BOOTSTRAP_BOOTSTRAP_H
#define BOOTSTRAP_BOOTSTRAP_H

#include "options/config.h"
#include "node/arena.h"
#include "control/control.h"
#include "node/cores.h"
#include "net/endpoint.h"
#include "net/network_env.h"
#include "base/tree_shape.h"
#include "node/windows.h"

/* What a bootstrap rank has. Owned by the caller; leave with bootstrap_close. */
struct bootstrap {
    struct hvd_job job;
    struct peer_table peer_table;
    struct tree_shape shape;
    struct endpoint *endpoint; /* backends connect through it; NULL in a job of one rank */
    struct control *control;
    struct oversubscription oversubscription; /* of this node */
    struct arena arena;                       /* of the node's memory; lives as long as control */
    struct windows windows;                   /* of the node's ranks; none where they have not all met */
    struct nic_env settings; /* what other libraries are to be told of the network; empty on one node */
    int *launcher_ranks; /* [size]: their ranks in the launcher's job, where ours is a part of it; NULL: the
                            same */
};

/* Wire up, as the part of the launcher's job that [start] names, publish addresses, meet the ranks of this
 * node in shared memory, agree who shares memory with whom, try
 * which interfaces join the nodes where there are several, check that all ranks have the same job-wide
 * options and that the process sets of [start] are lists of ranks, equally many on all, connect the leaders'
 * tree, leave wire-up. Collective; ends by config->start_timeout_us. On failure nothing is left behind. */
int bootstrap_open(struct bootstrap *bootstrap, const struct hvd_config *config, const struct hvd_log *log,
                   const struct hvd_start *start, struct hvd_error *err);

/* In a forked child: close the listening socket; control and backends have their own after_fork. */
void bootstrap_after_fork(struct bootstrap *bootstrap);

/* A zeroed struct is fine. */
void bootstrap_close(struct bootstrap *bootstrap);

#endif
