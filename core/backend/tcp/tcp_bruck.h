/* tcp_bruck.h: small batches by the schedule of bruck.h, over stream sockets: each member of a team sends to
 * those 1, 2, 4, 8 and so on after it on the ring. */
#ifndef BACKEND_TCP_TCP_BRUCK_H
#define BACKEND_TCP_TCP_BRUCK_H

#include "backend/sched/bruck.h"
#include "backend/tcp/tcp_watch.h"

struct tcp_bruck;

/* Our end of a connection: non-blocking, connected, both ends authenticated as ranks of the job. */
struct tcp_bruck_peer {
    int rank; /* of the job, at the other end */
    int fd;
    char name[288]; /* that rank in sentences: "rank 3 (n2)" */
};

/* This rank's place in the team and its connections: in step k of bruck_step_count it sends to to[k] and
 * receives from from[k]. The lists are copied. */
struct tcp_bruck_params {
    int rank, size;
    bool shares_nodes; /* see bruck_init */
    const struct tcp_bruck_peer *to, *from;
    int epoll_fd;                  /* as backend_env's */
    const struct tcp_watch *watch; /* of these connections, which it outlives; NULL: none */
};

/* Takes over the descriptors, also on failure. */
int tcp_bruck_open(struct tcp_bruck **bruckp, const struct tcp_bruck_params *params, struct hvd_error *err);

/* As in backend_ops, for batches that bruck_supports. An error is final, see tcp_failure.h. HVD_ERR_RANK_LOST
 * and HVD_ERR_MISMATCH (a header other than the one due) are about *rankp, a rank of the job. */
int tcp_bruck_start(struct tcp_bruck *tcp_bruck, const struct backend_batch *batch, struct hvd_error *err);
int tcp_bruck_test(struct tcp_bruck *tcp_bruck, bool *movedp, int *rankp, struct hvd_error *err);
int tcp_bruck_waits_for(const struct tcp_bruck *tcp_bruck);
/* NULL is fine for these. */
void tcp_bruck_after_fork(struct tcp_bruck *tcp_bruck);
void tcp_bruck_close(struct tcp_bruck *tcp_bruck);

#endif
