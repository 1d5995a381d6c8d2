/* network_env.h: the variables that tell NCCL, UCX, Gloo and Open MPI which network to use: what hvd sets
 * them to for a choice of rails, and whether what a user has set can work on this node. Pure. */
#ifndef NET_NETWORK_ENV_H
#define NET_NETWORK_ENV_H

#include <stdbool.h>

#include "topo/nic_env.h"

#define NETWORK_ENV_WHY_BYTES 200

struct network_node;
struct network_plan;
struct network_choice;

/* The settings that follow from the choice on [node]: for sockets, the interfaces of the chosen rails; for
 * RDMA, all RDMA devices that were kept, if every node has some; otherwise NCCL uses sockets, although it may
 * find such devices. A list that cannot be written is left out. */
void network_env_of_choice(const struct network_node *nodes, const struct network_plan *plan,
                           const struct network_choice *choice, int node, struct nic_env *settings);

/* Can what the user of [node] set not work there? If so, and if it should be reported, the reason goes
 * into [why]. */
bool network_env_is_wrong(enum nic_env_id id, const struct network_node *nodes,
                          const struct network_plan *plan, const struct network_choice *choice, int node,
                          char why[NETWORK_ENV_WHY_BYTES]);

#endif
