/* desc.c: the description of an operation: what must be equal on all ranks. */
#include "flow/desc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plane/plane.h"

static const char *const kind_names[DESC_KIND_COUNT] = {[DESC_ALLREDUCE] = "allreduce",
                                                        [DESC_BROADCAST] = "broadcast",
                                                        [DESC_BARRIER] = "barrier",
                                                        [DESC_SHUTDOWN] = "hvd_shutdown"};

static bool same_shape(const struct desc *a, const struct desc *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

bool desc_equal(const struct desc *a, const struct desc *b)
{
    return a->kind == b->kind && a->op == b->op && a->root == b->root && same_shape(a, b) &&
           strcmp(a->name, b->name) == 0;
}

int64_t desc_count(const struct desc *desc)
{
    int64_t count = 1;
    bool empty = false;
    for (int i = 0; i < desc->ndim; i++) {
        if (desc->shape[i] < 0)
            return -1;
        empty = empty || desc->shape[i] == 0;
    }
    for (int i = 0; i < desc->ndim && !empty; i++) {
        if (__builtin_mul_overflow(count, desc->shape[i], &count))
            return -1;
    }
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, (int64_t)dtype_bytes(desc->dtype), &bytes))
        return -1;
    return empty ? 0 : count;
}

void desc_title(const struct desc *desc, char *text, size_t text_bytes)
{
    bool named = desc->kind == DESC_ALLREDUCE || desc->kind == DESC_BROADCAST;
    if (named)
        snprintf(text, text_bytes, "%s \"%s\"", kind_names[desc->kind], desc->name);
    else
        snprintf(text, text_bytes, "%s", kind_names[desc->kind]);
}

static void write_shape(const struct desc *desc, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "%s[", dtype_name(desc->dtype));
    for (int i = 0; i < desc->ndim && used < text_bytes; i++)
        used +=
            (size_t)snprintf(text + used, text_bytes - used, "%s%" PRId64, i == 0 ? "" : ",", desc->shape[i]);
    if (used < text_bytes)
        snprintf(text + used, text_bytes - used, "]");
}

static void write_planes(const struct desc *desc, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "planes");
    for (int plane = 0; plane < PLANE_COUNT && used < text_bytes; plane++) {
        if ((desc->planes >> plane & 1) != 0)
            used += (size_t)snprintf(text + used, text_bytes - used, " %s", plane_names[plane]);
    }
    if (desc->planes == 0)
        snprintf(text, text_bytes, "no plane for it");
}

void desc_compare(const struct desc *a, const struct desc *b, struct desc_difference *difference)
{
    desc_title(a, difference->what, sizeof(difference->what));
    if (a->kind != b->kind) {
        snprintf(difference->what, sizeof(difference->what), "\"%s\"", a->name);
        snprintf(difference->a, sizeof(difference->a), "%s", kind_names[a->kind]);
        snprintf(difference->b, sizeof(difference->b), "%s", kind_names[b->kind]);
    } else if (!same_shape(a, b)) {
        write_shape(a, difference->a, sizeof(difference->a));
        write_shape(b, difference->b, sizeof(difference->b));
    } else if (a->op != b->op) {
        snprintf(difference->a, sizeof(difference->a), "%s", op_name(a->op));
        snprintf(difference->b, sizeof(difference->b), "%s", op_name(b->op));
    } else if (a->root != b->root) {
        snprintf(difference->a, sizeof(difference->a), "root %d", a->root);
        snprintf(difference->b, sizeof(difference->b), "root %d", b->root);
    } else {
        write_planes(a, difference->a, sizeof(difference->a));
        write_planes(b, difference->b, sizeof(difference->b));
    }
}
