/* tcp_pairwise.h: alltoalls by the schedule of pairwise.h, over one stream socket to each other member of a
 * team. */
#ifndef BACKEND_TCP_TCP_PAIRWISE_H
#define BACKEND_TCP_TCP_PAIRWISE_H

#include "backend/sched/pairwise.h"
#include "backend/tcp/tcp_watch.h"

struct tcp_pairwise;

/* All members have the same chunk_bytes, see pairwise_init. */
struct tcp_pairwise_params {
    /* both must outlive the connections */
    const struct team *team;
    const struct peer_table *peer_table; /* for the names of ranks in sentences */
    int64_t chunk_bytes;
    int epoll_fd;                  /* as backend_env's */
    const struct tcp_watch *watch; /* of these connections, which it outlives; NULL: none */
};

/* [fds] has one descriptor for each member, -1 for this one: non-blocking, connected, both ends authenticated
 * as ranks of the job. Takes them over, also on failure; the list is copied. */
int tcp_pairwise_open(struct tcp_pairwise **pairwisep, const struct tcp_pairwise_params *params,
                      const int *fds, struct hvd_error *err);

/* As in backend_ops. An error is final, see tcp_failure.h. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a header
 * other than the one due) are about *rankp, a rank of the job. */
int tcp_pairwise_start(struct tcp_pairwise *tcp_pairwise, const struct backend_batch *batch,
                       struct hvd_error *err);
int tcp_pairwise_test(struct tcp_pairwise *tcp_pairwise, bool *movedp, int *rankp, struct hvd_error *err);
int tcp_pairwise_waits_for(const struct tcp_pairwise *tcp_pairwise);
/* NULL is fine for these. */
void tcp_pairwise_after_fork(struct tcp_pairwise *tcp_pairwise);
void tcp_pairwise_close(struct tcp_pairwise *tcp_pairwise);

#endif
