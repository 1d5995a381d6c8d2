/* tcp_chain.h: batches over tcp_chain sockets, some to the next member of a team's ring and as many from the
 * previous.
 *
 * The connections with a neighbour are lanes. Chunks of both kinds are counted together, in the order in
 * which they are sent: chunk i goes over lane i modulo the number of lanes, wholly, and is begun when chunk i
 * - lanes has left. The other end places them in that order too: it looks at the header of chunk i when all
 * chunks before it have been placed and chunk i - lanes, with all before that, is there.
 *
 * So several lanes do not deadlock either. What chain.h needs is that what a member has begun to send leaves,
 * if whatever waits at the head of the next one's input is sooner or later taken. That head is the first
 * chunk that has no place yet. All before it have one, so their bytes come without waiting for anything: each
 * of them has its lane and its memory to itself. Then nothing but a slot keeps the head from being placed,
 * and those chain.h promises. The same holds of the chunk behind it, and so of all that were begun. */
#ifndef BACKEND_TCP_TCP_CHAIN_H
#define BACKEND_TCP_TCP_CHAIN_H

#include "backend/sched/chain.h"
#include "backend/tcp/fragment.h"

#define TCP_CHAIN_MAX_LANES 16

struct tcp_chain;

/* The connections with a neighbour, from our end: non-blocking, connected, both ends proven to belong to
 * the job. */
struct tcp_chain_peer {
    int rank; /* of the job, at the other end */
    int fds[TCP_CHAIN_MAX_LANES];
    char name[288]; /* of that rank in sentences: "rank 3 (n2)" */
};

/* Where this rank sits in the team. All members have the same size, chunk_bytes and lanes, see chain_init. */
struct tcp_chain_params {
    int rank, size;
    int64_t chunk_bytes;
    int lanes; /* 1 to TCP_CHAIN_MAX_LANES */
    struct tcp_chain_peer next, previous;
    int epoll_fd; /* as backend_env's */
};

/* Takes the descriptors, also on failure. */
int tcp_chain_open(struct tcp_chain **streamp, const struct tcp_chain_params *params, struct hvd_error *err);

/* As in backend_ops. An error is final: the tcp_chain repeats it from then on, since nobody knows where in
 * their streams of bytes the neighbours are. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a header that is not the
 * one due) are about *rankp. */
int tcp_chain_start(struct tcp_chain *tcp_chain, const struct backend_batch *batch, struct hvd_error *err);
int tcp_chain_test(struct tcp_chain *tcp_chain, bool *movedp, int *rankp, struct hvd_error *err);
void tcp_chain_after_fork(struct tcp_chain *tcp_chain);
/* NULL is fine. */
void tcp_chain_close(struct tcp_chain *tcp_chain);

#endif
