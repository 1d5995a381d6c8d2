/* model.c: the tensors of a model, by its name or from a file. */
#include "tools/hvdbench/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/parse.h"
#include "base/descriptors.h"
#include "base/dtype.h"

#define FILE_BYTES   (8 << 20) /* largest file */
#define TENSOR_BYTES (INT64_C(1) << 40)

void model_add(struct model *model, const char *name, enum hvd_dtype dtype, int ndim, const int64_t *shape)
{
    if (model->count == model->capacity && !model->failed) {
        int capacity = model->capacity == 0 ? 256 : 2 * model->capacity;
        struct model_tensor *tensors = realloc(model->tensors, (size_t)capacity * sizeof(model->tensors[0]));
        model->failed = tensors == NULL;
        if (tensors != NULL) {
            model->tensors = tensors;
            model->capacity = capacity;
        }
    }
    if (model->failed)
        return;
    struct model_tensor *tensor = &model->tensors[model->count++];
    *tensor = (struct model_tensor){.dtype = dtype, .ndim = ndim, .count = 1};
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    for (int i = 0; i < ndim; i++) {
        tensor->shape[i] = shape[i];
        tensor->count *= shape[i];
    }
    model->bytes += tensor->count * (int64_t)dtype_bytes(dtype);
}

void model_fini(struct model *model)
{
    free(model->tensors);
    *model = (struct model){0};
}

static int out_of_memory(struct model *model, struct hvd_error *err)
{
    int count = model->count;
    model_fini(model);
    return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a list of more than %d tensors", count);
}

int model_uniform(struct model *model, int64_t count, int64_t bytes, struct hvd_error *err)
{
    int64_t elements = bytes / 4;
    *model = (struct model){.title = "uniform"};
    if (bytes < 4 || bytes % 4 != 0)
        return error_set(err, HVD_ERR_INVALID,
                         "tensors of %lld bytes: expected a multiple of 4, the size of a float32",
                         (long long)bytes);
    for (int64_t i = 0; i < count && !model->failed; i++) {
        char name[40];
        snprintf(name, sizeof(name), "tensor.%lld", (long long)i);
        model_add(model, name, HVD_FLOAT32, 1, &elements);
    }
    return model->failed ? out_of_memory(model, err) : HVD_OK;
}

/* ---- Files ---------------------------------------------------------------------------------------- */

/* The position of a line, for error messages. */
struct line {
    const char *where;
    int number;
    struct hvd_error *err;
};

static int parse_dtype(const struct line *line, const char *word, enum hvd_dtype *dtypep)
{
    /* no bools: their sum is no sum, and there are no such gradients */
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == HVD_BOOL || strcmp(dtype_name((enum hvd_dtype)dtype), word) != 0)
            continue;
        *dtypep = (enum hvd_dtype)dtype;
        return HVD_OK;
    }
    return error_set(
        line->err, HVD_ERR_INVALID,
        "%s, line %d: %.60s is no type of elements; expected one such as float32, bfloat16 or int64",
        line->where, line->number, word);
}

/* "64,3,7,7" */
static int parse_shape(const struct line *line, char *word, struct model_tensor *tensor)
{
    int64_t bytes = (int64_t)dtype_bytes(tensor->dtype);
    tensor->ndim = 0;
    for (char *text = word; text != NULL;) {
        char *comma = strchr(text, ',');
        const char *why = "";
        int64_t dimension = 0;
        if (comma != NULL)
            *comma = 0;
        if (tensor->ndim == HVD_MAX_DIMS)
            return error_set(line->err, HVD_ERR_INVALID, "%s, line %d: more than %d dimensions", line->where,
                             line->number, HVD_MAX_DIMS);
        if (parse_count(text, &dimension, &why) < 0 || dimension < 1)
            return error_set(
                line->err, HVD_ERR_INVALID,
                "%s, line %d: the dimension %.40s %s; expected numbers from 1 up, such as 64,3,7,7",
                line->where, line->number, text, why[0] != 0 ? why : "is too small");
        if (__builtin_mul_overflow(bytes, dimension, &bytes) || bytes > TENSOR_BYTES)
            return error_set(line->err, HVD_ERR_INVALID, "%s, line %d: a tensor of more than 1T", line->where,
                             line->number);
        tensor->shape[tensor->ndim++] = dimension;
        text = comma != NULL ? comma + 1 : NULL;
    }
    return HVD_OK;
}

