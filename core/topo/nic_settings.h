/* nic_settings.h: the variables that tell NCCL, UCX, Gloo and Open MPI which interfaces and RDMA devices of
 * this node to use, and how each of them writes that. Pure. */
#ifndef TOPO_NIC_SETTINGS_H
#define TOPO_NIC_SETTINGS_H

#include <stdbool.h>

#define SETTING_BYTES 512 /* of a value; 32 interfaces fit, and 32 RDMA devices as a rule */

enum setting_id {
    SETTING_NCCL_SOCKETS,
    SETTING_NCCL_RDMA,
    SETTING_UCX,
    SETTING_GLOO,
    SETTING_OPEN_MPI,
    SETTING_COUNT
};

extern const char *const setting_variables[SETTING_COUNT];

/* The variable with which a user says the opposite; both at once are an error of the library's. NULL: none.
 */
const char *setting_opposite(enum setting_id id);

/* All variables of one node; "": to be left alone. */
struct settings {
    char values[SETTING_COUNT][SETTING_BYTES];
};

/* Names with commas between. Zeroed: none. */
struct setting_list {
    char text[SETTING_BYTES];
    bool failed; /* one did not fit, or is such that no list can hold it: there are none then */
};

void setting_list_add(struct setting_list *list, const char *name);

/* An RDMA device, as "mlx5_0:1". [port] 0: unknown, the first. */
void setting_list_add_card(struct setting_list *list, const char *verbs, int port);

/* What the variables say where sockets are to use [interfaces], and RDMA [cards] where there are some. */
void settings_of_lists(const struct setting_list *interfaces, const struct setting_list *cards,
                       struct settings *settings);

#endif
