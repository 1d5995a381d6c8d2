/* fragment.h: chunks of tensors over a stream socket, each behind a header that says which one it is. */
#ifndef BACKEND_TCP_FRAGMENT_H
#define BACKEND_TCP_FRAGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

#define FRAGMENT_MAGIC    UINT32_C(0x6876645a)
#define FRAGMENT_PAIRWISE 2   /* kind of a chunk of an alltoall; those of a ring are of enum chain_kind */
#define FRAGMENT_BRUCK    3   /* of a message of a small batch, its chunk being the step */
#define FRAGMENT_SLICE_US 100 /* how long one test carries on, see backend_ops */

/* In the byte order of the machine, as tensors are: the magic shows when orders differ. */
struct fragment_header {
    uint32_t magic;
    uint32_t kind;
    uint64_t sequence; /* backend_batch.sequence */
    uint64_t chunk;
    uint64_t length; /* bytes that follow */
};

/* The chunk that goes out: its header, then its bytes. */
struct fragment_out {
    bool active;
    struct fragment_header header;
    const char *bytes;
    size_t sent; /* of header and bytes together */
};

/* The chunk that comes in: a header until that is complete, then its bytes. */
struct fragment_in {
    struct fragment_header header;
    size_t header_have;
    bool placed; /* the header was checked: [bytes] says where its chunk goes */
    char *bytes;
    size_t left;
};

/* A chunk of which all but the bytes is known before it comes: its header and its bytes in one. */
struct fragment_expected {
    struct fragment_header header;
    char *bytes;
    size_t length;
    size_t have; /* of header and bytes together */
};

/* Who is at the other end, and in which batch: for sentences. */
struct fragment_context {
    const char *peer; /* "rank 3 (n2)" */
    uint64_t sequence;
};

/* Begin to send a chunk; nothing is on its way. */
void fragment_pack(struct fragment_out *out, uint32_t kind, uint64_t sequence, uint64_t chunk,
                   const void *bytes, size_t length);

/* Send what the socket takes in one call; the fragment is no longer active when it has left. -1 with errno
 * where the connection is of no more use. */
int fragment_send(struct fragment_out *out, int fd, bool *movedp);

/* Receive what the socket has, in one call: the rest of a header; or the rest of a chunk and, where [another]
 * is due behind it, its header. What is behind that belongs to a later batch and stays in the socket. -1 with
 * errno, 0 for the end of the stream, where the connection is of no more use. */
int fragment_receive(struct fragment_in *in, int fd, bool another, bool *movedp);

/* The chunk that was placed is there: from now on the next header is awaited. False where it is not. */
bool fragment_arrived(struct fragment_in *in);

/* A header is there, and its chunk has no place yet. */
bool fragment_has_header(const struct fragment_in *in);

/* Its chunk goes there. */
void fragment_set_memory(struct fragment_in *in, void *bytes, size_t length);

/* Begin to receive a chunk that is due; its bytes go there even before the header was checked. */
void fragment_expect(struct fragment_expected *due, void *bytes, size_t length);

/* Receive what the socket has of it, in one call, and nothing behind it. As fragment_receive. */
int fragment_receive_expected(struct fragment_expected *due, int fd, bool *movedp);

/* Is its header there, and can be checked? Is all of it? */
bool fragment_expected_has_header(const struct fragment_expected *due);
bool fragment_expected_arrived(const struct fragment_expected *due);

/* Is the header of this protocol and batch? Is it about this chunk? HVD_ERR_MISMATCH where not. */
int fragment_check_batch(const struct fragment_header *header, const struct fragment_context *context,
                         struct hvd_error *err);
int fragment_check_chunk(const struct fragment_header *header, uint64_t chunk, uint64_t length,
                         const struct fragment_context *context, struct hvd_error *err);
/* A chunk of this kind cannot be now. */
int fragment_refuse_kind(const struct fragment_header *header, const struct fragment_context *context,
                         struct hvd_error *err);

/* The connection is of no more use. errno says why; 0 is the end of the stream. HVD_ERR_RANK_LOST, or another
 * error where it is not the other end that failed. */
int fragment_lost(const struct fragment_context *context, struct hvd_error *err);

/* Let [fd] wake a sleeper; -1 for epoll_fd: none. */
int fragment_watch(int epoll_fd, int fd, uint32_t events, struct hvd_error *err);
/* Taken out by name before it is closed: a forked child's copy would keep it in. */
void fragment_unwatch(int epoll_fd, int fd);

#endif
