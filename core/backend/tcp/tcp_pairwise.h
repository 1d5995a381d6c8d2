/* tcp_pairwise.h: alltoalls over stream sockets, one to each other member of a team. */
#ifndef BACKEND_TCP_TCP_PAIRWISE_H
#define BACKEND_TCP_TCP_PAIRWISE_H

#include "backend/sched/pairwise.h"

struct mesh;

/* Where this rank sits in the team. All members have the same chunk_bytes, see exchange_init. */
struct mesh_seat {
    const struct plane_team *team; /* borrowed */
    const struct roster *roster;   /* borrowed; for names */
    int64_t chunk_bytes;
    int epoll_fd; /* as plane_env's */
};

/* [fds], one for each member and -1 for this one, are non-blocking, connected, with both ends proven to
 * belong to the job. Takes them, also on failure; the list is copied. */
int mesh_open(struct mesh **meshp, const struct mesh_seat *seat, const int *fds, struct hvd_error *err);

/* As in plane_ops. An error is final: the mesh repeats it from then on, since nobody knows where in their
 * streams of bytes the members are. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a frame that is not the one due)
 * are about *rankp, a rank of the job. */
int mesh_start(struct mesh *mesh, const struct plane_batch *batch, struct hvd_error *err);
int mesh_test(struct mesh *mesh, bool *movedp, int *rankp, struct hvd_error *err);
/* NULL is fine for these. */
void mesh_after_fork(struct mesh *mesh);
void mesh_close(struct mesh *mesh);

#endif
