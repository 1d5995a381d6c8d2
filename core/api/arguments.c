/* arguments.c: check a caller's arguments against hvd.h. */
#include "config.h"

#include "api/arguments.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

/* How kinds of operations differ for the caller. */
struct kind_traits {
    const char *name;
    bool reduces; /* it takes op, factors and a wire format */
    bool rows;    /* the first dimension is split or concatenated, so there must be one */
    bool results; /* the output is an hvd_result */
};

static const struct kind_traits traits_of_kind[] = {
    [DESC_ALLREDUCE] = {.name = "allreduce", .reduces = true},
    [DESC_BROADCAST] = {.name = "broadcast"},
    [DESC_ALLGATHER] = {.name = "allgather", .rows = true, .results = true},
    [DESC_ALLTOALL] = {.name = "alltoall", .rows = true, .results = true},
    [DESC_REDUCESCATTER] = {.name = "reducescatter", .reduces = true, .rows = true},
    [DESC_REDUCE] = {.name = "reduce", .reduces = true},
    [DESC_GATHER] = {.name = "gather", .rows = true, .results = true},
    [DESC_SCATTER] = {.name = "scatter", .rows = true, .results = true},
    [DESC_SEND] = {.name = "send"},
    [DESC_RECV] = {.name = "recv"},
    [DESC_EXCHANGE] = {.name = "exchange"},
};

/* One tensor of a call's arguments. */
struct argument {
    const struct arguments *arguments;
    const struct kind_traits *kind_traits;
    const struct membership *membership;
    const struct hvd_tensor *tensor;
};

/* ---- Names -------------------------------------------------------------------------------------- */

/* The position of the first control character, or -1. */
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

const char *arguments_title(const struct arguments *arguments, int index, char title[ARGUMENTS_TITLE_BYTES])
{
    const char *grouped = arguments->persistent ? "persistent " : arguments->grouped ? "grouped " : "";
    const char *kind = traits_of_kind[arguments->kind].name;
    bool known = arguments->tensors != NULL && index < arguments->count;
    if (known && is_name(arguments->tensors[index].name))
        snprintf(title, ARGUMENTS_TITLE_BYTES, "%s%s \"%s\"", grouped, kind, arguments->tensors[index].name);
    else if (known && arguments->grouped)
        snprintf(title, ARGUMENTS_TITLE_BYTES, "%s%s, tensors[%d]", grouped, kind, index);
    else
        snprintf(title, ARGUMENTS_TITLE_BYTES, "%s%s", grouped, kind);
    return title;
}

/* Write a sentence that begins with the title of the tensor. */
static int __attribute__((format(printf, 3, 4)))
set_invalid(const struct argument *argument, struct hvd_error *err, const char *format, ...)
{
    char title[ARGUMENTS_TITLE_BYTES];
    char text[sizeof(err->text)];
    const struct arguments *arguments = argument->arguments;
    int index = arguments->tensors == NULL ? 0 : (int)(argument->tensor - arguments->tensors);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(err, HVD_ERR_INVALID, "%s: %s", arguments_title(arguments, index, title), text);
}

static int check_name(const struct argument *argument, struct hvd_error *err)
{
    const char *name = argument->tensor->name;
    if (is_name(name))
        return HVD_OK;
    if (name == NULL || name[0] == 0)
        return set_invalid(argument, err, "a tensor needs a name: the same on all ranks, 1 to %d bytes",
                           HVD_MAX_NAME);
    if (strnlen(name, HVD_MAX_NAME + 1) > HVD_MAX_NAME)
        return set_invalid(argument, err, "the name \"%.40s...\" is longer than %d bytes", name,
                           HVD_MAX_NAME);
    int at = find_control(name);
    return set_invalid(argument, err,
                       "byte %d of the name is the control character %d; use printable characters", at,
                       name[at]);
}

/* ---- Elements and memory ------------------------------------------------------------------------ */

int64_t arguments_element_count(const struct hvd_tensor *tensor)
{
    return desc_elements(tensor->dtype, tensor->shape, tensor->ndim);
}

