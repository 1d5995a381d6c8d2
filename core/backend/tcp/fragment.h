/* fragment.h: chunks of tensors over a stream socket, each behind a frame that says which one it is. */
#ifndef BACKEND_TCP_FRAGMENT_H
#define BACKEND_TCP_FRAGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

#define PARCEL_MAGIC    UINT32_C(0x6876645a)
#define PARCEL_EXCHANGE 2   /* kind of a chunk of an alltoall; those of a ring are of enum chain_kind */
#define PARCEL_DOUBLING 3   /* of a message of a small batch, its chunk being the step */
#define PARCEL_SLICE_US 100 /* how long one test carries on, see plane_ops */

/* In the byte order of the machine, as tensors are: the magic shows when orders differ. */
struct parcel_frame {
    uint32_t magic;
    uint32_t kind;
    uint64_t sequence; /* plane_batch.sequence */
    uint64_t chunk;
    uint64_t length; /* bytes that follow */
};

/* The chunk that goes out: its frame, then its bytes. */
struct parcel_out {
    bool active;
    struct parcel_frame frame;
    const char *bytes;
    size_t sent; /* of frame and bytes together */
};

/* The chunk that comes in: a frame until that is complete, then its bytes. */
struct parcel_in {
    struct parcel_frame frame;
    size_t frame_have;
    bool placed; /* the frame was checked: [bytes] says where its chunk goes */
    char *bytes;
    size_t left;
};

/* A chunk of which all but the bytes is known before it comes: its frame and its bytes in one. */
struct parcel_due {
    struct parcel_frame frame;
    char *bytes;
    size_t length;
    size_t have; /* of frame and bytes together */
};

/* Who is at the other end, and in which batch: for sentences. */
struct parcel_context {
    const char *peer; /* "rank 3 (n2)" */
    uint64_t sequence;
};

/* Begin to send a chunk; nothing is on its way. */
void parcel_pack(struct parcel_out *out, uint32_t kind, uint64_t sequence, uint64_t chunk, const void *bytes,
                 size_t length);

/* Send what the socket takes in one call; the parcel is no longer active when it has left. -1 with errno
 * where the connection is of no more use. */
int parcel_send(struct parcel_out *out, int fd, bool *movedp);

/* Receive what the socket has, in one call: the rest of a frame; or the rest of a chunk and, where [another]
 * is due behind it, its frame. What is behind that belongs to a later batch and stays in the socket. -1 with
 * errno, 0 for the end of the stream, where the connection is of no more use. */
int parcel_receive(struct parcel_in *in, int fd, bool another, bool *movedp);

/* The chunk that was placed is there: from now on the next frame is awaited. False where it is not. */
bool parcel_arrived(struct parcel_in *in);

/* A frame is there, and its chunk has no place yet. */
bool parcel_is_framed(const struct parcel_in *in);

/* Its chunk goes there. */
void parcel_place(struct parcel_in *in, void *bytes, size_t length);

/* Begin to receive a chunk that is due; its bytes go there even before the frame was checked. */
void parcel_expect(struct parcel_due *due, void *bytes, size_t length);

/* Receive what the socket has of it, in one call, and nothing behind it. As parcel_receive. */
int parcel_receive_due(struct parcel_due *due, int fd, bool *movedp);

/* Is its frame there, and can be checked? Is all of it? */
bool parcel_due_framed(const struct parcel_due *due);
bool parcel_due_arrived(const struct parcel_due *due);

/* Is the frame of this protocol and batch? Is it about this chunk? HVD_ERR_MISMATCH where not. */
int parcel_check_batch(const struct parcel_frame *frame, const struct parcel_context *context,
                       struct hvd_error *err);
int parcel_check_chunk(const struct parcel_frame *frame, uint64_t chunk, uint64_t length,
                       const struct parcel_context *context, struct hvd_error *err);
/* A chunk of this kind cannot be now. */
int parcel_refuse_kind(const struct parcel_frame *frame, const struct parcel_context *context,
                       struct hvd_error *err);

/* The connection is of no more use. errno says why; 0 is the end of the stream. HVD_ERR_RANK_LOST, or another
 * error where it is not the other end that failed. */
int parcel_lost(const struct parcel_context *context, struct hvd_error *err);

/* Let [fd] wake a sleeper; -1 for epoll_fd: none. */
int parcel_watch(int epoll_fd, int fd, uint32_t events, struct hvd_error *err);
/* Taken out by name before it is closed: a forked child's copy would keep it in. */
void parcel_unwatch(int epoll_fd, int fd);

#endif
