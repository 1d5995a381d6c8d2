/* desc.c: the description of an operation: what must be equal on all ranks. */
#include "negotiate/desc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backend_id.h"
#include "base/dtype.h"

static const char *const kind_names[DESC_KIND_COUNT] = {
    [DESC_ALLREDUCE] = "allreduce",
    [DESC_BROADCAST] = "broadcast",
    [DESC_ALLGATHER] = "allgather",
    [DESC_ALLTOALL] = "alltoall",
    [DESC_REDUCESCATTER] = "reducescatter",
    [DESC_REDUCE] = "reduce",
    [DESC_GATHER] = "gather",
    [DESC_SCATTER] = "scatter",
    [DESC_BARRIER] = "barrier",
    [DESC_JOIN] = "join",
    [DESC_SET_ADD] = "hvd_set_add",
    [DESC_SET_REMOVE] = "hvd_set_remove",
    [DESC_SHUTDOWN] = "hvd_shutdown",
    [DESC_SEND] = "send",
    [DESC_RECV] = "recv",
    [DESC_EXCHANGE] = "exchange",
};

const char *desc_kind_name(enum desc_kind kind)
{
    return kind_names[kind];
}

/* Not by calloc, as in request_create. */
struct desc *desc_create(int tensor_count)
{
    size_t tensors_bytes = (size_t)tensor_count * sizeof(struct desc_tensor);
    struct desc *desc = malloc(sizeof(*desc) + tensors_bytes);
    if (desc == NULL)
        return NULL;
    *desc = (struct desc){.refcount = 1, .prescale = 1, .postscale = 1, .tensor_count = tensor_count};
    memset(desc->tensors, 0, tensors_bytes);
    return desc;
}

struct desc *desc_hold(const struct desc *desc)
{
    struct desc *held =
        (struct desc *)desc; /* only the reference count changes; callers keep const pointers */
    atomic_fetch_add_explicit(&held->refcount, 1, memory_order_relaxed);
    return held;
}

void desc_release(const struct desc *desc)
{
    struct desc *held = (struct desc *)desc;
    if (held != NULL && atomic_fetch_sub_explicit(&held->refcount, 1, memory_order_acq_rel) == 1)
        free(held);
}

const char *desc_name(const struct desc *desc)
{
    return desc->kind == DESC_SET_ADD && !desc->by_members ? DESC_SET_ADD_NAME : desc->tensors[0].name;
}

static bool same_dims(const struct desc_tensor *a, const struct desc_tensor *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

static bool same_tensor(const struct desc_tensor *a, const struct desc_tensor *b)
{
    return a->dtype == b->dtype && a->on_device == b->on_device && same_dims(a, b) &&
           strcmp(a->name, b->name) == 0;
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

bool desc_is_on_device(const struct desc *desc)
{
    for (int i = 0; i < desc->tensor_count; i++)
        if (!desc->tensors[i].on_device)
            return false;
    return true;
}

bool desc_equal(const struct desc *a, const struct desc *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->set != b->set || a->op != b->op || a->wire != b->wire ||
        !same_bits(a->prescale, b->prescale) || !same_bits(a->postscale, b->postscale) ||
        a->root != b->root || a->splits != b->splits || a->grouped != b->grouped ||
        a->persistent != b->persistent || a->by_members != b->by_members ||
        a->tensor_count != b->tensor_count)
        return false;
    for (int i = 0; i < a->tensor_count; i++) {
        if (!same_tensor(&a->tensors[i], &b->tensors[i]))
            return false;
    }
    return true;
}

int64_t desc_elements(enum hvd_dtype dtype, const int64_t *shape, int ndim)
{
    int64_t count = 1;
    int64_t bytes = 0;
    bool empty = false;
    bool large = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return -1;
        if (shape[i] == 0)
            empty = true;
        else
            large |= __builtin_mul_overflow(count, shape[i], &count);
    }
    large |= __builtin_mul_overflow(count, (int64_t)dtype_bytes(dtype), &bytes);
    if (empty)
        return 0;
    return large || bytes > BYTES_MAX ? -1 : count;
}

int64_t desc_count(const struct desc_tensor *tensor)
{
    return desc_elements(tensor->dtype, tensor->shape, tensor->ndim);
}

