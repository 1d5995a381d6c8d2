/* pack.h: copy many tensors on a device into one buffer and back, in one kernel for all of them, which scales
 * and converts them on the way. */
#ifndef CUDA_PACK_H
#define CUDA_PACK_H

#include <stdint.h>

#include "cuda/device.h"

struct CUstream_st;

/* Tensors and buffers may have any alignment that suits their type. Copies are fastest where a tensor and its
 * place in the buffer are a multiple of 16 bytes apart. */
struct pack_piece {
    void *tensor;      /* on the device; NULL: zeroes are packed, and nothing is unpacked */
    int64_t count;     /* elements, >= 0 */
    int64_t buffer_at; /* the element of the buffer at which they begin; pieces do not overlap there */
    enum hvd_dtype dtype;
};

struct pack_list {
    const struct pack_piece *pieces;
    int count;
    enum hvd_dtype buffer_dtype; /* of the buffer's elements */
};

/* The kernels of one device, and the plans made for it. One thread at a time uses it and its plans, between
 * cuda_device_enter and cuda_device_leave. */
struct pack_kernels;
int pack_kernels_load(const struct cuda_device *device, struct pack_kernels **kernelsp,
                      struct hvd_error *err);
void pack_kernels_unload(
    struct pack_kernels *kernels); /* frees all plans, which must be idle. NULL is fine */

/* Whether elements of [dtype] can be in a buffer of [buffer_dtype]: the same type, or float32 and one of the
 * half types, either way round. */
bool pack_supports(enum hvd_dtype dtype, enum hvd_dtype buffer_dtype);

/* Pieces that are packed and unpacked together: a table in the device's memory. */
struct pack_plan;

/* The plan for exactly these pieces, until pack_plan_put. Plans are remembered, so that a batch which repeats
 * finds its table on the device: it costs a look-up and one launch. A new one's table is sent on [stream],
 * behind which the caller orders launches on other streams; not while that stream is captured. [list] may go
 * when this returns. HVD_ERR_UNSUPPORTED for types that pack_supports refuses. */
int pack_plan_get(struct pack_kernels *kernels, const struct pack_list *list, struct CUstream_st *stream,
                  struct pack_plan **planp, struct hvd_error *err);

/* Give the plan back, when all its launches have ended on the device and no graph can launch it again. It may
 * be forgotten from then on. NULL is fine. */
void pack_plan_put(struct pack_plan *plan);

/* Launch the copy on [stream], and return at once. pack_launch: buffer = tensor * scale, unpack_launch:
 * tensor = buffer * scale, in float32 for half types (float64 for float64), rounded once to nearest even; a
 * NaN stays one; scaled integers are truncated towards zero and limited to their type's range; bools are not
 * scaled. With the same type and scale 1 the bytes are copied. Can be captured in a graph. */
int pack_launch(const struct pack_plan *plan, void *buffer, double scale, struct CUstream_st *stream,
                struct hvd_error *err);
int unpack_launch(const struct pack_plan *plan, const void *buffer, double scale, struct CUstream_st *stream,
                  struct hvd_error *err);

#endif
