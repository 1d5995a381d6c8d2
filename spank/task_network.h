/* task_network.h: tell programs that never call hvd_init which network joins the nodes of their step, as far
 * as one node knows that by itself. */
#ifndef SPANK_TASK_NETWORK_H
#define SPANK_TASK_NETWORK_H

#include <slurm/spank.h>

#include "site.h"
#include "topo/nic.h"
#include "topo/nic_env.h"

/* Where the step was launched, and from which address of this node that is reached. */
struct task_route {
    struct nic_address launch, source;
};

/* What libraries are to be told on a node that has [nics], which are judged: of those that --hvd-nics names,
 * where [asked]; otherwise of the one in whose subnet the launching node is, by [route] (NULL: unknown), if
 * the node has none that is faster: whoever launched the step reached all of its nodes, and where they have
 * that subnet too they reach each other by it. False where nothing is sure. Pure. */
bool task_network_choose(const struct nic *nics, int count, bool asked, const struct task_route *route,
                         struct nic_env *settings);

/* In the task, as its user, just before the program starts: in a step on several nodes that was given options
 * of hvd, put that into its environment; what is there already is the user's and stays. What an outer step
 * has put there is taken out in any case: it may be of another node. Nothing here fails a task. */
void task_network_init(spank_t spank, const struct site *site);

#endif