bool desc_allows_joined(const struct desc *desc)
{
    if (desc->kind == DESC_BARRIER || desc->kind == DESC_JOIN)
        return true;
    return desc->kind == DESC_ALLREDUCE && !desc->persistent &&
           (desc->op == HVD_SUM || desc->op == HVD_AVERAGE || desc->op == HVD_ADASUM || desc->op == HVD_BOR ||
            desc->op == HVD_BXOR);
}

/* ---- Texts ---------------------------------------------------------------------------------- */

/* Is the operation known to users by the name of its first tensor? */
static bool has_name(const struct desc *desc)
{
    return desc->kind < DESC_NAMED_COUNT && (unsigned char)desc->tensors[0].name[0] >= ' ';
}

/* Is it the barrier that ranks do instead of making a set that exists already? It has the name of the
 * operation that makes a set. */
static bool adds_existing(const struct desc *desc)
{
    return desc->kind == DESC_BARRIER && strcmp(desc->tensors[0].name, DESC_SET_ADD_NAME) == 0;
}

/* Write `allreduce "w"` or `barrier`, without the group or the process set. */
static int write_operation(const struct desc *desc, char *text, size_t text_bytes)
{
    if (has_name(desc))
        return snprintf(text, text_bytes, "%s \"%s\"", kind_names[desc->kind], desc->tensors[0].name);
    if (strcmp(desc->tensors[0].name, DESC_STOP_NAME) == 0)
        return snprintf(text, text_bytes, "hvd_should_stop");
    return snprintf(text, text_bytes, "%s", kind_names[adds_existing(desc) ? DESC_SET_ADD : desc->kind]);
}

/* Append the process set to the first [used] bytes of the text, unless it is all ranks. */
static void add_set(const struct desc *desc, int used, char *text, size_t text_bytes)
{
    if (desc->set != HVD_ALL_RANKS && used >= 0 && (size_t)used < text_bytes)
        snprintf(text + used, text_bytes - (size_t)used, " in process set %d", desc->set);
}

void desc_title(const struct desc *desc, char *text, size_t text_bytes)
{
    int used = 0;
    if (desc->by_members)
        used = snprintf(text, text_bytes, "hvd_set_add_by_members of ranks %s", desc->tensors[0].name + 1);
    else if (desc->kind == DESC_SET_ADD)
        used = snprintf(text, text_bytes, "hvd_set_add of ranks %s", desc->tensors[0].name);
    else if (desc->kind == DESC_SET_REMOVE)
        used = snprintf(text, text_bytes, "hvd_set_remove of process set %d", desc->root);
    else if (desc->kind == DESC_EXCHANGE)
        used = snprintf(text, text_bytes, "exchange of %d messages", desc->tensor_count);
    else if (desc_is_message(desc->kind))
        used = snprintf(text, text_bytes, "%s %s", kind_names[desc->kind], desc->tensors[0].name);
    else if (desc->grouped && desc->tensor_count > 1)
        used = snprintf(text, text_bytes, "%s %s \"%s\" and %d more",
                        desc->persistent ? "persistent" : "grouped", kind_names[desc->kind],
                        desc->tensors[0].name, desc->tensor_count - 1);
    else if (desc->persistent)
        used =
            snprintf(text, text_bytes, "persistent %s \"%s\"", kind_names[desc->kind], desc->tensors[0].name);
    else
        used = write_operation(desc, text, text_bytes);
    add_set(desc, used, text, text_bytes);
}

/* Write "float32[64,128]", and the tensor's name if there are several tensors. */
static void write_tensor(const struct desc *desc, int index, char *text, size_t text_bytes)
{
    const struct desc_tensor *tensor = &desc->tensors[index];
    size_t used = (size_t)snprintf(text, text_bytes, "%s[", dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->ndim && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%" PRId64, i == 0 ? "" : ",",
                                 tensor->shape[i]);
    if (used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used, "]");
    if (used < text_bytes && desc->tensor_count > 1)
        snprintf(text + used, text_bytes - used, " as \"%s\"", tensor->name);
}

/* Write "float32 on a GPU", and the tensor's name if there are several tensors. */
static void write_memory(const struct desc *desc, int index, char *text, size_t text_bytes)
{
    const struct desc_tensor *tensor = &desc->tensors[index];
    const char *where = tensor->on_device ? "on a GPU" : "in host memory";
    if (desc->tensor_count > 1)
        snprintf(text, text_bytes, "%s %s as \"%s\"", dtype_name(tensor->dtype), where, tensor->name);
    else
        snprintf(text, text_bytes, "%s %s", dtype_name(tensor->dtype), where);
}

