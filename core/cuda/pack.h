/* pack.h: copy many tensors on a device into one buffer and back, in one kernel for all of them, which scales
 * and converts them on the way. */
#ifndef CUDA_PACK_H
#define CUDA_PACK_H

#include <stdint.h>

#include "cuda/device.h"

struct CUstream_st;

/* Tensors and buffers may have any alignment. */
struct pack_piece {
    void *tensor;      /* on the device; NULL: zeroes are packed, and nothing is unpacked */
    int64_t count;     /* elements, >= 0 */
    int64_t buffer_at; /* the element of the buffer at which they begin; pieces do not overlap there */
    enum hvd_dtype dtype;
};

/* The kernels of one device. */
struct pack_kernels;
int pack_kernels_load(const struct cuda_device *device, struct pack_kernels **kernelsp,
                      struct hvd_error *err);
void pack_kernels_unload(struct pack_kernels *kernels); /* NULL is fine */

/* Pieces that are packed and unpacked together. Its table stays on the device until the plan ends, so that a
 * batch which repeats launches one kernel and copies nothing. */
struct pack_plan;

/* Whether elements of [dtype] can be in a buffer of [buffer_dtype]: the same type, or float32 and one of the
 * half types, either way round. */
bool pack_supports(enum hvd_dtype dtype, enum hvd_dtype buffer_dtype);

/* Lay the pieces out for a buffer of [buffer_dtype], and send the table on [stream]; launches on other
 * streams are the caller's to order behind that. The device must be entered for this and for all calls
 * below. [pieces] may go when this returns. */
int pack_plan_create(struct pack_kernels *kernels, const struct pack_piece *pieces, int count,
                     enum hvd_dtype buffer_dtype, struct CUstream_st *stream, struct pack_plan **planp,
                     struct hvd_error *err);

/* Is the plan one for exactly these pieces? Then it can be launched again. */
bool pack_plan_is(const struct pack_plan *plan, const struct pack_piece *pieces, int count,
                  enum hvd_dtype buffer_dtype);

/* The last launch must have ended on the device. NULL is fine. */
void pack_plan_destroy(struct pack_plan *plan);

/* Launch the copy on [stream], and return at once. pack_launch: buffer = tensor * scale, unpack_launch:
 * tensor = buffer * scale, in float32 for half types (float64 for float64), rounded once to nearest even;
 * scaled integers are truncated towards zero and limited to their type's range; bools are not scaled. With
 * the same type and scale 1 the bytes are copied. Can be captured in a graph. */
int pack_launch(const struct pack_plan *plan, void *buffer, double scale, struct CUstream_st *stream,
                struct hvd_error *err);
int unpack_launch(const struct pack_plan *plan, const void *buffer, double scale, struct CUstream_st *stream,
                  struct hvd_error *err);

#endif
