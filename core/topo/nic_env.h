/* nic_env.h: the variables that tell NCCL, UCX, Gloo and Open MPI which interfaces and RDMA devices of
 * this node to use, how each of them writes that, and which of them a launcher has set. Pure. */
#ifndef TOPO_NIC_ENV_H
#define TOPO_NIC_ENV_H

#include <stdbool.h>

#define NIC_ENV_BYTES 512 /* of a value; 32 interfaces fit, and 32 RDMA devices as a rule */

enum nic_env_id {
    NIC_ENV_NCCL_SOCKETS,
    NIC_ENV_NCCL_RDMA,
    NIC_ENV_UCX,
    NIC_ENV_GLOO,
    NIC_ENV_OPEN_MPI,
    NIC_ENV_COUNT
};

extern const char *const nic_env_names[NIC_ENV_COUNT];

/* The variable with which a user says the opposite; both at once are an error of the library's. NULL: none.
 */
const char *nic_env_opposite(enum nic_env_id id);

/* All variables of one node; "": do not set. */
struct nic_env {
    char values[NIC_ENV_COUNT][NIC_ENV_BYTES];
};

/* Names with commas between. Zeroed: none. */
struct nic_env_list {
    char text[NIC_ENV_BYTES];
    bool failed; /* one did not fit, or is such that no list can hold it: there are none then */
};

void nic_env_list_add(struct nic_env_list *list, const char *name);

/* An RDMA device, as "mlx5_0:1". [port] 0: unknown, the first. */
void nic_env_list_add_rdma(struct nic_env_list *list, const char *verbs, int port);

/* Write the values by which sockets use [interfaces] and RDMA uses [cards], where there are any. */
void nic_env_from_lists(const struct nic_env_list *interfaces, const struct nic_env_list *cards,
                        struct nic_env *env);

/* The variables that a launcher has set, and their values: NAME=value separated by ';'. A variable that still
 * has that value counts as the launcher's, not the user's. */
#define NETWORK_SET_VARIABLE "HVD_NETWORK_SET"
#define NETWORK_SET_BYTES    (NIC_ENV_COUNT * (NIC_ENV_BYTES + 32))

void nic_env_format(const struct nic_env *env, char text[NETWORK_SET_BYTES]);

/* The same back; names that are none of ours are left out. Returns 0; or -1 and [env] unchanged where
 * [text] is not of this form. */
int nic_env_parse(const char *text, struct nic_env *env);

#endif
