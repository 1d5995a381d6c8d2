/* node_memory.h: what the ranks of a node share: where everything is, and who may trust it. */
#ifndef NODE_NODE_MEMORY_H
#define NODE_NODE_MEMORY_H

#include "base/cache_line.h"
#include "node/cores.h"
#include "net/frame.h"
#include "node/byte_ring.h"

#define MEMORY_MAGIC   UINT64_C(0x65646f6e2d647668) /* "hvd-node" as bytes */
#define MEMORY_VERSION 2

/* One member's. Its rings lead to and from its parent, where that is on this node. */
struct memory_slot {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t armed; /* it sleeps: ring its bell */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t left; /* it said farewell, and what it sent is in the rings */
    _Atomic uint64_t cores[CORES_WORDS];              /* that it may run on; 0 until it has met the others */
    struct ring up, down;
};

/* The first abort on this node, so that whoever sees a rank leave after it knows why it left. */
struct memory_abort {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t state; /* enum memory_abort_state */
    uint32_t length;
    unsigned char payload[FRAME_ABORT_BYTES];
};

struct memory {
    uint64_t magic;
    uint32_t version;
    uint32_t epoch;
    uint32_t slot_count;
    uint32_t slot_bytes;
    struct memory_abort abort;
    struct memory_slot slots[];
};

/* Behind the slots: room for what else the ranks of a node share. Only pages that are used cost anything. */
#define MEMORY_ARENA_BYTES (INT64_C(32) << 20) /* for each slot */

size_t memory_bytes(int slot_count);
void *memory_arena(struct memory *memory, int slot_count);

/* Make memory for [slot_count] members: a sealed memfd in *fdp, close-on-exec, and its mapping in *memoryp.
 */
int memory_create(int slot_count, uint32_t epoch, struct memory **memoryp, int *fdp, struct hvd_error *err);

/* Map what another rank made. Refused where it is not sealed, or its size or layout are not those of this
 * libhvd. */
int memory_attach(int fd, int slot_count, uint32_t epoch, struct memory **memoryp, struct hvd_error *err);

/* NULL is fine. */
void memory_detach(struct memory *memory, int slot_count);

/* Tell it to whoever looks. Only the first counts. */
void memory_publish_abort(struct memory *memory, const struct frame_abort *abort);

/* What was told; false where there is nothing, or nothing that can be believed. */
bool memory_published_abort(struct memory *memory, int size, struct frame_abort *abort);

#endif