static int check_shape(const struct argument *argument, struct hvd_error *err)
{
    const struct hvd_tensor *tensor = argument->tensor;
    if (dtype_name(tensor->dtype) == NULL)
        return set_invalid(argument, err, "dtype is %d, which is not in enum hvd_dtype", (int)tensor->dtype);
    if (tensor->ndim < 0 || tensor->ndim > HVD_MAX_DIMS)
        return set_invalid(argument, err, "ndim is %d; expected 0 to %d", tensor->ndim, HVD_MAX_DIMS);
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0)
            return set_invalid(argument, err, "shape[%d] is %lld; expected 0 or more", i,
                               (long long)tensor->shape[i]);
    }
    if (arguments_element_count(tensor) < 0)
        return set_invalid(argument, err,
                           "the tensor would have more than 2^47 bytes, the maximum of one operation");
    if (argument->kind_traits->rows && tensor->ndim == 0)
        return set_invalid(argument, err, "a scalar has no rows; give it one dimension (ndim 1, shape[0] 1)");
    return HVD_OK;
}

static bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && (uintptr_t)a < (uintptr_t)b + (uint64_t)b_bytes &&
           (uintptr_t)b < (uintptr_t)a + (uint64_t)a_bytes;
}

/* The number of elements for which [output] has room. */
static int64_t output_count(const struct argument *argument, int64_t count)
{
    const struct membership *membership = argument->membership;
    const int64_t *splits = argument->arguments->splits;
    if (argument->arguments->kind == DESC_REDUCE && membership->rank != membership->root)
        return 0;
    if (argument->arguments->kind != DESC_REDUCESCATTER || count == 0)
        return count;
    int64_t rows = argument->tensor->shape[0];
    int64_t share =
        splits != NULL ? splits[membership->rank] : hvd_share_rows(rows, membership->rank, membership->size);
    return count / rows * share;
}

/* Does the caller say in which memory the tensor is, in words that hvd knows? */
static int check_memory_kind(const struct argument *argument, struct hvd_error *err)
{
    const struct hvd_tensor *tensor = argument->tensor;
    unsigned memory = (unsigned)tensor->memory;
    if (memory > HVD_MEMORY_MANAGED)
        return set_invalid(argument, err, "memory is %d, which is not in enum hvd_memory",
                           (int)tensor->memory);
    if ((memory == HVD_MEMORY_DEVICE || memory == HVD_MEMORY_MANAGED) && tensor->device < 0)
        return set_invalid(argument, err, "device is %d; expected CUDA's number of the GPU, 0 or more",
                           tensor->device);
    return HVD_OK;
}

static int check_memory(const struct argument *argument, struct hvd_error *err)
{
    const struct hvd_tensor *tensor = argument->tensor;
    int rc = check_memory_kind(argument, err);
    if (rc != HVD_OK)
        return rc;
    if (tensor->input == tensor->output && tensor->input != NULL && !argument->kind_traits->results)
        return HVD_OK; /* the usual case: in place */
    int64_t bytes = (int64_t)dtype_bytes(tensor->dtype);
    int64_t count = arguments_element_count(tensor);
    int64_t in = arguments_read_input(argument->arguments, argument->membership) ? count : 0;
    int64_t out = argument->kind_traits->results ? 0 : output_count(argument, count);
    if (argument->kind_traits->results && tensor->output != NULL)
        return set_invalid(argument, err,
                           "output is not NULL, but the result goes to the hvd_result; leave it NULL");
    if (in > 0 && tensor->input == NULL)
        return set_invalid(argument, err, "input is NULL, but there are %lld elements to read",
                           (long long)in);
    if (out > 0 && tensor->output == NULL)
        return set_invalid(argument, err, "output is NULL, but there are %lld elements to write",
                           (long long)out);
    if (overlap(tensor->input, in * bytes, tensor->output, out * bytes))
        return set_invalid(argument, err,
                           "input and output overlap in part; give the same memory, or separate memory");
    return HVD_OK;
}