/* [text] is one line; it is modified. */
static int parse_line(struct model *model, const struct line *line, char *text)
{
    char *rest = NULL;
    struct model_tensor tensor = {.ndim = 0};
    text[strcspn(text, "#")] = 0;
    const char *name = strtok_r(text, " \t\r", &rest);
    const char *dtype = strtok_r(NULL, " \t\r", &rest);
    char *shape = strtok_r(NULL, " \t\r", &rest);
    if (name == NULL)
        return HVD_OK;
    if (shape == NULL || strtok_r(NULL, " \t\r", &rest) != NULL)
        return error_set(
            line->err, HVD_ERR_INVALID,
            "%s, line %d: expected a name, a type and a shape, such as: fc.weight float32 1000,2048",
            line->where, line->number);
    if (strlen(name) > HVD_MAX_NAME)
        return error_set(line->err, HVD_ERR_INVALID, "%s, line %d: a name of %zu bytes; expected at most %d",
                         line->where, line->number, strlen(name), HVD_MAX_NAME);
    int status = parse_dtype(line, dtype, &tensor.dtype);
    if (status == HVD_OK)
        status = parse_shape(line, shape, &tensor);
    if (status == HVD_OK && model->count == MODEL_MAX_TENSORS)
        status = error_set(line->err, HVD_ERR_INVALID, "%s, line %d: more than %d tensors", line->where,
                           line->number, MODEL_MAX_TENSORS);
    if (status == HVD_OK)
        model_add(model, name, tensor.dtype, tensor.ndim, tensor.shape);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct model_tensor *const *)a)->name,
                  (*(const struct model_tensor *const *)b)->name);
}

/* hvd identifies an operation by its name, so names must be unique. */
static int check_names(const struct model *model, const char *where, struct hvd_error *err)
{
    int status = HVD_OK;
    const struct model_tensor **sorted = malloc((size_t)model->count * sizeof(sorted[0]));
    if (sorted == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for the names of %d tensors", model->count);
    for (int i = 0; i < model->count; i++)
        sorted[i] = &model->tensors[i];
    qsort(sorted, (size_t)model->count, sizeof(sorted[0]), compare_names);
    for (int i = 1; i < model->count && status == HVD_OK; i++) {
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            status = error_set(err, HVD_ERR_INVALID, "%s: two tensors have the name %s; give each its own",
                               where, sorted[i]->name);
    }
    free(sorted);
    return status;
}

int model_parse(struct model *model, const char *where, const char *text, size_t length,
                struct hvd_error *err)
{
    struct line line = {where, 0, err};
    int status = HVD_OK;
    for (size_t at = 0; at < length && status == HVD_OK;) {
        char copy[512];
        const char *end = memchr(text + at, '\n', length - at);
        size_t bytes = end != NULL ? (size_t)(end - text) - at : length - at;
        line.number++;
        if (bytes >= sizeof(copy))
            status = error_set(err, HVD_ERR_INVALID, "%s, line %d: longer than %zu bytes", where, line.number,
                               sizeof(copy) - 1);
        else if (memchr(text + at, 0, bytes) != NULL)
            status = error_set(err, HVD_ERR_INVALID, "%s, line %d: a zero byte; expected text", where,
                               line.number);
        if (status != HVD_OK)
            break;
        memcpy(copy, text + at, bytes);
        copy[bytes] = 0;
        status = parse_line(model, &line, copy);
        at += bytes + 1;
    }
    if (status == HVD_OK && model->failed)
        return out_of_memory(model, err);
    if (status == HVD_OK && model->count == 0)
        status = error_set(err, HVD_ERR_INVALID,
                           "%s: no tensors; expected lines such as: fc.bias float32 1000", where);
    if (status == HVD_OK)
        status = check_names(model, where, err);
    if (status != HVD_OK)
        model_fini(model);
    return status;
}

/* Read the whole file. The caller frees *textp. */
static int read_file(const char *path, char **textp, size_t *lengthp, struct hvd_error *err)
{
    int status = HVD_OK;
    ssize_t length = 0;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, HVD_ERR_INVALID,
                         "model %.200s: %s; expected " MODEL_NAMES " or a file that lists tensors", path,
                         errno == ENOENT ? "there is no model and no file of that name" : strerror(errno));
    text = malloc(FILE_BYTES);
    if (text == NULL)
        status = error_set(err, HVD_ERR_NO_MEMORY, "out of memory for %.200s", path);
    else
        length = descriptors_read(fd, text, FILE_BYTES);
    if (length < 0)
        status = error_set_errno(err, "cannot read %.200s", path);
    if (length == FILE_BYTES)
        status = error_set(err, HVD_ERR_INVALID, "%.200s: %d bytes or more; expected a list of tensors", path,
                           FILE_BYTES);
    close(fd);
    if (status == HVD_OK) {
        *textp = text;
        *lengthp = (size_t)length;
    } else {
        free(text);
    }
    return status;
}

int model_load(struct model *model, const char *title, struct hvd_error *err)
{
    char *text = NULL;
    size_t length = 0;
    *model = (struct model){0};
    int status = HVD_OK;
    if (!model_architecture(model, title)) {
        status = read_file(title, &text, &length, err);
        if (status == HVD_OK)
            status = model_parse(model, title, text, length, err);
        free(text);
    } else if (model->failed) {
        status = out_of_memory(model, err);
    }
    model->title = title;
    return status;
}
