/* collectives.c: the public operations, in the order of hvd.h. */
#include "api/operation.h"

#include <inttypes.h>

#include "base/clock.h"

/* ---- Allreduce ---------------------------------------------------------------------------------- */

static struct arguments reduction(enum desc_kind kind, const struct hvd_tensor *tensor, enum hvd_op op,
                                  const struct hvd_options *options)
{
    return (struct arguments){.kind = kind, .tensors = tensor, .count = 1, .op = op, .options = options};
}

enum hvd_status hvd_allreduce(const struct hvd_tensor *tensor, enum hvd_op op,
                              const struct hvd_options *options)
{
    struct arguments arguments = reduction(DESC_ALLREDUCE, tensor, op, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_allreduce_async(const struct hvd_tensor *tensor, enum hvd_op op,
                                    const struct hvd_options *options, hvd_done_f done, void *arg,
                                    hvd_handle *handlep)
{
    struct arguments arguments = reduction(DESC_ALLREDUCE, tensor, op, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

static struct arguments grouped_reduction(enum desc_kind kind, const struct hvd_tensor *tensors, int count,
                                          enum hvd_op op, const struct hvd_options *options)
{
    return (struct arguments){
        .kind = kind, .grouped = true, .tensors = tensors, .count = count, .op = op, .options = options};
}

enum hvd_status hvd_grouped_allreduce(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                      const struct hvd_options *options)
{
    struct arguments arguments = grouped_reduction(DESC_ALLREDUCE, tensors, count, op, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_grouped_allreduce_async(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                            const struct hvd_options *options, hvd_done_f done, void *arg,
                                            hvd_handle *handlep)
{
    struct arguments arguments = grouped_reduction(DESC_ALLREDUCE, tensors, count, op, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

/* ---- Broadcast ---------------------------------------------------------------------------------- */

static struct arguments broadcast(const struct hvd_tensor *tensor, int root,
                                  const struct hvd_options *options)
{
    return (struct arguments){
        .kind = DESC_BROADCAST, .tensors = tensor, .count = 1, .root = root, .options = options};
}

enum hvd_status hvd_broadcast(const struct hvd_tensor *tensor, int root, const struct hvd_options *options)
{
    struct arguments arguments = broadcast(tensor, root, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_broadcast_async(const struct hvd_tensor *tensor, int root,
                                    const struct hvd_options *options, hvd_done_f done, void *arg,
                                    hvd_handle *handlep)
{
    struct arguments arguments = broadcast(tensor, root, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

/* ---- Allgather ---------------------------------------------------------------------------------- */

static struct arguments allgather(const struct hvd_tensor *tensor, struct hvd_result *result,
                                  const struct hvd_options *options)
{
    return (struct arguments){
        .kind = DESC_ALLGATHER, .tensors = tensor, .count = 1, .results = result, .options = options};
}

static struct arguments grouped_allgather(const struct hvd_tensor *tensors, struct hvd_result *results,
                                          int count, const struct hvd_options *options)
{
    return (struct arguments){.kind = DESC_ALLGATHER,
                              .grouped = true,
                              .tensors = tensors,
                              .count = count,
                              .results = results,
                              .options = options};
}

enum hvd_status hvd_allgather(const struct hvd_tensor *tensor, struct hvd_result *result,
                              const struct hvd_options *options)
{
    struct arguments arguments = allgather(tensor, result, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_allgather_async(const struct hvd_tensor *tensor, struct hvd_result *result,
                                    const struct hvd_options *options, hvd_done_f done, void *arg,
                                    hvd_handle *handlep)
{
    struct arguments arguments = allgather(tensor, result, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

enum hvd_status hvd_grouped_allgather(const struct hvd_tensor *tensors, struct hvd_result *results, int count,
                                      const struct hvd_options *options)
{
    struct arguments arguments = grouped_allgather(tensors, results, count, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_grouped_allgather_async(const struct hvd_tensor *tensors, struct hvd_result *results,
                                            int count, const struct hvd_options *options, hvd_done_f done,
                                            void *arg, hvd_handle *handlep)
{
    struct arguments arguments = grouped_allgather(tensors, results, count, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

/* ---- Alltoall ----------------------------------------------------------------------------------- */

static struct arguments alltoall(const struct hvd_tensor *tensor, const int64_t *splits,
                                 struct hvd_result *result, const struct hvd_options *options)
{
    return (struct arguments){.kind = DESC_ALLTOALL,
                              .tensors = tensor,
                              .count = 1,
                              .splits = splits,
                              .results = result,
                              .options = options};
}

enum hvd_status hvd_alltoall(const struct hvd_tensor *tensor, const int64_t *splits,
                             struct hvd_result *result, const struct hvd_options *options)
{
    struct arguments arguments = alltoall(tensor, splits, result, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_alltoall_async(const struct hvd_tensor *tensor, const int64_t *splits,
                                   struct hvd_result *result, const struct hvd_options *options,
                                   hvd_done_f done, void *arg, hvd_handle *handlep)
{
    struct arguments arguments = alltoall(tensor, splits, result, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

/* ---- Reducescatter ------------------------------------------------------------------------------ */

enum hvd_status hvd_reducescatter(const struct hvd_tensor *tensor, enum hvd_op op,
                                  const struct hvd_options *options)
{
    struct arguments arguments = reduction(DESC_REDUCESCATTER, tensor, op, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_reducescatter_async(const struct hvd_tensor *tensor, enum hvd_op op,
                                        const struct hvd_options *options, hvd_done_f done, void *arg,
                                        hvd_handle *handlep)
{
    struct arguments arguments = reduction(DESC_REDUCESCATTER, tensor, op, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

enum hvd_status hvd_grouped_reducescatter(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                          const struct hvd_options *options)
{
    struct arguments arguments = grouped_reduction(DESC_REDUCESCATTER, tensors, count, op, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_grouped_reducescatter_async(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                                const struct hvd_options *options, hvd_done_f done, void *arg,
                                                hvd_handle *handlep)
{
    struct arguments arguments = grouped_reduction(DESC_REDUCESCATTER, tensors, count, op, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

static struct arguments reducescatterv(const struct hvd_tensor *tensor, const int64_t *splits, enum hvd_op op,
                                       const struct hvd_options *options)
{
    struct arguments arguments = reduction(DESC_REDUCESCATTER, tensor, op, options);
    arguments.splits = splits;
    return arguments;
}

enum hvd_status hvd_reducescatterv(const struct hvd_tensor *tensor, const int64_t *splits, enum hvd_op op,
                                   const struct hvd_options *options)
{
    struct arguments arguments = reducescatterv(tensor, splits, op, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_reducescatterv_async(const struct hvd_tensor *tensor, const int64_t *splits,
                                         enum hvd_op op, const struct hvd_options *options, hvd_done_f done,
                                         void *arg, hvd_handle *handlep)
{
    struct arguments arguments = reducescatterv(tensor, splits, op, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

/* ---- Reduce, gather and scatter ----------------------------------------------------------------- */

static struct arguments reduce(const struct hvd_tensor *tensor, enum hvd_op op, int root,
                               const struct hvd_options *options)
{
    struct arguments arguments = reduction(DESC_REDUCE, tensor, op, options);
    arguments.root = root;
    return arguments;
}

enum hvd_status hvd_reduce(const struct hvd_tensor *tensor, enum hvd_op op, int root,
                           const struct hvd_options *options)
{
    struct arguments arguments = reduce(tensor, op, root, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_reduce_async(const struct hvd_tensor *tensor, enum hvd_op op, int root,
                                 const struct hvd_options *options, hvd_done_f done, void *arg,
                                 hvd_handle *handlep)
{
    struct arguments arguments = reduce(tensor, op, root, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

static struct arguments gather(const struct hvd_tensor *tensor, int root, struct hvd_result *result,
                               const struct hvd_options *options)
{
    struct arguments arguments = allgather(tensor, result, options);
    arguments.kind = DESC_GATHER;
    arguments.root = root;
    return arguments;
}

enum hvd_status hvd_gather(const struct hvd_tensor *tensor, int root, struct hvd_result *result,
                           const struct hvd_options *options)
{
    struct arguments arguments = gather(tensor, root, result, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_gather_async(const struct hvd_tensor *tensor, int root, struct hvd_result *result,
                                 const struct hvd_options *options, hvd_done_f done, void *arg,
                                 hvd_handle *handlep)
{
    struct arguments arguments = gather(tensor, root, result, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

static struct arguments scatter(const struct hvd_tensor *tensor, const int64_t *splits, int root,
                                struct hvd_result *result, const struct hvd_options *options)
{
    struct arguments arguments = alltoall(tensor, splits, result, options);
    arguments.kind = DESC_SCATTER;
    arguments.root = root;
    return arguments;
}

enum hvd_status hvd_scatter(const struct hvd_tensor *tensor, const int64_t *splits, int root,
                            struct hvd_result *result, const struct hvd_options *options)
{
    struct arguments arguments = scatter(tensor, splits, root, result, options);
    return operation_perform(&arguments, NULL);
}

enum hvd_status hvd_scatter_async(const struct hvd_tensor *tensor, const int64_t *splits, int root,
                                  struct hvd_result *result, const struct hvd_options *options,
                                  hvd_done_f done, void *arg, hvd_handle *handlep)
{
    struct arguments arguments = scatter(tensor, splits, root, result, options);
    return operation_perform(&arguments, &(struct completion){done, arg, handlep});
}

/* ---- Join and barrier --------------------------------------------------------------------------- */

enum hvd_status hvd_join(hvd_set set, int *last_rankp)
{
    return operation_perform_without_tensors(DESC_JOIN, set, last_rankp, NULL);
}

enum hvd_status hvd_join_async(hvd_set set, int *last_rankp, hvd_done_f done, void *arg, hvd_handle *handlep)
{
    return operation_perform_without_tensors(DESC_JOIN, set, last_rankp,
                                             &(struct completion){done, arg, handlep});
}

enum hvd_status hvd_barrier(hvd_set set)
{
    return operation_perform_without_tensors(DESC_BARRIER, set, NULL, NULL);
}

enum hvd_status hvd_barrier_async(hvd_set set, hvd_done_f done, void *arg, hvd_handle *handlep)
{
    return operation_perform_without_tensors(DESC_BARRIER, set, NULL,
                                             &(struct completion){done, arg, handlep});
}

/* ---- Handles ------------------------------------------------------------------------------------ */

enum hvd_status hvd_test(hvd_handle handle)
{
    enum hvd_status status;
    struct context *context = context_require_for_handle(&status);
    return context == NULL ? status
                           : tensor_queue_test(loop_tensor_queue(context->loop), handle, context_error());
}

static int wait_on_stream_until(hvd_handle handle, void *stream, int64_t until_us)
{
    enum hvd_status status;
    struct context *context = context_require_for_handle(&status);
    return context == NULL ? (int)status
                           : loop_wait_on_stream(context->loop, handle, stream, until_us, context_error());
}

static int wait_until(hvd_handle handle, int64_t until_us)
{
    enum hvd_status status;
    struct context *context = context_require_for_handle(&status);
    return context == NULL ? (int)status : loop_wait(context->loop, handle, until_us, context_error());
}

/* Turn a timeout into the time at which it ends. */
static int end_of_timeout(const char *call, int64_t timeout_us, int64_t *until_usp)
{
    if (timeout_us < 0)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "%s: timeout_us is %" PRId64 "; expected 0 or more microseconds", call, timeout_us);
    if (__builtin_add_overflow(clock_us(), timeout_us, until_usp))
        *until_usp = INT64_MAX;
    return HVD_OK;
}

enum hvd_status hvd_wait_on_stream(hvd_handle handle, void *stream)
{
    return wait_on_stream_until(handle, stream, INT64_MAX);
}

enum hvd_status hvd_wait_on_stream_for(hvd_handle handle, void *stream, int64_t timeout_us)
{
    int64_t until_us = INT64_MAX;
    int rc = end_of_timeout("hvd_wait_on_stream_for", timeout_us, &until_us);
    return rc == HVD_OK ? wait_on_stream_until(handle, stream, until_us) : rc;
}

enum hvd_status hvd_wait(hvd_handle handle)
{
    return wait_until(handle, INT64_MAX);
}

enum hvd_status hvd_wait_for(hvd_handle handle, int64_t timeout_us)
{
    int64_t until_us = INT64_MAX;
    int rc = end_of_timeout("hvd_wait_for", timeout_us, &until_us);
    return rc == HVD_OK ? wait_until(handle, until_us) : rc;
}

/* ---- Persistent operations ---------------------------------------------------------------------- */

enum hvd_status hvd_allreduce_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                   const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = grouped_reduction(DESC_ALLREDUCE, tensors, count, op, options);
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_broadcast_init(const struct hvd_tensor *tensor, int root,
                                   const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = broadcast(tensor, root, options);
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_reducescatter_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                       const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = grouped_reduction(DESC_REDUCESCATTER, tensors, count, op, options);
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_allgather_init(const struct hvd_tensor *tensors, struct hvd_result *results, int count,
                                   const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = grouped_allgather(tensors, results, count, options);
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_persistent_start(hvd_persistent persistent, void *stream)
{
    enum hvd_status status;
    struct context *context = context_require_for_handle(&status);
    return context == NULL ? status
                           : loop_start_persistent(context->loop, persistent, stream, context_error());
}

enum hvd_status hvd_persistent_free(hvd_persistent persistent)
{
    enum hvd_status status;
    struct context *context = context_require_for_handle(&status);
    return context == NULL ? status : loop_free_persistent(context->loop, persistent, context_error());
}