/* ---- Reductions --------------------------------------------------------------------------------- */

static int check_adasum(const struct argument *argument, struct hvd_error *err)
{
    int size = argument->membership->size;
    if (argument->arguments->kind != DESC_ALLREDUCE)
        return set_invalid(argument, err, "HVD_ADASUM is not supported; use hvd_allreduce");
    if (!dtype_is_real(argument->tensor->dtype))
        return set_invalid(argument, err, "Adasum needs a floating-point tensor; this one is %s",
                           dtype_name(argument->tensor->dtype));
    if ((size & (size - 1)) != 0)
        return set_invalid(argument, err,
                           "Adasum needs a power-of-two number of ranks, but process set %d has %d",
                           argument->membership->set, size);
    return HVD_OK;
}

static int check_op(const struct argument *argument, struct hvd_error *err)
{
    enum hvd_op op = argument->arguments->op;
    if (op_name(op) == NULL)
        return set_invalid(argument, err, "op is %d, which is not in enum hvd_op", (int)op);
    if (op == HVD_AVERAGE && argument->tensor->dtype == HVD_BOOL)
        return set_invalid(argument, err, "bools have no average; use HVD_SUM (or) or HVD_PRODUCT (and)");
    if (op_is_bitwise(op) && dtype_is_real(argument->tensor->dtype))
        return set_invalid(argument, err, "a %s needs integers or bools; this tensor is %s", op_name(op),
                           dtype_name(argument->tensor->dtype));
    return op == HVD_ADASUM ? check_adasum(argument, err) : HVD_OK;
}

static int check_factor(const struct argument *argument, const char *name, double factor,
                        struct hvd_error *err)
{
    if (op_is_bitwise(argument->arguments->op) && factor != 1)
        return set_invalid(argument, err, "options.%s is %g, but a %s does not scale; leave it 1", name,
                           factor, op_name(argument->arguments->op));
    if (isfinite(factor) && factor != 0)
        return HVD_OK;
    return set_invalid(argument, err,
                       "options.%s is %g; expected a finite number other than 0 (begin options with "
                       "HVD_OPTIONS_INIT)",
                       name, factor);
}

static int check_wire(const struct argument *argument, struct hvd_error *err)
{
    enum hvd_wire wire = argument->arguments->options->wire;
    if (wire_name(wire) == NULL)
        return set_invalid(argument, err, "options.wire is %d, which is not in enum hvd_wire", (int)wire);
    if (wire != HVD_WIRE_EXACT && argument->tensor->dtype != HVD_FLOAT32)
        return set_invalid(
            argument, err,
            "options.wire is %s, but only float32 can be sent as another type; this tensor is %s",
            wire_name(wire), dtype_name(argument->tensor->dtype));
    if (wire != HVD_WIRE_EXACT && argument->arguments->op == HVD_ADASUM)
        return set_invalid(argument, err,
                           "options.wire is %s, but Adasum is always exact; leave it HVD_WIRE_EXACT",
                           wire_name(wire));
    return HVD_OK;
}

static int check_reduction(const struct argument *argument, struct hvd_error *err)
{
    const struct hvd_options *options = argument->arguments->options;
    int rc = check_op(argument, err);
    if (rc == HVD_OK)
        rc = check_factor(argument, "prescale", options->prescale, err);
    if (rc == HVD_OK)
        rc = check_factor(argument, "postscale", options->postscale, err);
    return rc == HVD_OK ? check_wire(argument, err) : rc;
}

/* Refuse arguments that this kind ignores, because the caller believes that they have an effect. */
static int check_plain(const struct argument *argument, struct hvd_error *err)
{
    const struct hvd_options *options = argument->arguments->options;
    const char *kind = argument->kind_traits->name;
    double factor = options->prescale != 1 ? options->prescale : options->postscale;
    if (factor != 1)
        return set_invalid(
            argument, err,
            "options.%s is %g, but %s does not scale; leave it 1 (begin options with HVD_OPTIONS_INIT)",
            options->prescale != 1 ? "prescale" : "postscale", factor, kind);
    if (options->wire != HVD_WIRE_EXACT)
        return set_invalid(argument, err,
                           "options.wire is %d, but %s is always exact; leave it HVD_WIRE_EXACT",
                           (int)options->wire, kind);
    return HVD_OK;
}

