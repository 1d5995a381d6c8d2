/* load.h: a model's tensors in the memory of one rank, and a contiguous buffer of the same size. */
#ifndef TOOLS_HVDBENCH_LOAD_H
#define TOOLS_HVDBENCH_LOAD_H

#include "base/dtype.h"
#include "tools/hvdbench/model.h"
#include "tools/hvdbench/pattern.h"

/* What both hvdbench and hvdbench_plain pass to MPI at a time in the way mpi-pieces. */
#define MPI_PIECE_BYTES ((int64_t)512 * 1024)

/* Elements of one type in the contiguous buffer. */
struct load_block {
    enum hvd_dtype dtype;
    int64_t count;
    unsigned char *data;
};

/* Zero it first. */
struct load {
    const struct model *model; /* owned by the caller */
    int rank, size;
    /* The tensors in the order of backward propagation, reduced in place, each in its own memory, as in a
     * framework. */
    struct hvd_tensor *tensors;
    int64_t *counts; /* elements of each */
    int count;
    unsigned char *arena;
    /* The contiguous buffer: the same bytes without gaps, grouped by type. */
    unsigned char *whole;
    struct load_block runs[DTYPE_COUNT];
    int run_count;
    struct pattern patterns[DTYPE_COUNT];
};

/* The ranks of the job, for the expected sums; the number of ranks on this node; and the bytes that each of
 * them will allocate in addition to its load. */
struct load_job {
    int rank, size, local_size;
    int64_t more_bytes;
};

/* Returns HVD_ERR_NO_MEMORY if the node does not have enough memory for all its ranks. */
int load_init(struct load *load, const struct model *model, const struct load_job *job,
              struct hvd_error *err);
void load_fini(struct load *load); /* does nothing on a zeroed struct */

/* Lay out the same tensors in the memory at [arena], of load_arena_bytes, and store them in [tensors]. They
 * are valid as long as the load. */
void load_place_tensors(const struct load *load, unsigned char *arena, struct hvd_tensor *tensors);
int64_t load_arena_bytes(const struct model *model);

/* Write this rank's values: into [tensors], which are the load's or those of load_place_tensors; into the
 * contiguous buffer; or into that buffer as float32 whatever its types, for floating-point work without
 * denormal numbers. */
void load_fill_tensors(const struct load *load, const struct hvd_tensor *tensors);
void load_fill_whole(const struct load *load);
void load_fill_floats(const struct load *load);

/* Check that the data is the sum over all ranks. If not, [err] says so of the function [function]. */
int load_check_tensors(const struct load *load, const struct hvd_tensor *tensors, const char *function,
                       struct hvd_error *err);
int load_check_whole(const struct load *load, const char *function, struct hvd_error *err);

/* Check that [copy] is the contiguous buffer of the previous rank (of the last rank, on rank 0). */
int load_check_previous(const struct load *load, const unsigned char *copy, struct hvd_error *err);

#endif
