/* request.c: one operation of this rank, with the memory of its tensors. */
#include "flow/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "negotiate/wire.h"

/* Not by calloc, which in glibc before 2.41 takes nothing of what this thread has freed: that takes ten times
 * as long, and each message needs a request. */
struct request *request_create(const struct desc *desc)
{
    int count = desc->tensor_count;
    struct request *request = malloc(sizeof(*request) + (size_t)count * sizeof(struct request_tensor));
    if (request == NULL)
        return NULL;
    *request = (struct request){.desc = desc_hold(desc),
                                .id = WIRE_NO_ID,
                                .tensor_count = count,
                                .tensors_left = count,
                                .tensors_to_launch = count};
    for (int i = 0; i < count; i++) {
        struct request_tensor *tensor = &request->tensors[i];
        *tensor = (struct request_tensor){.request = request, .index = i};
        tensor->link.hash = request_hash(desc->set, request_name(tensor), strlen(request_name(tensor)));
    }
    return request;
}

/* What only this run of it needed. */
static void release_run_state(struct request *request)
{
    for (int i = 0; i < request->tensor_count; i++) {
        struct request_tensor *tensor = &request->tensors[i];
        free(tensor->member_rows);
        tensor->member_rows = NULL;
        if (tensor->owned)
            free(tensor->output);
        tensor->owned = false;
    }
    free(request->splits);
    free(request->messages);
    request->splits = NULL;
    request->messages = NULL;
    gpu_event_release(request->ready);
    gpu_event_release(request->end);
    request->ready = request->end = NULL;
}

void request_free(struct request *request)
{
    if (request == NULL)
        return;
    release_run_state(request);
    desc_release(request->desc);
    free(request->reason);
    free(request->sentence);
    free(request);
}

const char *request_name(const struct request_tensor *tensor)
{
    const struct desc *desc = tensor->request->desc;
    return tensor->index == 0 ? desc_name(desc) : desc->tensors[tensor->index].name;
}

uint64_t request_hash(hvd_set set, const char *name, size_t length)
{
    return hash_bytes(name, length) ^ (uint64_t)set * UINT64_C(0x9e3779b97f4a7c15);
}

/* [memory], which may be NULL, from [bytes] on. */
static void *behind(const void *memory, int64_t bytes)
{
    return memory == NULL ? NULL : (char *)memory + bytes;
}

static struct request_tensor *cut_out(const struct request_tensor *tensor, int64_t begin, int64_t count,
                                      int64_t element_bytes)
{
    struct request_tensor *cut = malloc(sizeof(*cut));
    if (cut == NULL)
        return NULL;
    *cut = *tensor;
    cut->is_cut = true;
    cut->count = count;
    cut->bytes = tensor->request->placeholder ? 0 : count * element_bytes;
    cut->input = behind(tensor->input, begin * element_bytes);
    cut->output = behind(tensor->output, begin * element_bytes);
    return cut;
}

struct request_tensor *request_cut(struct request_tensor *tensor, int64_t count, int64_t element_bytes)
{
    struct request_tensor *front = cut_out(tensor, 0, count, element_bytes);
    struct request_tensor *back = cut_out(tensor, count, tensor->count - count, element_bytes);
    if (front == NULL || back == NULL) {
        free(front);
        free(back);
        return NULL;
    }
    front->next = back;
    tensor->request->tensors_left++;
    tensor->request->tensors_to_launch++;
    if (tensor->is_cut)
        free(tensor);
    return front;
}

struct request *request_tensor_over(struct request_tensor *tensor)
{
    struct request *request = tensor->request;
    request->tensors_left--;
    if (tensor->is_cut)
        free(tensor);
    return request;
}

void request_fail(struct request *request, int status, const char *reason)
{
    if (request->first_error != HVD_OK)
        return;
    request->first_error = status;
    request->reason = strdup(reason); /* without memory the status must do */
}

void request_reset(struct request *request)
{
    release_run_state(request);
    request->done = NULL;
    request->arg = NULL;
    request->decided = false;
    request->tensors_left = request->tensors_to_launch = request->tensor_count;
    atomic_store_explicit(&request->launched, false, memory_order_relaxed);
}