/* ---- Splits ------------------------------------------------------------------------------------- */

static int check_splits(const struct argument *argument, struct hvd_error *err)
{
    const int64_t *splits = argument->arguments->splits;
    int size = argument->membership->size;
    int64_t rows = argument->tensor->shape[0];
    int64_t sum = 0;
    if (splits == NULL && rows % size != 0)
        return set_invalid(argument, err,
                           "%lld rows cannot be divided evenly among the %d members of process set %d; give "
                           "splits",
                           (long long)rows, size, argument->membership->set);
    for (int i = 0; splits != NULL && i < size; i++) {
        if (splits[i] < 0)
            return set_invalid(argument, err, "splits[%d] is %lld; expected 0 or more", i,
                               (long long)splits[i]);
        if (__builtin_add_overflow(sum, splits[i], &sum))
            return set_invalid(argument, err,
                               "with splits[%d], which is %lld, the sum of the splits is 2^63 or more; it "
                               "must be shape[0], %lld",
                               i, (long long)splits[i], (long long)rows);
    }
    if (splits != NULL && sum != rows)
        return set_invalid(argument, err,
                           "the sum of the %d splits is %lld, but shape[0] is %lld; they must be equal", size,
                           (long long)sum, (long long)rows);
    return HVD_OK;
}

/* Must this rank say how its rows are split? */
static bool has_splits(const struct argument *argument)
{
    const struct arguments *arguments = argument->arguments;
    bool splits_by_default = arguments->kind == DESC_ALLTOALL || arguments->kind == DESC_SCATTER;
    return (splits_by_default || arguments->splits != NULL) &&
           arguments_read_input(arguments, argument->membership);
}

static int check_root(const struct argument *argument, struct hvd_error *err)
{
    const struct membership *membership = argument->membership;
    if (membership->root >= 0)
        return HVD_OK;
    if (membership->set == HVD_ALL_RANKS)
        return set_invalid(argument, err, "root is %d; expected a rank from 0 to %d",
                           argument->arguments->root, membership->size - 1);
    return set_invalid(argument, err,
                       "root is %d; expected a member of process set %d, by its rank in the job",
                       argument->arguments->root, membership->set);
}

/* ---- All checks --------------------------------------------------------------------------------- */

static int check_tensor(const struct argument *argument, struct hvd_error *err)
{
    int rc = check_name(argument, err);
    if (rc == HVD_OK)
        rc = check_shape(argument, err);
    if (rc == HVD_OK)
        rc = argument->kind_traits->reduces ? check_reduction(argument, err) : check_plain(argument, err);
    if (rc == HVD_OK && desc_has_root(argument->arguments->kind))
        rc = check_root(argument, err);
    if (rc == HVD_OK && has_splits(argument))
        rc = check_splits(argument, err);
    return rc == HVD_OK ? check_memory(argument, err) : rc;
}

/* Is it the tensor that was described? Dimensions before [first] may differ. */
static bool is_same_tensor(const struct hvd_tensor *tensor, bool on_device,
                           const struct desc_tensor *described, int first)
{
    return tensor->dtype == described->dtype && on_device == described->on_device &&
           tensor->ndim == described->ndim && tensor->name != NULL &&
           memcmp(tensor->shape + first, described->shape + first,
                  (size_t)(tensor->ndim - first) * sizeof(tensor->shape[0])) == 0 &&
           strcmp(tensor->name, described->name) == 0;
}