/* Write the difference of two operations whose first dimension may differ between ranks: the other
 * dimensions. */
static void write_rows(const struct desc *a, const struct desc *b, int index, char *text, size_t text_bytes)
{
    const struct desc_tensor *tensor = &a->tensors[index];
    const struct desc_tensor *other = &b->tensors[index];
    size_t used = 0;
    int dim = 1;
    while (dim < tensor->ndim && dim < other->ndim && tensor->shape[dim] == other->shape[dim])
        dim++;
    if (tensor->dtype != other->dtype)
        used = (size_t)snprintf(text, text_bytes, "%s", dtype_name(tensor->dtype));
    else if (tensor->ndim != other->ndim)
        used =
            (size_t)snprintf(text, text_bytes, "%d dimension%s", tensor->ndim, tensor->ndim == 1 ? "" : "s");
    else
        used = (size_t)snprintf(text, text_bytes, "%" PRId64 " in dimension %d",
                                tensor->shape[dim % HVD_MAX_DIMS], dim);
    if (used < text_bytes && a->tensor_count > 1)
        snprintf(text + used, text_bytes - used, " as \"%s\"", tensor->name);
}

static void write_group(const struct desc *desc, char *text, size_t text_bytes)
{
    if (desc->grouped)
        snprintf(text, text_bytes, "a group of %d tensor%s", desc->tensor_count,
                 desc->tensor_count == 1 ? "" : "s");
    else
        snprintf(text, text_bytes, "a tensor alone");
}

static void write_persistence(const struct desc *desc, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", desc->persistent ? "a persistent operation" : "one that runs once");
}

/* Write the fewest digits that give the same number again. */
static void write_factor(const char *which, double factor, char *text, size_t text_bytes)
{
    char digits[40] = "";
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, factor);
        if (same_bits(strtod(digits, NULL), factor))
            break;
    }
    snprintf(text, text_bytes, "%s %s", which, digits);
}

/* Write whether it has splits; where the other one has some too, their hash. */
static void write_splits(const struct desc *desc, const struct desc *other, char *text, size_t text_bytes)
{
    if (desc->splits == 0 || other->splits == 0)
        snprintf(text, text_bytes, desc->splits == 0 ? "no splits" : "splits");
    else
        snprintf(text, text_bytes, "splits (list %" PRIx64 ")", desc->splits);
}

/* Write the process set that the operation adds or removes. */
static void write_set(const struct desc *desc, bool same_text, char *text, size_t text_bytes)
{
    const struct desc_tensor *list = &desc->tensors[0];
    if (desc->kind == DESC_SET_REMOVE)
        snprintf(text, text_bytes, "process set %d", desc->root);
    else if (desc->kind != DESC_SET_ADD)
        snprintf(text, text_bytes, "the ranks of process set %d", desc->root);
    else if (!same_text)
        snprintf(text, text_bytes, "process set %s", list->name);
    else
        snprintf(text, text_bytes, "process set %s of %" PRId64 " ranks (list %" PRIx64 ")", list->name,
                 list->shape[0], list->shape[1]);
}

static int first_differing_name(const struct desc *a, const struct desc *b)
{
    int i = 0;
    while (i < a->tensor_count && strcmp(a->tensors[i].name, b->tensors[i].name) == 0)
        i++;
    return i;
}

static int first_differing_tensor(const struct desc *a, const struct desc *b)
{
    int i = 0;
    while (i < a->tensor_count && same_tensor(&a->tensors[i], &b->tensors[i]))
        i++;
    return i;
}

/* Find a difference in what the two operations are; false if there is none. */
static bool compare_headers(const struct desc *a, const struct desc *b, struct desc_difference *difference)
{
    bool sets = strcmp(desc_name(a), DESC_SET_ADD_NAME) == 0 || a->kind == DESC_SET_REMOVE;
    int used = 0;
    if (sets && !desc_equal(a, b)) {
        bool same_text = a->kind == b->kind && strcmp(a->tensors[0].name, b->tensors[0].name) == 0;
        used = write_operation(a, difference->what, sizeof(difference->what));
        write_set(a, same_text, difference->a, sizeof(difference->a));
        write_set(b, same_text, difference->b, sizeof(difference->b));
    } else if (a->kind != b->kind) {
        used = snprintf(difference->what, sizeof(difference->what), "\"%s\"", a->tensors[0].name);
        snprintf(difference->a, sizeof(difference->a), "%s", kind_names[a->kind]);
        snprintf(difference->b, sizeof(difference->b), "%s", kind_names[b->kind]);
    } else if (a->persistent != b->persistent) {
        used = write_operation(a, difference->what, sizeof(difference->what));
        write_persistence(a, difference->a, sizeof(difference->a));
        write_persistence(b, difference->b, sizeof(difference->b));
    } else if (a->grouped != b->grouped || a->tensor_count != b->tensor_count) {
        used = write_operation(a, difference->what, sizeof(difference->what));
        write_group(a, difference->a, sizeof(difference->a));
        write_group(b, difference->b, sizeof(difference->b));
    } else {
        return false;
    }
    add_set(a, used, difference->what, sizeof(difference->what));
    return true;
}

