/* pack.h: copy many tensors on a device into one buffer and back, by a single kernel that also scales and
 * converts them. */
#ifndef CUDA_PACK_H
#define CUDA_PACK_H

#include <stdint.h>

#include "cuda/device.h"

struct CUstream_st;

/* Tensors and buffers may have any alignment that their type allows. Copies are fastest if the distance
 * between a tensor and its place in the buffer is a multiple of 16 bytes. */
struct pack_piece {
    void *tensor;      /* on the device; NULL: pack zeroes, and unpack nothing */
    int64_t count;     /* elements, >= 0 */
    int64_t buffer_at; /* the element of the buffer at which they begin; pieces do not overlap there */
    enum hvd_dtype dtype;
};

struct pack_list {
    const struct pack_piece *pieces;
    int count;
    enum hvd_dtype buffer_dtype; /* of the buffer's elements */
};

/* The kernels of one device, and their plans. Not thread-safe: one thread at a time uses the kernels and
 * plans, between cuda_device_enter and cuda_device_leave. */
struct pack_kernels;
int pack_kernels_load(const struct cuda_device *device, struct pack_kernels **kernelsp,
                      struct hvd_error *err);
void pack_kernels_unload(
    struct pack_kernels *kernels); /* frees all plans, which must be idle. NULL is fine */

/* For tests: returns whether a buffer of [buffer_dtype] can hold elements of [dtype]: the types are equal, or
 * one is float32 and the other one of the half types. */
bool pack_supports(enum hvd_dtype dtype, enum hvd_dtype buffer_dtype);

/* Pieces that are packed and unpacked together: a table in the device's memory. */
struct pack_plan;

/* Get the plan for exactly these pieces; return it by pack_plan_put. Plans are cached, so that a repeated
 * batch finds its table on the device: it costs a look-up and one launch. The table of a new plan is sent on
 * [stream], which must not be captured; the caller orders launches on other streams after it. [list] need
 * not outlive the call. HVD_ERR_UNSUPPORTED for types that pack_supports rejects. */
int pack_plan_get(struct pack_kernels *kernels, const struct pack_list *list, struct CUstream_st *stream,
                  struct pack_plan **planp, struct hvd_error *err);

/* Return the plan. All its launches must have ended on the device, and no graph may be able to launch it
 * again. The cache may drop it from then on. NULL is fine. */
void pack_plan_put(struct pack_plan *plan);

/* Launch the copy on [stream] and return at once. pack_launch: buffer = tensor * scale; unpack_launch:
 * tensor = buffer * scale. Half types are computed in float32 (float64 in float64) and rounded once, to
 * nearest even; a NaN stays a NaN; scaled integers are truncated towards zero and limited to their type's
 * range; bools are not scaled. If the types are equal and scale is 1, the bytes are copied. Can be captured
 * in a graph. */
int pack_launch(const struct pack_plan *plan, void *buffer, double scale, struct CUstream_st *stream,
                struct hvd_error *err);
int unpack_launch(const struct pack_plan *plan, const void *buffer, double scale, struct CUstream_st *stream,
                  struct hvd_error *err);

#endif
