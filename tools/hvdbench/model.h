/* model.h: the tensors that a network's training reduces in each step. */
#ifndef TOOLS_HVDBENCH_MODEL_H
#define TOOLS_HVDBENCH_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define MODEL_MAX_TENSORS 100000
#define MODEL_NAMES       "resnet50, bert-large, gpt2"

struct model_tensor {
    char name[HVD_MAX_NAME + 1];
    enum hvd_dtype dtype;
    int ndim;
    int64_t shape[HVD_MAX_DIMS];
    int64_t count; /* elements, > 0 */
};

/* Zero it first. */
struct model {
    const char *title;            /* as the user wrote it; owned by the caller */
    struct model_tensor *tensors; /* in the order of forward propagation; gradients come in reverse */
    int count, capacity;
    int64_t bytes;
    bool failed; /* memory ran out in model_add; nothing was added after that */
};

/* Load the model of that name or, if there is none, the file of that name. On failure *model is empty. */
int model_load(struct model *model, const char *title, struct hvd_error *err);

/* [count] float32 tensors of [bytes] bytes each, a multiple of 4. */
int model_uniform(struct model *model, int64_t count, int64_t bytes, struct hvd_error *err);

/* For tests: parse lines of "name dtype shape", such as "fc.weight float32 1000,2048"; '#' starts a comment.
 * [where] is the prefix of error messages. Does no I/O. */
int model_parse(struct model *model, const char *where, const char *text, size_t length,
                struct hvd_error *err);

void model_fini(struct model *model); /* does nothing on a zeroed struct */

/* Append a tensor. A [name] that is too long is truncated. */
void model_add(struct model *model, const char *name, enum hvd_dtype dtype, int ndim, const int64_t *shape);

/* Add the tensors of the architecture [title]. Returns false if it is none of MODEL_NAMES. */
bool model_architecture(struct model *model, const char *title);

#endif
