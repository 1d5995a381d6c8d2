/* stream.h: batches over two stream sockets, one to the next member of a team's ring and one from the
 * previous. */
#ifndef PLANE_STREAM_H
#define PLANE_STREAM_H

#include "plane/chain.h"
#include "plane/parcel.h"

struct stream;

/* One end of a connection: non-blocking, connected, both ends proven to belong to the job. */
struct stream_link {
    int rank; /* of the job, at the other end */
    int fd;
    char name[288]; /* of that rank in sentences: "rank 3 (n2)" */
};

/* Where this rank sits in the team. All members have the same size and chunk_bytes, see chain_init. */
struct stream_seat {
    int rank, size;
    int64_t chunk_bytes;
    struct stream_link next, previous;
    int epoll_fd; /* as plane_env's */
};

/* Takes the descriptors, also on failure. */
int stream_open(struct stream **streamp, const struct stream_seat *seat, struct hvd_error *err);

/* As in plane_ops. An error is final: the stream repeats it from then on, since nobody knows where in the
 * stream of bytes the neighbours are. HVD_ERR_RANK_LOST and HVD_ERR_MISMATCH (a frame that is not the one
 * due) are about *rankp. */
int stream_start(struct stream *stream, const struct plane_batch *batch, struct hvd_error *err);
int stream_test(struct stream *stream, bool *movedp, int *rankp, struct hvd_error *err);
void stream_after_fork(struct stream *stream);
/* NULL is fine. */
void stream_close(struct stream *stream);

#endif