static bool compare_tensors(const struct desc *a, const struct desc *b, struct desc_difference *difference)
{
    bool rows = desc_is_sized_later(a->kind);
    int name = first_differing_name(a, b);
    int tensor = first_differing_tensor(a, b);
    if (name < a->tensor_count) {
        snprintf(difference->a, sizeof(difference->a), "\"%s\" as tensor %d of the group",
                 a->tensors[name].name, name + 1);
        snprintf(difference->b, sizeof(difference->b), "\"%s\" as tensor %d of the group",
                 b->tensors[name].name, name + 1);
    } else if (tensor < a->tensor_count && a->tensors[tensor].on_device != b->tensors[tensor].on_device) {
        write_memory(a, tensor, difference->a, sizeof(difference->a));
        write_memory(b, tensor, difference->b, sizeof(difference->b));
    } else if (tensor < a->tensor_count && rows) {
        write_rows(a, b, tensor, difference->a, sizeof(difference->a));
        write_rows(b, a, tensor, difference->b, sizeof(difference->b));
    } else if (tensor < a->tensor_count) {
        write_tensor(a, tensor, difference->a, sizeof(difference->a));
        write_tensor(b, tensor, difference->b, sizeof(difference->b));
    } else {
        return false;
    }
    return true;
}

static bool compare_options(const struct desc *a, const struct desc *b, struct desc_difference *difference)
{
    if (a->op != b->op) {
        snprintf(difference->a, sizeof(difference->a), "%s", op_name(a->op));
        snprintf(difference->b, sizeof(difference->b), "%s", op_name(b->op));
    } else if (!same_bits(a->prescale, b->prescale)) {
        write_factor("prescale", a->prescale, difference->a, sizeof(difference->a));
        write_factor("prescale", b->prescale, difference->b, sizeof(difference->b));
    } else if (!same_bits(a->postscale, b->postscale)) {
        write_factor("postscale", a->postscale, difference->a, sizeof(difference->a));
        write_factor("postscale", b->postscale, difference->b, sizeof(difference->b));
    } else if (a->wire != b->wire) {
        snprintf(difference->a, sizeof(difference->a), "wire %s", wire_name(a->wire));
        snprintf(difference->b, sizeof(difference->b), "wire %s", wire_name(b->wire));
    } else if (a->root != b->root) {
        snprintf(difference->a, sizeof(difference->a), "root %d", a->root);
        snprintf(difference->b, sizeof(difference->b), "root %d", b->root);
    } else if (a->splits != b->splits) {
        write_splits(a, b, difference->a, sizeof(difference->a));
        write_splits(b, a, difference->b, sizeof(difference->b));
    } else {
        return false;
    }
    return true;
}

static void write_backends(uint32_t backends, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "backends");
    for (int backend = 0; backend < BACKEND_COUNT && used < text_bytes; backend++) {
        if ((backends >> backend & 1) != 0)
            used += (size_t)snprintf(text + used, text_bytes - used, " %s", backend_names[backend]);
    }
    if (backends == 0)
        snprintf(text, text_bytes, "no backend for it");
}

bool desc_compare(const struct desc *a, const struct desc *b, struct desc_difference *difference)
{
    if (compare_headers(a, b, difference))
        return true;
    desc_title(a, difference->what, sizeof(difference->what));
    return compare_tensors(a, b, difference) || compare_options(a, b, difference);
}

void desc_compare_backends(const struct desc *desc, uint32_t a, uint32_t b,
                           struct desc_difference *difference)
{
    desc_title(desc, difference->what, sizeof(difference->what));
    write_backends(a, difference->a, sizeof(difference->a));
    write_backends(b, difference->b, sizeof(difference->b));
}