static bool is_same_factor(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

bool arguments_match_desc(const struct arguments *arguments, const struct desc *desc)
{
    const struct hvd_options *options = arguments->options;
    if (arguments->tensors == NULL || arguments->splits != NULL || arguments->kind != desc->kind ||
        arguments->grouped != desc->grouped || arguments->persistent != desc->persistent ||
        arguments->count != desc->tensor_count || options->set != desc->set ||
        arguments->root != desc->root || arguments->op != desc->op || options->wire != desc->wire ||
        !is_same_factor(options->prescale, desc->prescale) ||
        !is_same_factor(options->postscale, desc->postscale))
        return false;
    for (int i = 0; i < arguments->count; i++)
        if (!is_same_tensor(&arguments->tensors[i], arguments_on_device(arguments, i), &desc->tensors[i],
                            traits_of_kind[arguments->kind].results ? 1 : 0))
            return false;
    return true;
}

/* ---- Options ------------------------------------------------------------------------------------ */

/* Nothing of hvd has so many options: a longer struct was not begun with HVD_OPTIONS_INIT. */
#define MAX_OPTIONS_BYTES 4096

#define FIELD(name)                                                                      \
    {                                                                                    \
        offsetof(struct hvd_options, name),                                              \
            offsetof(struct hvd_options, name) + sizeof(((struct hvd_options *)0)->name) \
    }

static const struct {
    size_t begin, end;
} option_fields[] = {FIELD(set), FIELD(prescale), FIELD(postscale), FIELD(wire), FIELD(stream)};

/* Does a struct of [bytes] hold whole fields, the process set at least? */
static bool holds_whole_fields(size_t bytes)
{
    bool whole = bytes >= option_fields[0].end && bytes <= MAX_OPTIONS_BYTES;
    for (size_t i = 0; i < sizeof(option_fields) / sizeof(option_fields[0]); i++)
        whole = whole && (bytes <= option_fields[i].begin || bytes >= option_fields[i].end);
    return whole;
}

/* The offset of the first byte that this library does not know and that is not 0; [bytes] if there is none.
 */
static size_t find_unknown(const struct hvd_options *options, size_t bytes)
{
    size_t at = sizeof(*options);
    while (at < bytes && ((const char *)options)[at] == 0)
        at++;
    return at;
}

/* Take options of another hvd.h: a shorter struct has the defaults for the rest. */
static int convert_options(const struct arguments *arguments, struct hvd_options *room, struct hvd_error *err)
{
    char title[ARGUMENTS_TITLE_BYTES];
    const struct hvd_options *given = arguments->options;
    size_t bytes = given->size;
    if (!holds_whole_fields(bytes))
        return error_set(
            err, HVD_ERR_INVALID,
            "%s: options.size is %zu; expected sizeof(struct hvd_options), which is %zu in the hvd.h "
            "of this library, %s (begin options with HVD_OPTIONS_INIT)",
            arguments_title(arguments, 0, title), bytes, sizeof(*room), PACKAGE_VERSION);
    size_t unknown = find_unknown(given, bytes);
    if (unknown < bytes)
        return error_set(
            err, HVD_ERR_INVALID,
            "%s: options has %zu bytes, and sets an option at byte %zu that this library, hvd %s, "
            "does not have; leave it 0, or use the library of the hvd.h that the program was compiled "
            "with",
            arguments_title(arguments, 0, title), bytes, unknown, PACKAGE_VERSION);
    memcpy(room, given, bytes < sizeof(*room) ? bytes : sizeof(*room));
    return HVD_OK;
}

int arguments_take_options(struct arguments *arguments, struct hvd_options *room, struct hvd_error *err)
{
    static const struct hvd_options defaults = HVD_OPTIONS_INIT;
    if (arguments->options != NULL && arguments->options->size == sizeof(*room))
        return HVD_OK;
    *room = defaults;
    int rc = arguments->options == NULL ? HVD_OK : convert_options(arguments, room, err);
    arguments->options = room;
    return rc;
}

/* ---- The whole ---------------------------------------------------------------------------------- */

static int check_results(const struct argument *argument, struct hvd_error *err)
{
    if (!argument->kind_traits->results || argument->arguments->results != NULL)
        return HVD_OK;
    return set_invalid(
        argument, err,
        "the pointer to the result%s is NULL; pass a zeroed struct hvd_result to let hvd allocate",
        argument->arguments->grouped ? "s" : "");
}

int arguments_check_again(const struct arguments *arguments, const struct membership *membership,
                          struct hvd_error *err)
{
    struct argument argument = {arguments, &traits_of_kind[arguments->kind], membership, arguments->tensors};
    int rc = check_results(&argument, err);
    for (int i = 0; rc == HVD_OK && i < arguments->count; i++) {
        argument.tensor = &arguments->tensors[i];
        if (argument.kind_traits->results)
            rc = check_shape(&argument, err);
        if (rc == HVD_OK)
            rc = check_memory(&argument, err);
    }
    return rc;
}

int arguments_check(const struct arguments *arguments, const struct membership *membership,
                    struct hvd_error *err)
{
    struct argument argument = {arguments, &traits_of_kind[arguments->kind], membership, arguments->tensors};
    const char *plural = arguments->grouped ? "s" : "";
    if (arguments->count < 1 || arguments->count > HVD_MAX_GROUP)
        return set_invalid(&argument, err, "count is %d; expected 1 to %d tensors", arguments->count,
                           HVD_MAX_GROUP);
    if (arguments->tensors == NULL)
        return set_invalid(&argument, err, "the pointer to the tensor%s is NULL", plural);
    int rc = check_results(&argument, err);
    for (int i = 0; rc == HVD_OK && i < arguments->count; i++) {
        argument.tensor = &arguments->tensors[i];
        rc = check_tensor(&argument, err);
    }
    return rc;
}

/* ---- Messages ----------------------------------------------------------------------------------- */

static int check_other_end(const struct argument *argument, struct hvd_error *err)
{
    const struct arguments *arguments = argument->arguments;
    const struct membership *membership = argument->membership;
    bool receives = arguments->kind == DESC_RECV;
    const char *or_any = receives ? ", or HVD_ANY_SOURCE" : "";
    if (membership->root >= 0 || (receives && arguments->root == HVD_ANY_SOURCE))
        return HVD_OK;
    if (membership->set == HVD_ALL_RANKS)
        return set_invalid(argument, err, "rank is %d; expected 0 to %d%s", arguments->root,
                           membership->size - 1, or_any);
    return set_invalid(argument, err,
                       "rank is %d; expected a member of process set %d, by its rank in the job%s",
                       arguments->root, membership->set, or_any);
}

static int check_message_memory(const struct argument *argument, struct hvd_error *err)
{
    const struct hvd_tensor *tensor = argument->tensor;
    bool sends = argument->arguments->kind == DESC_SEND;
    if (arguments_element_count(tensor) == 0 || (sends ? tensor->input : tensor->output) != NULL)
        return HVD_OK;
    return set_invalid(argument, err, "%s is NULL, but there are %lld elements to %s",
                       sends ? "input" : "output", (long long)arguments_element_count(tensor),
                       sends ? "read" : "write");
}

int arguments_check_message(const struct arguments *arguments, const struct membership *membership,
                            struct hvd_error *err)
{
    struct argument argument = {arguments, &traits_of_kind[arguments->kind], membership, arguments->tensors};
    if (arguments->tensors == NULL)
        return set_invalid(&argument, err, "the pointer to the tensor is NULL");
    int rc = check_shape(&argument, err);
    if (rc == HVD_OK)
        rc = check_plain(&argument, err);
    if (rc == HVD_OK)
        rc = check_other_end(&argument, err);
    if (rc == HVD_OK && arguments->tag < 0)
        rc = set_invalid(&argument, err, "tag is %d; expected 0 or more", arguments->tag);
    if (rc == HVD_OK)
        rc = check_memory_kind(&argument, err);
    return rc == HVD_OK ? check_message_memory(&argument, err) : rc;
}
