/* p2p_frame.h: encodes and decodes the frames of messages between two ranks. Pure.
 *
 * A message goes over a connection that its sender has made. A small one is sent at once, as EAGER and its
 * bytes, while the receiver has room for it. Any other is offered first, and comes as DATA and its bytes when
 * the receiver has taken the offer:
 *
 *   sender -> receiver   EAGER     a message, whose bytes follow
 *                        OFFER     a message that waits to be taken; [id] names it on this connection
 *                        DATA      the bytes of offer [id] follow
 *                        WITHDRAWAL offer [id] was taken too late: its process set is no more
 *                        FAREWELL  no message follows on this connection
 *                        RINGS     both ends go on in the two rings at [address] of the node's arena
 *   receiver -> sender   TAKE      offer [id] has its memory: send it
 *                        TAKEN     the bytes of offer [id] were read where they lie: at [address] of the
 *                                  sender's memory
 *                        DEPARTURE offer [id] is not taken any more: the receiver has called hvd_shutdown
 *                        CREDIT    there is room for [bytes] more
 *                        REFUSAL   the receive wants [other_bytes] of [other_dtype] in place of [bytes] of
 * [dtype]; [id]: of the offer, 0: an eager message
 *   either               CARD      its card follows, once: what both need before bytes go from GPU to GPU
 *
 * An offer that is [direct] may be taken so, too: then no bytes follow its DATA, which says that the sender
 * has begun to send them from GPU to GPU. */
#ifndef P2P_P2P_FRAME_H
#define P2P_P2P_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define P2P_FRAME_MAGIC UINT32_C(0x50647668) /* "hvdP" as bytes */
#define P2P_FRAME_BYTES 48

enum p2p_frame_type {
    P2P_EAGER = 1,
    P2P_OFFER,
    P2P_DATA,
    P2P_WITHDRAWAL,
    P2P_FAREWELL,
    P2P_RINGS,
    P2P_TAKE,
    P2P_TAKEN,
    P2P_DEPARTURE,
    P2P_CREDIT,
    P2P_REFUSAL,
    P2P_CARD,
    P2P_FRAME_TYPES
};

/* The largest eager message. */
#define P2P_EAGER_BYTES 32768

#define P2P_CARD_BYTES 152

/* The types that are allowed at some place are a set of these bits. */
#define P2P_ALLOW(type)   (1u << (type))
#define P2P_FROM_SENDER   ((P2P_ALLOW(P2P_TAKE) - P2P_ALLOW(P2P_EAGER)) | P2P_ALLOW(P2P_CARD))
#define P2P_FROM_RECEIVER (P2P_ALLOW(P2P_FRAME_TYPES) - P2P_ALLOW(P2P_TAKE))

struct p2p_frame {
    enum p2p_frame_type type;
    hvd_set set;
    int tag;
    enum hvd_dtype dtype, other_dtype;
    uint64_t id;
    int64_t bytes, other_bytes;
    uint64_t address; /* 0: none is given */
    bool direct;      /* OFFER, TAKE, DATA */
};

void p2p_frame_encode(unsigned char bytes[P2P_FRAME_BYTES], const struct p2p_frame *frame);

/* HVD_OK, and *frame; or HVD_ERR_SYSTEM with a phrase such as "a frame of type 9, which must not come there".
 */
int p2p_frame_decode(const unsigned char bytes[P2P_FRAME_BYTES], unsigned allowed, struct p2p_frame *frame,
                     struct hvd_error *err);

#endif
