/* tcp_bruck.h: small batches over stream sockets, from each member of a team to those 1, 2, 4, 8 and so on
 * behind it on the ring. */
#ifndef BACKEND_TCP_TCP_BRUCK_H
#define BACKEND_TCP_TCP_BRUCK_H

#include "backend/sched/bruck.h"

struct tcp_bruck;

/* One end of a connection: non-blocking, connected, both ends proven to belong to the job. */
struct tcp_bruck_peer {
    int rank; /* of the job, at the other end */
    int fd;
    char name[288]; /* of that rank in sentences: "rank 3 (n2)" */
};

/* Where this rank sits in the team, and its connections: in step k of bruck_step_count it sends to [to][k]
 * and hears from [from][k]. The lists are copied. */
struct tcp_bruck_params {
    int rank, size;
    bool crowded; /* see bruck_init */
    const struct tcp_bruck_peer *to, *from;
    int epoll_fd; /* as backend_env's */
};

/* Takes the descriptors, also on failure. */
int tcp_bruck_open(struct tcp_bruck **chordsp, const struct tcp_bruck_params *params, struct hvd_error *err);

/* As in backend_ops, for what bruck_supports carry. An error is final: the tcp_bruck repeat it from then on,
 * since nobody knows where in their streams of bytes the members are. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH
 * (a header that is not the one due) are about *rankp, a rank of the job. */
int tcp_bruck_start(struct tcp_bruck *tcp_bruck, const struct backend_batch *batch, struct hvd_error *err);
int tcp_bruck_test(struct tcp_bruck *tcp_bruck, bool *movedp, int *rankp, struct hvd_error *err);
/* NULL is fine for these. */
void tcp_bruck_after_fork(struct tcp_bruck *tcp_bruck);
void tcp_bruck_close(struct tcp_bruck *tcp_bruck);

#endif
