/* state_memory.c: the copies of a state's parts, which may be on this rank's GPU. */
#include "config.h"
#include "api/state_memory.h"

#include "flow/loop.h"

int state_memory_find(struct state *state, struct context *context, struct hvd_error *err)
{
    struct hvd_error why;
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < commits_count(state->commits); i++) {
        const struct commits_part *part = commits_part(state->commits, i);
        struct hvd_tensor tensor = hvd_vector(part->name, part->data, part->bytes, HVD_UINT8);
        bool on_gpu = false;
        if (part->bytes > 0)
            rc = gpu_find(loop_gpu(context->loop), &tensor, &on_gpu, &why);
        if (rc != HVD_OK)
            return error_set(err, rc, "part \"%.160s\": %s", part->name, why.text);
        commits_place(state->commits, i, on_gpu);
    }
    return rc;
}

static int copy(void *arg, void *to, const void *from, int64_t bytes, struct hvd_error *err)
{
    return gpu_wait_and_copy(arg, to, from, bytes, err);
}

int state_memory_save(struct state *state, struct context *context, struct hvd_error *err)
{
    return commits_save(state->commits, &(struct commits_gpu){copy, loop_gpu(context->loop)}, err);
}

int state_memory_restore(const struct state *state, struct context *context, struct hvd_error *err)
{
    return commits_restore(state->commits, &(struct commits_gpu){copy, loop_gpu(context->loop)}, err);
}

int state_memory_input(struct state *state, int i, bool copies, const void **inputp, struct hvd_error *err)
{
    const struct commits_part *part = commits_part(state->commits, i);
    *inputp = part->data;
    if (!part->on_gpu)
        return HVD_OK;
    void *memory = commits_spare(state->commits, i);
    *inputp = memory;
    if (!copies)
        return HVD_OK;
    return gpu_wait_and_copy(loop_gpu(context_get()->loop), memory, part->data, part->bytes, err);
}
