/* fuse.c: which of the tensors that were decided together share a batch. Pure. */
#include "flow/batch/fuse.h"

#include <string.h>

#include "base/hash.h"

/* Lists into which kinds are hashed: a thousand kinds are still found quickly. */
#define KIND_LISTS 64
#define NO_KIND    (-1)

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static bool can_fuse(const struct fuse_item *a, const struct fuse_item *b)
{
    const struct desc *x = a->desc;
    const struct desc *y = b->desc;
    if ((x->persistent || y->persistent) && x != y)
        return false; /* one operation's batches are started together, and no other's */
    return a->backend == b->backend && a->nccl == b->nccl && x->kind == y->kind && x->set == y->set &&
           x->tensors[a->index].dtype == y->tensors[b->index].dtype &&
           x->tensors[a->index].on_device == y->tensors[b->index].on_device && x->op == y->op &&
           x->wire == y->wire && x->root == y->root && same_bits(x->prescale, y->prescale) &&
           same_bits(x->postscale, y->postscale);
}

static unsigned kind_list(const struct fuse_item *item)
{
    const struct desc *desc = item->desc;
    const int key[] = {item->backend, (int)desc->kind, desc->set, (int)desc->tensors[item->index].dtype,
                       (int)desc->op, desc->root};
    return (unsigned)(hash_bytes(key, sizeof(key)) % KIND_LISTS);
}

static bool stays_alone(const struct fuse_item *item, int64_t threshold_bytes)
{
    return item->bytes == 0 || item->bytes >= threshold_bytes || desc_is_alltoall(item->desc->kind) ||
           (item->desc->kind == DESC_ALLREDUCE && item->desc->op == HVD_ADASUM);
}

/* The first item of [item]'s kind, which knows the open batch; [item] itself where it is the first. */
static struct fuse_item *find_kind(struct fuse_item *items, int lists[KIND_LISTS], struct fuse_item *item)
{
    int *list = &lists[kind_list(item)];
    int at = *list;
    while (at != NO_KIND && !can_fuse(&items[at], item))
        at = items[at].next_kind;
    if (at != NO_KIND)
        return &items[at];
    item->next_kind = *list;
    *list = (int)(item - items);
    return item;
}

int fuse_plan(struct fuse_item *items, int item_count, int64_t threshold_bytes)
{
    int lists[KIND_LISTS];
    int batch_count = 0;
    struct fuse_item *first = NULL;
    for (int i = 0; i < KIND_LISTS; i++)
        lists[i] = NO_KIND;
    for (int i = 0; i < item_count; i++) {
        struct fuse_item *item = &items[i];
        if (stays_alone(item, threshold_bytes)) {
            item->batch = batch_count++;
            continue;
        }
        if (first == NULL || !can_fuse(first, item)) /* mostly of the same kind as the item before */
            first = find_kind(items, lists, item);
        if (first != item && item->bytes <= threshold_bytes - first->open_bytes) {
            first->open_bytes += item->bytes;
        } else {
            first->open_batch = batch_count++;
            first->open_bytes = item->bytes;
        }
        item->batch = first->open_batch;
    }
    return batch_count;
}
