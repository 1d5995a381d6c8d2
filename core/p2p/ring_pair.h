/* ring_pair.h: two rings in the memory that the ranks of a node share. They take the place of the socket for
 * the bytes of one connection between two of them.
 *
 * The connection comes first and proves who the other end is. Its sender makes the pair and says over the
 * connection where it lies in the arena. After that the connection carries no bytes: it shows only that the
 * other process is gone. A rank may let the other one read long messages where they lie in its own memory;
 * the kernel allows that or not (process_vm_readv). */
#ifndef P2P_RING_PAIR_H
#define P2P_RING_PAIR_H

#include <sys/uio.h>

#include "node/arena.h"
#include "node/byte_ring.h"
#include "node/doorbell.h"

#define RING_TOKEN_BYTES 16

/* The process whose memory a receiver reads. */
struct ring_source {
    int32_t pid; /* 0: its memory cannot be read */
    uint64_t token_address;
    unsigned char token[RING_TOKEN_BYTES];
};

/* What a rank wants to be woken for. */
enum ring_wish {
    RING_RUNG, /* it was woken, and has not said what it wants since then */
    RING_ROOM, /* the other end has no room to write; there always is while this rank looks */
    RING_NEWS  /* also: the other end has written */
};

/* Places of the two ranks. */
enum ring_place { RING_SENDER, RING_RECEIVER, RING_ENDS };

/* What the two share. Either may write anything there at any time. */
struct ring_pair_end {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t wish; /* enum ring_wish; whoever rings sets RING_RUNG */
    unsigned char doorbell[DOORBELL_NAME_BYTES];
};

struct ring_pair_memory {
    struct ring_pair_end ends[RING_ENDS];
    struct ring_source source;                         /* the sender */
    _Atomic uint64_t withdrawn;                        /* the last id whose offer was given up */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t reads; /* of the sender's memory; counted by the receiver */
    struct byte_ring rings[RING_ENDS];                 /* each written by one of the ends */
};

/* What a rank needs to make and to join pairs. */
struct ring_pairs {
    struct arena arena; /* base NULL: this rank shares no memory */
    int epoll_fd;       /* what the driver sleeps on, or -1 */
    struct doorbell doorbell;
    bool doorbell_opened;
    bool rung;                             /* it may hold rings that came late */
    bool has_rung;                         /* another rank's, since the caller last took this back */
    int made;                              /* pairs that this rank has made */
    struct ring_pair_memory *block;        /* where the next one lies */
    unsigned char token[RING_TOKEN_BYTES]; /* random; who reads it here has found this process */
};

/* One rank's view. */
struct ring_pair {
    struct ring_pair_memory *memory; /* NULL: the bytes go over the connection */
    int own, peer;                   /* places of the two ranks in it */
    struct byte_ring_end out, in;
    struct ring_pairs *pairs;
    enum ring_wish wish;       /* as last said to the other end */
    struct ring_source source; /* at the receiver */
    uint64_t reads;            /* at the sender: as last seen */
};

void ring_pairs_init(struct ring_pairs *pairs, const struct arena *arena, int epoll_fd);

/* Also in a forked child. */
void ring_pairs_close(struct ring_pairs *pairs);

/* Sender: make a pair, as rank [rank] of the job. *atp is its place in the arena. HVD_ERR_UNSUPPORTED where
 * there is no room for it. */
int ring_pair_make(struct ring_pairs *pairs, int rank, struct ring_pair *pair, uint64_t *atp,
                   struct hvd_error *err);

/* Receiver: join the pair that another rank has made at [at]. HVD_ERR_SYSTEM with a phrase where there cannot
 * be one. */
int ring_pair_join(struct ring_pairs *pairs, uint64_t at, struct ring_pair *pair, struct hvd_error *err);

/* As sendmsg and recvmsg of a non-blocking socket: how many bytes, or -1 with errno; EAGAIN where nothing
 * moves, EPROTO where the other end wrote an impossible position. */
ssize_t ring_pair_send(struct ring_pair *pair, const struct iovec *parts, int part_count);
ssize_t ring_pair_receive(struct ring_pair *pair, const struct iovec *parts, int part_count);

/* What this rank wants to be woken for. Look once more at the pair before you sleep, and call
 * ring_pairs_clear before you do so for all pairs. */
void ring_pair_arm(struct ring_pair *pair, enum ring_wish wish);
void ring_pairs_clear(struct ring_pairs *pairs);

/* Is there something to receive, or, at the sender, something to hear of from ring_pair_was_read? */
bool ring_pair_has_news(const struct ring_pair *pair);

/* Receiver: copy [bytes] from [address] of the sender's memory. False if that cannot be done. Sender: has the
 * receiver done so since the last call? */
bool ring_pair_read(const struct ring_pair *pair, void *to, uint64_t address, int64_t bytes);
bool ring_pair_was_read(struct ring_pair *pair);

/* Sender: the memory of offers up to [id] must not be read any more. Receiver: was that said of [id]? What
 * ring_pair_read copied before this returns false is sound. */
void ring_pair_withdraw(struct ring_pair *pair, uint64_t id);
bool ring_pair_withdrawn(const struct ring_pair *pair, uint64_t id);

#endif
