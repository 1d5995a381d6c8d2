/* persistent.c: the public calls for persistent operations, in the order of hvd.h. */
#include "api/operation.h"

enum hvd_status hvd_allreduce_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                   const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = {.kind = DESC_ALLREDUCE,
                                  .grouped = true,
                                  .tensors = tensors,
                                  .count = count,
                                  .op = op,
                                  .options = options};
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_broadcast_init(const struct hvd_tensor *tensor, int root,
                                   const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = {
        .kind = DESC_BROADCAST, .tensors = tensor, .count = 1, .root = root, .options = options};
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_allgather_init(const struct hvd_tensor *tensors, struct hvd_result *results, int count,
                                   const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = {.kind = DESC_ALLGATHER,
                                  .grouped = true,
                                  .tensors = tensors,
                                  .count = count,
                                  .results = results,
                                  .options = options};
    return operation_make_persistent(&arguments, persistentp);
}

enum hvd_status hvd_reducescatter_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                       const struct hvd_options *options, hvd_persistent *persistentp)
{
    struct arguments arguments = {.kind = DESC_REDUCESCATTER,
                                  .grouped = true,
                                  .tensors = tensors,
                                  .count = count,
                                  .op = op,
                                  .options = options};
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
