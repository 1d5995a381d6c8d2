/* stream.h: batches over two stream sockets, one to the next rank of the ring and one from the previous. */
#ifndef PLANE_STREAM_H
#define PLANE_STREAM_H

#include "plane/chain.h"

struct stream;

/* One end of a connection: non-blocking, connected, both ends proven to belong to the job. */
struct stream_link {
    int rank; /* at the other end */
    int fd;
    char name[288]; /* of that rank in sentences: "rank 3 (n2)" */
};

/* Where this rank sits. All ranks have the same size and chunk_bytes, see chain_init. */
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

/* What goes before each chunk. In the byte order of the machine, as tensors are: the magic shows when orders
 * differ. */
struct stream_frame {
    uint32_t magic;
    uint32_t kind;     /* enum chain_kind */
    uint64_t sequence; /* plane_batch.sequence */
    uint64_t chunk;
    uint64_t length; /* bytes that follow */
};

#define STREAM_MAGIC UINT32_C(0x6876645a)

#endif
