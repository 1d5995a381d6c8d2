/* node_ranks.h: which ranks of a job are on which node, by the identities that they put before the first
 * fence.
 */
#ifndef PMIX_SHIM_NODE_RANKS_H
#define PMIX_SHIM_NODE_RANKS_H

#include "pmix_shim/env_fence.h"
#include "pmix_shim/store.h"

struct node_ranks {
    int size;
    int *ranks;  /* [size]: node by node, ascending in each */
    int *begins; /* [size]: by rank, where those of its node begin in [ranks] */
};

/* Put the identity of this process's node. */
int node_ranks_put(struct store *store, struct hvd_error *err);

/* Read what all [size] ranks have put. A zeroed [node_ranks] is fine. */
int node_ranks_read(struct node_ranks *node_ranks, const struct store *store, int size,
                    struct hvd_error *err);
void node_ranks_free(struct node_ranks *node_ranks);

/* The ranks of the node of [rank], in memory that the caller frees; none where nothing was read. */
int node_ranks_copy(const struct node_ranks *node_ranks, int rank, int **ranksp, int *countp,
                    struct hvd_error *err);

/* The same for the wire, and from there: HVD_ERR_INVALID unless they ascend, are of [job], and one is this
 * rank. */
int node_ranks_encode(const struct node_ranks *node_ranks, int rank, unsigned char **bytesp, size_t *lengthp,
                      struct hvd_error *err);
int node_ranks_decode(const unsigned char *bytes, size_t length, const struct env_job *job, int **ranksp,
                      int *countp, struct hvd_error *err);

#endif
