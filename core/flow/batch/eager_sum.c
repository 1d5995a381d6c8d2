/* eager_sum.c: small allreduces, whose inputs travel with the agreement of the ranks. */
#include "config.h"

#include "flow/batch/eager_sum.h"

#include "backend/arith/reduce.h"
#include "base/dtype.h"
#include "flow/batch/batch.h"

#define MAX_INPUTS (EAGER_MAX_BYTES / 5) /* of a byte each */

int eager_sum_bytes(const struct request *request, int members)
{
    const struct desc *desc = request->desc;
    int64_t bytes = request->tensors[0].bytes;
    bool reduces = desc->kind == DESC_ALLREDUCE && desc->op != HVD_ADASUM && desc->wire == HVD_WIRE_EXACT;
    bool plain = desc->tensor_count == 1 && !desc->persistent && !desc->tensors[0].on_device;
    if (!reduces || !plain || members < 2 || bytes <= 0 || bytes > EAGER_MAX_BYTES)
        return 0;
    return (size_t)members * eager_block_bytes((int)bytes) <= EAGER_MAX_BYTES ? (int)bytes : 0;
}

/* They come from other ranks: is there one of each member, of the length that this rank's has? */
static bool are_of_members(const struct eager_inputs *inputs, const struct team *members,
                           const struct request *request)
{
    if (request == NULL || inputs->count != members->size ||
        inputs->input_bytes != eager_sum_bytes(request, members->size))
        return false;
    for (int i = 0; i < inputs->count; i++) {
        if (eager_rank(inputs, i) != (uint32_t)members->ranks[i])
            return false;
    }
    return true;
}

static void reduce(const struct desc *desc, struct request_tensor *tensor, const struct eager_inputs *inputs)
{
    const struct backend_need need = batch_need(desc, 0, inputs->count);
    const struct reduction reduction = {need.dtype,     need.partial,    need.op,
                                        desc->prescale, desc->postscale, need.ranks};
    const struct reduce_plan plan = reduce_plan_of(&reduction);
    const void *vectors[MAX_INPUTS];
    for (int i = 0; i < inputs->count; i++)
        vectors[i] = eager_input(inputs, i);
    reduce_inputs(&plan, tensor->output, NULL, vectors, inputs->count, tensor->count);
}

int eager_sum_run(struct finish *finish, const struct team *members, const struct decision *decision,
                  struct hvd_error *err)
{
    struct request *request = decision->user;
    char title[DESC_TITLE_BYTES];
    if (!are_of_members(&decision->inputs, members, request)) {
        desc_title(decision->desc, title, sizeof(title));
        return error_set(err, HVD_ERR_SYSTEM,
                         "the ranks agreed on %s with inputs that are not the members', or of other lengths "
                         "than this rank's",
                         title);
    }
    struct request_tensor *tensor = &request->tensors[0];
    trace_count_decided(finish->trace, request->id == decision->id);
    request->decided = true;
    request->id = decision->id;
    reduce(request->desc, tensor, &decision->inputs);
    if (decision->backend >= 0)
        trace_count_batch(finish->trace, (enum backend_id)decision->backend, 1, tensor->bytes,
                          finish->now_us);
    finish_tensor(finish, tensor, HVD_OK, NULL);
    return HVD_OK;
}
