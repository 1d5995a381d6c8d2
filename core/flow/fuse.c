/* fuse.c: pack agreed operations into batches. Pure. */
#include "flow/fuse.h"

/* Batches that later items may still join. More kinds than this at once just fuse less. */
#define OPEN_BATCHES 16

struct open_batch {
    const struct fuse_item *first;
    int number;
    int64_t bytes;
};

static bool may_share(const struct fuse_item *a, const struct fuse_item *b)
{
    return a->plane == b->plane && a->desc->kind == b->desc->kind && a->desc->dtype == b->desc->dtype &&
           a->desc->op == b->desc->op && a->desc->root == b->desc->root;
}

int fuse_plan(const struct fuse_item *items, int item_count, int64_t threshold_bytes, int *batch_of_item)
{
    struct open_batch open[OPEN_BATCHES] = {{0}};
    int open_count = 0;
    int batch_count = 0;
    for (int i = 0; i < item_count; i++) {
        const struct fuse_item *item = &items[i];
        int at = 0;
        while (at < open_count && !may_share(open[at].first, item))
            at++;
        bool alone = item->bytes == 0 || item->bytes >= threshold_bytes;
        bool fits = !alone && at < open_count && item->bytes <= threshold_bytes - open[at].bytes;
        if (fits) {
            open[at].bytes += item->bytes;
            batch_of_item[i] = open[at].number;
            continue;
        }
        batch_of_item[i] = batch_count++;
        if (alone)
            continue;
        if (at == open_count && open_count < OPEN_BATCHES)
            open_count++;
        if (at < OPEN_BATCHES)
            open[at] = (struct open_batch){.first = item, .number = batch_of_item[i], .bytes = item->bytes};
    }
    return batch_count;
}
