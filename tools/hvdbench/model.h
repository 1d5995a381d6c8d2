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
    const char *title;            /* as the user called it; borrowed */
    struct model_tensor *tensors; /* in the order in which the network uses them: gradients come in reverse */
    int count, capacity;
    int64_t bytes;
    bool failed; /* memory ran out in an add: nothing was added since */
};

/* The model of that name, or else what the file of that name lists. On failure *model is empty. */
int model_load(struct model *model, const char *title, struct hvd_error *err);

/* [count] tensors of [bytes] bytes each, a multiple of 4, of float32. */
int model_uniform(struct model *model, int64_t count, int64_t bytes, struct hvd_error *err);

/* Lines of "name dtype shape", such as "fc.weight float32 1000,2048"; '#' begins a comment. [where] begins
 * the sentence in [err]. Pure. */
int model_parse(struct model *model, const char *where, const char *text, size_t length,
                struct hvd_error *err);

void model_fini(struct model *model); /* fine on a zeroed one */

/* For those who list tensors: one more. [name] is cut where it is too long. */
void model_add(struct model *model, const char *name, enum hvd_dtype dtype, int ndim, const int64_t *shape);

/* Those of the architecture [title], or false where it is none of MODEL_NAMES. */
bool model_architecture(struct model *model, const char *title);

#endif
