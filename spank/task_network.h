/* task_network.h: set the network variables of NCCL, UCX, Gloo and Open MPI for programs that never call
 * hvd_init, as far as one node alone can know which network joins the nodes of the step. */
#ifndef SPANK_TASK_NETWORK_H
#define SPANK_TASK_NETWORK_H

#include <slurm/spank.h>

#include "spank/site.h"
#include "topo/nic.h"
#include "topo/nic_env.h"

/* The address from which the step was launched, and this node's address on the route to it. */
struct task_route {
    struct nic_address launch, source;
};

/* For tests: choose the variables for a node with [nics], on which nics_select has run. If [requested], they
 * name the interfaces of --hvd-nics. Otherwise they name the interface whose subnet the launching node is in,
 * by [route] (NULL: unknown), unless the node has a faster one: the launching node reached all nodes of the
 * step, so nodes with an address in that subnet reach each other through it. Returns false if nothing is
 * certain. Pure. */
bool task_network_choose(const struct nic *nics, int count, bool requested, const struct task_route *route,
                         struct nic_env *env);

/* In the task, running as the user, just before the program starts: set those variables if the step has
 * several nodes and was given options of hvd. A variable that is already set is the user's and stays. One
 * that an outer step set is always removed, because it may belong to another node. Never fails the task. */
void task_network_init(spank_t spank, const struct site *site);

#endif
