/* tcp_bruck.h: small batches over stream sockets, from each member of a team to those 1, 2, 4, 8 and so on
 * behind it on the ring. */
#ifndef BACKEND_TCP_TCP_BRUCK_H
#define BACKEND_TCP_TCP_BRUCK_H

#include "backend/sched/bruck.h"

struct chords;

/* One end of a connection: non-blocking, connected, both ends proven to belong to the job. */
struct chord {
    int rank; /* of the job, at the other end */
    int fd;
    char name[288]; /* of that rank in sentences: "rank 3 (n2)" */
};

/* Where this rank sits in the team, and its connections: in step k of doubling_steps it sends to [to][k] and
 * hears from [from][k]. The lists are copied. */
struct chords_seat {
    int rank, size;
    bool crowded; /* see doubling_init */
    const struct chord *to, *from;
    int epoll_fd; /* as plane_env's */
};

/* Takes the descriptors, also on failure. */
int chords_open(struct chords **chordsp, const struct chords_seat *seat, struct hvd_error *err);

/* As in plane_ops, for what doubling_can carry. An error is final: the chords repeat it from then on, since
 * nobody knows where in their streams of bytes the members are. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a
 * frame that is not the one due) are about *rankp, a rank of the job. */
int chords_start(struct chords *chords, const struct plane_batch *batch, struct hvd_error *err);
int chords_test(struct chords *chords, bool *movedp, int *rankp, struct hvd_error *err);
/* NULL is fine for these. */
void chords_after_fork(struct chords *chords);
void chords_close(struct chords *chords);

#endif
