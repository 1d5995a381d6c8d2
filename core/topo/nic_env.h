/* nic_env.h: the variables that tell NCCL, UCX, Gloo and Open MPI which interfaces and RDMA devices of
 * this node to use, how each of them writes that, and which of them a launcher has set. Pure. */
#ifndef TOPO_NIC_ENV_H
#define TOPO_NIC_ENV_H

#include <stdbool.h>

#define NIC_ENV_BYTES 512 /* size of a value: 32 interfaces fit, and usually 32 RDMA devices */

enum nic_env_id {
    NIC_ENV_NCCL_SOCKETS,
    NIC_ENV_NCCL_RDMA,
    NIC_ENV_UCX,
    NIC_ENV_GLOO,
    NIC_ENV_OPEN_MPI,
    NIC_ENV_NCCL_NET,
    NIC_ENV_COUNT
};

extern const char *const nic_env_names[NIC_ENV_COUNT];

/* The variable that says the opposite, such as a list of excluded interfaces. The library fails if a user
 * sets both. NULL: there is none. */
const char *nic_env_opposite(enum nic_env_id id);

/* All variables of one node; "": do not set this one. */
struct nic_env {
    char values[NIC_ENV_COUNT][NIC_ENV_BYTES];
};

/* Names separated by commas. Zeroed: no names. */
struct nic_env_list {
    char text[NIC_ENV_BYTES];
    bool failed; /* a name did not fit, or no list can hold it; the list is then empty */
};

void nic_env_list_add(struct nic_env_list *list, const char *name);

/* Add an RDMA device, as "mlx5_0:1". [port] 0: unknown, taken for the first. */
void nic_env_list_add_rdma(struct nic_env_list *list, const char *verbs, int port);

/* Write the values that make sockets use [interfaces] and RDMA use [cards], if there are any. */
void nic_env_from_lists(const struct nic_env_list *interfaces, const struct nic_env_list *cards,
                        struct nic_env *env);

/* The variables that a launcher has set, and their values: NAME=value separated by ';'. A variable that still
 * has that value counts as the launcher's, not the user's. */
#define NETWORK_SET_VARIABLE "HVD_NETWORK_SET"
#define NETWORK_SET_BYTES    (NIC_ENV_COUNT * (NIC_ENV_BYTES + 32))

void nic_env_format(const struct nic_env *env, char text[NETWORK_SET_BYTES]);

/* Read such a list. Names that are none of ours are skipped. Returns 0, or -1 with [env] unchanged if [text]
 * is not of this form. */
int nic_env_parse(const char *text, struct nic_env *env);

#endif
