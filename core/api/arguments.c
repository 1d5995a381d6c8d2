/* arguments.c: are a caller's arguments what hvd.h asks for? */
#include "api/arguments.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"

/* What kinds of operations differ in, as a caller sees them. */
struct rule {
    const char *name;
    bool reduces; /* op, factors and wire count */
    bool rows;    /* the first dimension is dealt out or put together: there must be one */
    bool results; /* the output is an hvd_result */
};

static const struct rule rules[] = {
    [DESC_ALLREDUCE] = {.name = "allreduce", .reduces = true},
    [DESC_BROADCAST] = {.name = "broadcast"},
    [DESC_ALLGATHER] = {.name = "allgather", .rows = true, .results = true},
    [DESC_ALLTOALL] = {.name = "alltoall", .rows = true, .results = true},
    [DESC_REDUCESCATTER] = {.name = "reducescatter", .reduces = true, .rows = true},
};

/* One tensor of an ask. */
struct subject {
    const struct ask *ask;
    const struct rule *rule;
    const struct standing *standing;
    const struct hvd_tensor *tensor;
};

/* ---- Names -------------------------------------------------------------------------------------- */

/* Where the first control character is, or -1. */
static int find_control(const char *name)
{
    for (int i = 0; name[i] != 0; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127)
            return i;
    return -1;
}

static bool is_name(const char *name)
{
    return name != NULL && name[0] != 0 && strnlen(name, HVD_MAX_NAME + 1) <= HVD_MAX_NAME &&
           find_control(name) < 0;
}

const char *ask_title(const struct ask *ask, int index, char title[ASK_TITLE_BYTES])
{
    const char *grouped = ask->grouped ? "grouped " : "";
    const char *kind = rules[ask->kind].name;
    bool known = ask->tensors != NULL && index < ask->count;
    if (known && is_name(ask->tensors[index].name))
        snprintf(title, ASK_TITLE_BYTES, "%s%s \"%s\"", grouped, kind, ask->tensors[index].name);
    else if (known && ask->grouped)
        snprintf(title, ASK_TITLE_BYTES, "%s%s, tensors[%d]", grouped, kind, index);
    else
        snprintf(title, ASK_TITLE_BYTES, "%s%s", grouped, kind);
    return title;
}

/* The sentence, behind the title of what it is about. */
static int __attribute__((format(printf, 3, 4)))
say(const struct subject *subject, struct hvd_error *err, const char *format, ...)
{
    char title[ASK_TITLE_BYTES];
    char text[sizeof(err->text)];
    const struct ask *ask = subject->ask;
    int index = ask->tensors == NULL ? 0 : (int)(subject->tensor - ask->tensors);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(err, HVD_ERR_INVALID, "%s: %s", ask_title(ask, index, title), text);
}

static int check_name(const struct subject *subject, struct hvd_error *err)
{
    const char *name = subject->tensor->name;
    if (is_name(name))
        return HVD_OK;
    if (name == NULL || name[0] == 0)
        return say(subject, err, "a tensor needs a name: the same on all ranks, 1 to %d bytes", HVD_MAX_NAME);
    if (strnlen(name, HVD_MAX_NAME + 1) > HVD_MAX_NAME)
        return say(subject, err, "the name \"%.40s...\" is longer than %d bytes", name, HVD_MAX_NAME);
    int at = find_control(name);
    return say(subject, err, "byte %d of the name is the control character %d; use printable characters", at,
               name[at]);
}

/* ---- Elements and memory ------------------------------------------------------------------------ */

int64_t ask_count(const struct hvd_tensor *tensor)
{
    return desc_elements(tensor->dtype, tensor->shape, tensor->ndim);
}

static int check_shape(const struct subject *subject, struct hvd_error *err)
{
    const struct hvd_tensor *tensor = subject->tensor;
    if (dtype_name(tensor->dtype) == NULL)
        return say(subject, err, "dtype is %d, which is no enum hvd_dtype", (int)tensor->dtype);
    if (tensor->ndim < 0 || tensor->ndim > HVD_MAX_DIMS)
        return say(subject, err, "ndim is %d; expected 0 to %d", tensor->ndim, HVD_MAX_DIMS);
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0)
            return say(subject, err, "shape[%d] is %lld; expected 0 or more", i, (long long)tensor->shape[i]);
    }
    if (ask_count(tensor) < 0)
        return say(subject, err, "the tensor would have 2^63 bytes or more");
    if (subject->rule->rows && tensor->ndim == 0)
        return say(subject, err, "a scalar has no rows; give it one dimension (ndim 1, shape[0] 1)");
    return HVD_OK;
}

static bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && (uintptr_t)a < (uintptr_t)b + (uint64_t)b_bytes &&
           (uintptr_t)b < (uintptr_t)a + (uint64_t)a_bytes;
}

/* Elements that [output] has room for. */
static int64_t output_count(const struct subject *subject, int64_t count)
{
    const struct standing *standing = subject->standing;
    if (subject->ask->kind != DESC_REDUCESCATTER || count == 0)
        return count;
    int64_t rows = subject->tensor->shape[0];
    return count / rows * hvd_share_rows(rows, standing->rank, standing->size);
}

