/* tcp_pairwise.h: alltoalls over stream sockets, one to each other member of a team. */
#ifndef BACKEND_TCP_TCP_PAIRWISE_H
#define BACKEND_TCP_TCP_PAIRWISE_H

#include "backend/sched/pairwise.h"

struct tcp_pairwise;

/* Where this rank sits in the team. All members have the same chunk_bytes, see pairwise_init. */
struct tcp_pairwise_params {
    const struct team *team;             /* borrowed */
    const struct peer_table *peer_table; /* borrowed; for names */
    int64_t chunk_bytes;
    int epoll_fd; /* as backend_env's */
};

/* [fds], one for each member and -1 for this one, are non-blocking, connected, with both ends proven to
 * belong to the job. Takes them, also on failure; the list is copied. */
int tcp_pairwise_open(struct tcp_pairwise **meshp, const struct tcp_pairwise_params *params, const int *fds,
                      struct hvd_error *err);

/* As in backend_ops. An error is final: the tcp_pairwise repeats it from then on, since nobody knows where in
 * their streams of bytes the members are. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a header that is not the
 * one due) are about *rankp, a rank of the job. */
int tcp_pairwise_start(struct tcp_pairwise *tcp_pairwise, const struct backend_batch *batch,
                       struct hvd_error *err);
int tcp_pairwise_test(struct tcp_pairwise *tcp_pairwise, bool *movedp, int *rankp, struct hvd_error *err);
/* NULL is fine for these. */
void tcp_pairwise_after_fork(struct tcp_pairwise *tcp_pairwise);
void tcp_pairwise_close(struct tcp_pairwise *tcp_pairwise);

#endif
