/* hier_team.h: a team on two levels: memory that the members of a node share, and between nodes a ring for
 * each slice of a batch, in another backend, the carrier. */
#ifndef BACKEND_HIER_HIER_TEAM_H
#define BACKEND_HIER_HIER_TEAM_H

#include "backend/hier/hier_alltoall.h"

struct hier_team;

/* What a team is made of. Borrowed for as long as it lives, but for the numbers, the members (their list is
 * borrowed) and the table. A node is whatever [node_of_rank] takes for one. */
struct hier_team_params {
    const struct team *members; /* spread as team_spans_nodes has it */
    const int *node_of_rank;    /* by rank of the job */
    const struct arena *arena;  /* that the members of this node share */
    int claim;                  /* as hier_params's */
    bool alltoalls;             /* it carries them too; as many members are on each node */
    int alltoall_claim;
    const struct backend_ops *carrier; /* of it add_team, remove_team, start and test are called */
    void *carrier_state;               /* NULL: hier_team_set_carrier tells */
    int64_t join_us;                   /* what the first batch may take to meet the members of other nodes */
};

/* As arena_acquire; HVD_ERR_NO_MEMORY. The members of other nodes are met at the first batch: only then is it
 * known that there was room for the team on all nodes. */
int hier_team_create(struct hier_team **teamp, const struct hier_team_params *parts, int64_t deadline_us,
                     struct hvd_error *err);
/* The carrier's state, before the first batch. */
void hier_team_set_carrier(struct hier_team *team, void *carrier_state);
/* A running batch is published up. NULL is fine. */
void hier_team_destroy(struct hier_team *team);

/* As hier_node_set_chunk and hier_alltoall_set_chunk. */
void hier_team_set_chunk(struct hier_team *team, int64_t bytes);

/* As in backend_ops. */
bool hier_team_connects(const struct hier_team *team, const struct backend_batch *batch);
int hier_team_start(struct hier_team *team, const struct backend_batch *batch, struct hvd_error *err);
int hier_team_test(struct hier_team *team, bool *movedp, int *rankp, struct hvd_error *err);

#endif
