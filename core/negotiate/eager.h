/* eager.h: the inputs of a small operation, which travel with the readiness of its members, as in the eager
 * protocol of MPI: up the tree those of each subtree, down the tree those of all members, of which each then
 * computes the result for itself. Pure. */
#ifndef NEGOTIATE_EAGER_H
#define NEGOTIATE_EAGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The most bytes of all blocks of an operation. */
#define EAGER_MAX_BYTES 1024

/* One block for each member: its rank in four bytes, then its input. */
struct eager_inputs {
    int count;       /* of blocks, ascending by rank */
    int input_bytes; /* of each member */
    const unsigned char *blocks;
};

static inline size_t eager_block_bytes(int input_bytes)
{
    return 4 + (size_t)input_bytes;
}

static inline size_t eager_bytes(const struct eager_inputs *inputs)
{
    return (size_t)inputs->count * eager_block_bytes(inputs->input_bytes);
}

/* The rank of block [i], and its input, which is not aligned. */
uint32_t eager_rank(const struct eager_inputs *inputs, int i);
const unsigned char *eager_input(const struct eager_inputs *inputs, int i);

/* Make the block of one rank; [block] has room for it. */
void eager_make_block(unsigned char *block, int rank, const void *input, int input_bytes);

/* The inputs of the parts of the subtree that are ready for an operation, in one order of ranks. */
struct eager_merge {
    uint64_t parts; /* whose inputs these are; bits as cache_entry.ready */
    struct eager_inputs inputs;
    unsigned char blocks[EAGER_MAX_BYTES];
};

/* Add those of [part]. Makes *mergep if it is NULL; the caller frees it. Inputs that do not fit, or have
 * another length, are left out: then the operation goes without any. HVD_ERR_SYSTEM where a rank has two. */
int eager_add(struct eager_merge **mergep, int part, const struct eager_inputs *inputs,
              struct hvd_error *err);

#endif