static int check_memory(const struct subject *subject, struct hvd_error *err)
{
    const struct hvd_tensor *tensor = subject->tensor;
    const struct standing *standing = subject->standing;
    if (tensor->input == tensor->output && tensor->input != NULL && !subject->rule->results)
        return HVD_OK; /* as is mostly so: in place */
    bool reads = subject->ask->kind != DESC_BROADCAST || standing->rank == standing->root;
    int64_t bytes = (int64_t)dtype_bytes(tensor->dtype);
    int64_t count = ask_count(tensor);
    int64_t in = reads ? count : 0;
    int64_t out = subject->rule->results ? 0 : output_count(subject, count);
    if (subject->rule->results && tensor->output != NULL)
        return say(subject, err, "output is not NULL, but the result goes where the hvd_result says");
    if (in > 0 && tensor->input == NULL)
        return say(subject, err, "input is NULL, but there are %lld elements to read", (long long)in);
    if (out > 0 && tensor->output == NULL)
        return say(subject, err, "output is NULL, but there are %lld elements to write", (long long)out);
    if (overlap(tensor->input, in * bytes, tensor->output, out * bytes))
        return say(subject, err,
                   "input and output overlap in part; give the same memory, or separate memory");
    return HVD_OK;
}

/* ---- What reduces ------------------------------------------------------------------------------- */

static bool is_floating(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 || dtype == HVD_FLOAT32 || dtype == HVD_FLOAT64;
}

static int check_adasum(const struct subject *subject, struct hvd_error *err)
{
    int size = subject->standing->size;
    if (subject->ask->kind == DESC_REDUCESCATTER)
        return say(subject, err, "there is no Adasum of shares; use hvd_allreduce for it");
    if (!is_floating(subject->tensor->dtype))
        return say(subject, err, "Adasum is of floating-point tensors; this is %s",
                   dtype_name(subject->tensor->dtype));
    if ((size & (size - 1)) != 0)
        return say(subject, err, "Adasum needs a power of two of ranks, but process set %d has %d",
                   subject->standing->set, size);
    return HVD_OK;
}

static int check_op(const struct subject *subject, struct hvd_error *err)
{
    enum hvd_op op = subject->ask->op;
    if (op_name(op) == NULL)
        return say(subject, err, "op is %d, which is no enum hvd_op", (int)op);
    if (op == HVD_AVERAGE && subject->tensor->dtype == HVD_BOOL)
        return say(subject, err, "bools have no average; use HVD_SUM (or) or HVD_PRODUCT (and)");
    return op == HVD_ADASUM ? check_adasum(subject, err) : HVD_OK;
}

static int check_factor(const struct subject *subject, const char *name, double factor, struct hvd_error *err)
{
    if (isfinite(factor) && factor != 0)
        return HVD_OK;
    return say(subject, err,
               "options.%s is %g; expected a finite number other than 0 (begin options with "
               "HVD_OPTIONS_INIT)",
               name, factor);
}

static int check_wire(const struct subject *subject, struct hvd_error *err)
{
    enum hvd_wire wire = subject->ask->options->wire;
    if (wire_name(wire) == NULL)
        return say(subject, err, "options.wire is %d, which is no enum hvd_wire", (int)wire);
    if (wire != HVD_WIRE_EXACT && subject->tensor->dtype != HVD_FLOAT32)
        return say(subject, err, "options.wire is %s, but only float32 travels as another type; this is %s",
                   wire_name(wire), dtype_name(subject->tensor->dtype));
    if (wire != HVD_WIRE_EXACT && subject->ask->op == HVD_ADASUM)
        return say(subject, err, "options.wire is %s, but Adasum is always exact; leave it HVD_WIRE_EXACT",
                   wire_name(wire));
    return HVD_OK;
}

static int check_reduction(const struct subject *subject, struct hvd_error *err)
{
    const struct hvd_options *options = subject->ask->options;
    int rc = check_op(subject, err);
    if (rc == HVD_OK)
        rc = check_factor(subject, "prescale", options->prescale, err);
    if (rc == HVD_OK)
        rc = check_factor(subject, "postscale", options->postscale, err);
    return rc == HVD_OK ? check_wire(subject, err) : rc;
}

/* What does not count must not be given: the caller believes that it does. */
static int check_plain(const struct subject *subject, struct hvd_error *err)
{
    const struct hvd_options *options = subject->ask->options;
    const char *kind = subject->rule->name;
    double factor = options->prescale != 1 ? options->prescale : options->postscale;
    if (factor != 1)
        return say(subject, err,
                   "options.%s is %g, but nothing is scaled in %s; leave it 1 (begin options with "
                   "HVD_OPTIONS_INIT)",
                   options->prescale != 1 ? "prescale" : "postscale", factor, kind);
    if (options->wire != HVD_WIRE_EXACT)
        return say(subject, err, "options.wire is %d, but %s is always exact; leave it HVD_WIRE_EXACT",
                   (int)options->wire, kind);
    return HVD_OK;
}

/* ---- What is dealt out -------------------------------------------------------------------------- */

