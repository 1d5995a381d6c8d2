/* descs.h: descriptions of operations, for tests. */
#ifndef TESTS_UNIT_DESCS_H
#define TESTS_UNIT_DESCS_H

#include <stdarg.h>
#include <stdio.h>

#include "negotiate/desc.h"

/* An allreduce of one float32 tensor of one dimension. The caller may change it before it is shared. */
static inline struct desc *desc_vector(const char *name, int64_t extent)
{
    struct desc *desc = desc_create(1);
    desc->kind = DESC_ALLREDUCE;
    desc->tensors[0].dtype = HVD_FLOAT32;
    desc->tensors[0].ndim = 1;
    desc->tensors[0].shape[0] = extent;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s", name);
    return desc;
}

/* A group of [count] of them, named "a", "b", ..., "z", "a", ... */
static inline struct desc *desc_group(int count, int64_t extent)
{
    struct desc *desc = desc_create(count);
    desc->kind = DESC_ALLREDUCE;
    desc->grouped = true;
    for (int i = 0; i < count; i++) {
        desc->tensors[i].dtype = HVD_FLOAT32;
        desc->tensors[i].ndim = 1;
        desc->tensors[i].shape[0] = extent;
        snprintf(desc->tensors[i].name, sizeof(desc->tensors[i].name), "%c", 'a' + i % 26);
    }
    return desc;
}

/* An operation of hvd's own. */
static inline struct desc *desc_own(enum desc_kind kind, hvd_set set, const char *name)
{
    struct desc *desc = desc_create(1);
    desc->kind = kind;
    desc->set = set;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s", name);
    return desc;
}

/* Makes the set of [count] ranks that reads [list]. */
static inline struct desc *desc_set_add(const char *list, int count)
{
    struct desc *desc = desc_own(DESC_SET_ADD, HVD_ALL_RANKS, list);
    desc->tensors[0].ndim = 2;
    desc->tensors[0].shape[0] = count;
    return desc;
}

/* The same for ranks that make it by themselves. */
static inline struct desc *desc_set_add_by_members(const char *list, int count)
{
    struct desc *desc = desc_set_add("\001", count);
    desc->by_members = true;
    snprintf(desc->tensors[0].name + 1, sizeof(desc->tensors[0].name) - 1, "%s", list);
    return desc;
}

static inline struct desc *desc_set_remove(hvd_set set)
{
    struct desc *desc = desc_own(DESC_SET_REMOVE, HVD_ALL_RANKS, DESC_SET_REMOVE_NAME);
    desc->root = set;
    return desc;
}

#endif
