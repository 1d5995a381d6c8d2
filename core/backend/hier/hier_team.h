/* hier_team.h: a team on two levels: shared memory inside each node, and between nodes one ring for each
 * slice of a batch, which another backend runs, the carrier.
 *
 * hier/ promises the rest of backend/ the rows hier-tcp and hier-mpi of the table, for teams on several nodes
 * with several members on some of them. Each element is reduced in the order of ranks, as in every backend.
 * The stages: hier.c has the calls of the two backends; hier_team.c runs a batch inside the node and between
 * nodes at the same time; hier_split.c cuts it into slices; hier_node.c moves the data inside the node, and
 * hier_alltoall.c does so in an alltoall. */
#ifndef BACKEND_HIER_HIER_TEAM_H
#define BACKEND_HIER_HIER_TEAM_H

#include "backend/hier/hier_alltoall.h"

struct hier_team;

/* What a team is made of. What the pointers point to must outlive the team, with two exceptions: [members] is
 * copied, though not its list of ranks, and [node_of_rank] is read by hier_team_create only. Ranks with the
 * same number in [node_of_rank] are a node. */
struct hier_team_params {
    const struct team *members; /* team_spans_nodes accepts them */
    const int *node_of_rank;    /* by rank in the job */
    const struct arena *arena;  /* that the members of this node share */
    int claim;                  /* as in hier_params */
    bool alltoalls;             /* the team carries these too; each node has equally many members */
    int alltoall_claim;
    const struct backend_ops *carrier; /* only its calls from add_team to waits_for are made */
    void *carrier_state;               /* NULL: hier_team_set_carrier sets it later */
    int64_t join_us; /* how long the first batch may take to join the members on other nodes */
};

/* Fails as arena_acquire does, or with HVD_ERR_NO_MEMORY. The members on other nodes are joined at the first
 * batch, because only then is it certain that the team found room on all nodes. */
int hier_team_create(struct hier_team **teamp, const struct hier_team_params *parts, int64_t deadline_us,
                     struct hvd_error *err);
/* Set the carrier's state. Must be done before the first batch. */
void hier_team_set_carrier(struct hier_team *team, void *carrier_state);
/* A running batch is given up. NULL is fine. */
void hier_team_destroy(struct hier_team *team);

/* For tests: as hier_node_set_chunk and hier_alltoall_set_chunk. */
void hier_team_set_chunk(struct hier_team *team, int64_t bytes);

/* As in backend_ops. */
int hier_team_start(struct hier_team *team, const struct backend_batch *batch, struct hvd_error *err);
int hier_team_test(struct hier_team *team, bool *movedp, int *rankp, struct hvd_error *err);
int hier_team_waits_for(const struct hier_team *team);

#endif
