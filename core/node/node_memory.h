/* node_memory.h: the layout of the memory that the ranks of a node share, and the checks before it is used.
 */
#ifndef NODE_NODE_MEMORY_H
#define NODE_NODE_MEMORY_H

#include "base/cpu.h"
#include "node/cores.h"
#include "net/frame.h"
#include "node/byte_ring.h"

#define NODE_MEMORY_MAGIC   UINT64_C(0x65646f6e2d647668) /* "hvd-node" as bytes */
#define NODE_MEMORY_VERSION 5
#define NODE_MEMORY_NAME    "hvd-node" /* of the file, as /proc shows it */

#define NODE_REASON_BYTES 512

/* What the leader tells its members of one step of the start, once it knows how all ranks fared in it. */
struct node_outcome {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t step; /* counts the outcomes; members sleep on it (futex) */
    int32_t status;
    int32_t value; /* what the step was to find out */
    char reason[NODE_REASON_BYTES];
};

/* What a member tells its leader of its own part in the start. */
struct node_report {
    _Atomic uint32_t status; /* 1: all is well; 0: nothing was reported yet, the leader sleeps on it (futex);
                                a negative enum hvd_status: why it cannot go on */
    char reason[NODE_REASON_BYTES];
};

/* One member's part. Its rings lead to and from its parent in the tree, where that is on this node. */
struct node_member {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t armed; /* it sleeps: signal its doorbell */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t left;  /* it left in order; all it sent is in the rings */
    _Atomic uint32_t
        closed; /* it has closed its node by itself: the end of its life pipe says nothing more */
    _Atomic uint64_t cores[CORES_WORDS]; /* the cores that it may run on; 0 until it is attached */
    struct node_report report;
    struct byte_ring up, down;
};

/* The first abort on this node, so that a rank that sees another one leave knows why. */
struct node_abort {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t state; /* enum node_abort_state */
    uint32_t length;
    unsigned char payload[FRAME_ABORT_BYTES];
};

struct node_memory {
    uint64_t magic;
    uint32_t version;
    uint32_t epoch;
    uint32_t member_count;
    uint32_t member_bytes;
    struct node_abort abort;
    struct node_outcome outcome;
    struct node_member members[]; /* behind them their ranks, ascending: see node_memory_ranks */
};

/* The arena lies behind the members. Only pages that are used take memory. */
#define NODE_MEMORY_ARENA_BYTES (INT64_C(32) << 20) /* for each member */

int32_t *node_memory_ranks(struct node_memory *memory, int member_count);
void *node_memory_arena(struct node_memory *memory, int member_count);

/* For tests: all of the memory. */
size_t node_memory_bytes(int member_count);

/* Make memory for [member_count] members: a sealed memfd in *fdp, close-on-exec, and its mapping in *memoryp.
 */
int node_memory_create(int member_count, uint32_t epoch, struct node_memory **memoryp, int *fdp,
                       struct hvd_error *err);

/* Map the memory that another rank made. Refused where it is not sealed, or where its size or layout are not
 * those of this libhvd. */
int node_memory_attach(int fd, int member_count, uint32_t epoch, struct node_memory **memoryp,
                       struct hvd_error *err);

/* NULL is fine. */
void node_memory_detach(struct node_memory *memory, int member_count);

/* Publish an abort to the node. Only the first one is kept: true where it is this one. */
bool node_memory_publish_abort(struct node_memory *memory, const struct frame_abort *abort);

/* The published abort; false if there is none, or if it does not decode. */
bool node_memory_published_abort(struct node_memory *memory, int size, struct frame_abort *abort);

#endif
