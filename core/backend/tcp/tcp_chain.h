/* tcp_chain.h: batches by the schedule of chain.h, over stream sockets: one or more to the next member of a
 * team's ring, and as many from the previous one.
 *
 * The connections with a neighbour are called lanes. The chunks of a batch, of both kinds together, are
 * numbered in the order in which they are sent. All of chunk i goes over lane i modulo the number of lanes,
 * and it is begun when chunk i - lanes has left. The receiver gives chunks their places in the same order: it
 * looks at the header of chunk i when all chunks before it have a place and chunk i - lanes, with all before
 * that, has arrived.
 *
 * Several lanes do not cause a deadlock. chain.h needs this: what a member has begun to send leaves, provided
 * that the head of the next member's input is always taken in the end. The head is the first chunk without a
 * place. All chunks before it have a place, so their bytes arrive without waiting for anything: each has its
 * own lane and its own memory. After that the head can only wait for a slot, and chain.h promises that one
 * becomes free. Then the same holds for the chunk after it, and so for every chunk that was begun. */
#ifndef BACKEND_TCP_TCP_CHAIN_H
#define BACKEND_TCP_TCP_CHAIN_H

#include "backend/sched/chain.h"
#include "backend/tcp/fragment.h"

#define TCP_CHAIN_MAX_LANES 16

struct tcp_chain;

/* Our ends of the connections with a neighbour: non-blocking, connected, both ends authenticated as ranks of
 * the job. */
struct tcp_chain_peer {
    int rank; /* of the job, at the other end */
    int fds[TCP_CHAIN_MAX_LANES];
    char name[288]; /* that rank in sentences: "rank 3 (n2)" */
};

/* All members have the same size, chunk_bytes and lanes, see chain_init. */
struct tcp_chain_params {
    int rank, size;
    int64_t chunk_bytes;
    int lanes; /* 1 to TCP_CHAIN_MAX_LANES */
    struct tcp_chain_peer next, previous;
    int epoll_fd;                  /* as backend_env's */
    const struct tcp_watch *watch; /* of these connections, which it outlives; NULL: none */
};

/* Takes over the descriptors, also on failure. */
int tcp_chain_open(struct tcp_chain **chainp, const struct tcp_chain_params *params, struct hvd_error *err);

/* As in backend_ops. An error is final, see tcp_failure.h. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a header
 * other than the one due) are about *rankp, a rank of the job. */
int tcp_chain_start(struct tcp_chain *tcp_chain, const struct backend_batch *batch, struct hvd_error *err);
int tcp_chain_test(struct tcp_chain *tcp_chain, bool *movedp, int *rankp, struct hvd_error *err);
int tcp_chain_waits_for(const struct tcp_chain *tcp_chain);
/* NULL is fine for these. */
void tcp_chain_after_fork(struct tcp_chain *tcp_chain);
void tcp_chain_close(struct tcp_chain *tcp_chain);

#endif