static int check_splits(const struct subject *subject, struct hvd_error *err)
{
    const int64_t *splits = subject->ask->splits;
    int size = subject->standing->size;
    int64_t rows = subject->tensor->shape[0];
    int64_t sum = 0;
    if (splits == NULL && rows % size != 0)
        return say(subject, err,
                   "%lld rows cannot be dealt out evenly to the %d members of process set %d; give "
                   "splits",
                   (long long)rows, size, subject->standing->set);
    for (int i = 0; splits != NULL && i < size; i++) {
        if (splits[i] < 0)
            return say(subject, err, "splits[%d] is %lld; expected 0 or more", i, (long long)splits[i]);
        if (__builtin_add_overflow(sum, splits[i], &sum))
            return say(subject, err,
                       "with splits[%d], which is %lld, the sum of the splits is 2^63 or more; it "
                       "must be shape[0], %lld",
                       i, (long long)splits[i], (long long)rows);
    }
    if (splits != NULL && sum != rows)
        return say(subject, err, "the sum of the %d splits is %lld, but shape[0] is %lld; they must be equal",
                   size, (long long)sum, (long long)rows);
    return HVD_OK;
}

static int check_root(const struct subject *subject, struct hvd_error *err)
{
    const struct standing *standing = subject->standing;
    if (standing->root >= 0)
        return HVD_OK;
    if (standing->set == HVD_ALL_RANKS)
        return say(subject, err, "root is %d; expected a rank from 0 to %d", subject->ask->root,
                   standing->size - 1);
    return say(subject, err, "root is %d; expected a member of process set %d, by its rank in the job",
               subject->ask->root, standing->set);
}

/* ---- All of it ---------------------------------------------------------------------------------- */

static int check_tensor(const struct subject *subject, struct hvd_error *err)
{
    int rc = check_name(subject, err);
    if (rc == HVD_OK)
        rc = check_shape(subject, err);
    if (rc == HVD_OK)
        rc = subject->rule->reduces ? check_reduction(subject, err) : check_plain(subject, err);
    if (rc == HVD_OK && subject->ask->kind == DESC_BROADCAST)
        rc = check_root(subject, err);
    if (rc == HVD_OK && subject->ask->kind == DESC_ALLTOALL)
        rc = check_splits(subject, err);
    return rc == HVD_OK ? check_memory(subject, err) : rc;
}

/* Dimensions before [first] may differ. */
static bool is_same_tensor(const struct hvd_tensor *tensor, const struct desc_tensor *described, int first)
{
    return tensor->dtype == described->dtype && tensor->ndim == described->ndim && tensor->name != NULL &&
           memcmp(tensor->shape + first, described->shape + first,
                  (size_t)(tensor->ndim - first) * sizeof(tensor->shape[0])) == 0 &&
           strcmp(tensor->name, described->name) == 0;
}

static bool is_same_factor(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

bool ask_repeats(const struct ask *ask, const struct desc *desc)
{
    const struct hvd_options *options = ask->options;
    if (ask->tensors == NULL || ask->kind != desc->kind || ask->grouped != desc->grouped ||
        ask->count != desc->tensor_count || options->set != desc->set || ask->root != desc->root ||
        ask->op != desc->op || options->wire != desc->wire ||
        !is_same_factor(options->prescale, desc->prescale) ||
        !is_same_factor(options->postscale, desc->postscale))
        return false;
    for (int i = 0; i < ask->count; i++)
        if (!is_same_tensor(&ask->tensors[i], &desc->tensors[i], rules[ask->kind].results ? 1 : 0))
            return false;
    return true;
}

static int check_results(const struct subject *subject, struct hvd_error *err)
{
    if (!subject->rule->results || subject->ask->results != NULL)
        return HVD_OK;
    return say(subject, err,
               "the pointer to the result%s is NULL; a zeroed struct hvd_result makes hvd allocate",
               subject->ask->grouped ? "s" : "");
}

int ask_check_again(const struct ask *ask, const struct standing *standing, struct hvd_error *err)
{
    struct subject subject = {ask, &rules[ask->kind], standing, ask->tensors};
    int rc = check_results(&subject, err);
    for (int i = 0; rc == HVD_OK && i < ask->count; i++) {
        subject.tensor = &ask->tensors[i];
        if (subject.rule->results)
            rc = check_shape(&subject, err);
        if (rc == HVD_OK)
            rc = check_memory(&subject, err);
    }
    return rc;
}

int ask_check(const struct ask *ask, const struct standing *standing, struct hvd_error *err)
{
    struct subject subject = {ask, &rules[ask->kind], standing, ask->tensors};
    const char *plural = ask->grouped ? "s" : "";
    if (ask->count < 1 || ask->count > HVD_MAX_GROUP)
        return say(&subject, err, "count is %d; expected 1 to %d tensors", ask->count, HVD_MAX_GROUP);
    if (ask->tensors == NULL)
        return say(&subject, err, "the pointer to the tensor%s is NULL", plural);
    int rc = check_results(&subject, err);
    for (int i = 0; rc == HVD_OK && i < ask->count; i++) {
        subject.tensor = &ask->tensors[i];
        rc = check_tensor(&subject, err);
    }
    return rc;
}
