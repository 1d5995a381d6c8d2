/* setting.h: the variables that tell NCCL, UCX, Gloo and Open MPI which network to use: what they are to say,
 * and whether what a user has given fits this node. Pure. */
#ifndef CONTROL_SETTING_H
#define CONTROL_SETTING_H

#include <stdbool.h>
#include <stddef.h>

#define SETTING_BYTES     512 /* of a value; NETWORK_MAX_RAILS names fit, and 32 RDMA devices as a rule */
#define SETTING_WHY_BYTES 200

enum setting_id {
    SETTING_NCCL_SOCKETS,
    SETTING_NCCL_RDMA,
    SETTING_UCX,
    SETTING_GLOO,
    SETTING_OPEN_MPI,
    SETTING_COUNT
};

extern const char *const setting_variables[SETTING_COUNT];

struct network_node;
struct network_plan;
struct network_choice;

/* All variables of one node; "": to be left alone. */
struct settings {
    char values[SETTING_COUNT][SETTING_BYTES];
};

/* What the choice means on [node]: the interfaces of its rails for sockets; for RDMA all cards that were
 * kept, if every node has some. A list that does not fit is left out. */
void settings_of_choice(const struct network_node *nodes, const struct network_plan *plan,
                        const struct network_choice *choice, int node, struct settings *settings);

/* What is wrong on [node] with what its user gave, where that is to be told, into [why]. */
bool setting_is_wrong(enum setting_id id, const struct network_node *nodes, const struct network_plan *plan,
                      const struct network_choice *choice, int node, char why[SETTING_WHY_BYTES]);

#endif
