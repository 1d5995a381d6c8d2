/* pack_table.h: the table of pieces and tiles by which a kernel finds its work. Pure. */
#ifndef CUDA_PACK_TABLE_H
#define CUDA_PACK_TABLE_H

#include <stddef.h>

#include "cuda/pack.h"
#include "cuda/pack_kernel.h"

struct pack_layout {
    int entry_count; /* pieces with elements */
    int64_t work_bytes, tile_bytes, tile_count;
    size_t first_at, table_bytes; /* of the table: the offset of [first], and the size */
};

/* Divide the work into tiles for [workers] warps, whose numbers of tiles differ by at most one. Rejects the
 * same pieces as pack_plan_get. */
int pack_layout(const struct pack_list *list, int64_t workers, struct pack_layout *layout,
                struct hvd_error *err);

/* Write the table of the same pieces into [memory], which is aligned to 32 bytes and has
 * layout->table_bytes. */
void pack_table_fill(const struct pack_layout *layout, const struct pack_list *list, void *memory);

/* The table for the kernel, if a copy of that memory is at [address]. */
struct pack_table pack_table_at(const struct pack_layout *layout, uint64_t address);

#endif
