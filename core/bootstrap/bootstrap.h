/* bootstrap.h: the start of a job, from wire-up to a working control tree.
 *
 * After bootstrap_open all ranks know their peers, the nodes, the network to use and the job's key, have
 * equal job-wide options, and are connected by the control tree; or bootstrap_open fails with a sentence
 * that says why. Its stages, in order: wireup.h and sub_job.h open wire-up; peer_exchange.h exchanges the
 * peer infos (peer_info.h) of a node; memory_budget.h checks the node's memory; card_exchange.h exchanges
 * the nodes' cards (node_card.h); nic_discovery.h finds the networks that work; start_report.h ends each
 * step in the same way on all ranks. Leaders exchange data by leader_exchange.h. placement.h places ranks
 * that no launcher has placed. */
#ifndef BOOTSTRAP_BOOTSTRAP_H
#define BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/rank_claim.h"
#include "options/config.h"
#include "node/arena.h"
#include "control/control.h"
#include "node/cores.h"
#include "net/endpoint.h"
#include "net/peer_table.h"
#include "net/network_env.h"
#include "base/tree_shape.h"
#include "node/windows.h"

/* The state of a rank after the start. Owned by the caller; free it with bootstrap_close. */
struct bootstrap {
    struct hvd_job job;
    struct peer_table peer_table;
    struct tree_shape shape;
    struct endpoint *endpoint;         /* backends connect through it; NULL in a job of one rank */
    struct endpoint *message_endpoint; /* the same for messages */
    struct control *control;
    struct oversubscription oversubscription; /* of this node */
    struct arena arena;                       /* of the node's memory; lives as long as control */
    struct windows windows;                   /* of the node's ranks; none if not all of them attached */
    int64_t deadline_us;                      /* of the rest of the start */
    bool warns;              /* this rank prints warnings about its options: rank 0 does, and a rank whose
                                warnings differ from those of rank 0 */
    struct nic_env settings; /* the network that other libraries should use; empty on one node */
    struct rank_claim claim; /* of this process on its rank of the launcher's job */
    int *launcher_ranks; /* [size]: the ranks of this sub-job in the launcher's job; NULL if the job is the
                            launcher's */
};

/* Start the job: open wire-up, for the sub-job that [start] names; publish addresses;
 * attach the ranks of this node to shared memory; agree on which ranks share memory; probe which
 * interfaces join the nodes, if there are several nodes; check that all ranks have the same job-wide
 * options, and that the process sets of [start] are lists of ranks, equally many on all ranks; connect the
 * leaders' tree; leave wire-up. Collective; ends by config->start_timeout_us, which an elastic job has anew
 * once enough ranks are there. On failure nothing is left behind. */
int bootstrap_open(struct bootstrap *bootstrap, const struct hvd_config *config, const struct hvd_log *log,
                   const struct hvd_start *start, struct hvd_error *err);

/* A launcher may end the job at its first failure, and shows only the output until then. Ranks whose start
 * failed therefore return one after the other: first rank 0, because most often all have the same error,
 * which is then shown once; then the others, the later the more ranks share the node; last the ranks that
 * know only that another rank is gone, not why. [job] is this rank's place, with size 0 if it is unknown;
 * [node_ranks] is the number of ranks on its node if the launcher does not say. bootstrap_open has waited
 * when it fails. */
void bootstrap_await_turn_to_speak(const struct hvd_job *job, int node_ranks, int status);

/* In a forked child: close the listening socket. Control and the backends have an after_fork of their own. */
void bootstrap_after_fork(struct bootstrap *bootstrap);

/* A zeroed struct is fine. */
void bootstrap_close(struct bootstrap *bootstrap);

#endif
