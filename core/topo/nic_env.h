/* nic_env.h: the variables that tell NCCL, UCX, Gloo and Open MPI which interfaces and RDMA devices of
 * this node to use, how each of them writes that, and which of them a launcher has set. Pure. */
#ifndef TOPO_NIC_ENV_H
#define TOPO_NIC_ENV_H

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

/* Which of them a launcher has set, and to what: NAME=value with ';' between. What still has that value is
 * the launcher's word, not the user's. */
#define NETWORK_SET_VARIABLE "HVD_NETWORK_SET"
#define NETWORK_SET_BYTES    (SETTING_COUNT * (SETTING_BYTES + 32))

void settings_write(const struct settings *settings, char text[NETWORK_SET_BYTES]);

/* The same back; names that are none of ours are left out. Returns 0; or -1 and [settings] unchanged where
 * [text] is not of this form. */
int settings_read(const char *text, struct settings *settings);

#endif
