/* fragment.h: fragments: chunks of tensors over a stream socket, each behind a header that identifies it. */
#ifndef BACKEND_TCP_FRAGMENT_H
#define BACKEND_TCP_FRAGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/tcp/tcp_watch.h"
#include "base/status.h"

#define FRAGMENT_MAGIC    UINT32_C(0x6876645a)
#define FRAGMENT_PAIRWISE 2   /* kind of an alltoall's fragments; those of a ring have enum chain_kind */
#define FRAGMENT_BRUCK    3   /* kind of a small batch's messages; their chunk is the step */
#define FRAGMENT_SLICE_US 100 /* how long one test goes on, see backend_ops */

/* In the byte order of the machine, as tensors are: the magic reveals a machine of the other order. */
struct fragment_header {
    uint32_t magic;
    uint32_t kind;
    uint64_t sequence; /* backend_batch.sequence */
    uint64_t chunk;
    uint64_t length; /* bytes that follow */
};

/* A fragment to send: its header, then its bytes. */
struct fragment_out {
    bool active;
    struct fragment_header header;
    const char *bytes;
    size_t sent; /* of header and bytes together */
};

/* A fragment to receive: first its header; once that is checked, its bytes. */
struct fragment_in {
    struct fragment_header header;
    size_t header_have;
    bool placed; /* the header was checked, and [bytes] is where the chunk goes */
    char *bytes;
    size_t left;
};

/* A fragment of which all but the bytes is known in advance: header and bytes are received in one call. */
struct fragment_expected {
    struct fragment_header header;
    char *bytes;
    size_t length;
    size_t have; /* of header and bytes together */
};

/* The peer, the connection and the batch, for error sentences. */
struct fragment_context {
    const char *peer; /* "rank 3 (n2)" */
    uint64_t sequence;
    const struct tcp_watch *watch; /* has the connection's ends; NULL: they are not known */
};

/* Begin to send a chunk. [out] is not active. Do not touch the bytes while it is. */
void fragment_pack(struct fragment_out *out, uint32_t kind, uint64_t sequence, uint64_t chunk,
                   const void *bytes, size_t length);

/* Send what the socket takes in one call. When all of it has been sent the fragment is no longer active. -1
 * with errno if the connection has failed. */
int fragment_send(struct fragment_out *out, int fd, struct seal *seal, bool *movedp);

/* Receive what the socket has, in one call: the rest of a header; or the rest of a chunk and, if [another]
 * fragment of this batch follows, its header. What follows that may belong to a later batch and stays in the
 * socket. -1 with errno if the connection has failed; errno is 0 at the end of the stream. */
int fragment_receive(struct fragment_in *in, int fd, struct seal *seal, bool another, bool *movedp);

/* Has the placed chunk arrived completely? Then the next header is received from now on. */
bool fragment_arrived(struct fragment_in *in);

/* Is a header complete whose chunk has no place yet? */
bool fragment_has_header(const struct fragment_in *in);

/* Give the chunk of the complete header its place. */
void fragment_set_memory(struct fragment_in *in, void *bytes, size_t length);

/* Begin to receive an expected fragment. Its bytes go to [bytes] even before the header is checked. */
void fragment_expect(struct fragment_expected *expected, void *bytes, size_t length);

/* Receive what the socket has of it, in one call, and nothing that follows it. Errors as of fragment_receive.
 */
int fragment_receive_expected(struct fragment_expected *expected, int fd, struct seal *seal, bool *movedp);

/* Is the header complete, so that it can be checked? Is everything? */
bool fragment_expected_has_header(const struct fragment_expected *expected);
bool fragment_expected_arrived(const struct fragment_expected *expected);

/* Is this the header of the fragment that is due? HVD_ERR_MISMATCH if not. Or by parts: does it belong to
 * this protocol and batch; is it of this chunk and length? */
int fragment_check(const struct fragment_header *header, uint32_t kind, uint64_t chunk, uint64_t length,
                   const struct fragment_context *context, struct hvd_error *err);
int fragment_check_batch(const struct fragment_header *header, const struct fragment_context *context,
                         struct hvd_error *err);
int fragment_check_chunk(const struct fragment_header *header, uint64_t chunk, uint64_t length,
                         const struct fragment_context *context, struct hvd_error *err);

/* The error for a kind that must not come now. */
int fragment_refuse_kind(const struct fragment_header *header, const struct fragment_context *context,
                         struct hvd_error *err);

/* The error for connection [fd], which has failed. errno says why, 0 is the end of the stream.
 * HVD_ERR_RANK_LOST, or another status if it is not the other end that failed. */
int fragment_lost(const struct fragment_context *context, int fd, struct hvd_error *err);

/* Add [fd] to what wakes the driver, and remove it. Remove it before closing it: a forked child's copy would
 * keep it in the epoll set. Nothing happens where epoll_fd is -1. */
int fragment_watch(int epoll_fd, int fd, uint32_t events, struct hvd_error *err);
void fragment_unwatch(int epoll_fd, int fd);

#endif
