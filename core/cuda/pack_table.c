/* pack_table.c: cut the pieces of a plan into tiles, and write the table that says which piece is in which.
 */
#include "cuda/pack_table.h"

#include "base/dtype.h"
#include "base/round_up.h"

#define COUNT_MAX  (INT64_C(1) << 52) /* elements of a piece, or before it */
#define COUNT_BITS ((INT64_C(1) << 55) - 1)

bool pack_supports(enum hvd_dtype dtype, enum hvd_dtype buffer_dtype)
{
    bool half = dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16;
    bool half_buffer = buffer_dtype == HVD_FLOAT16 || buffer_dtype == HVD_BFLOAT16;
    if (dtype_bytes(dtype) == 0 || dtype_bytes(buffer_dtype) == 0)
        return false;
    return dtype == buffer_dtype || (half && buffer_dtype == HVD_FLOAT32) ||
           (half_buffer && dtype == HVD_FLOAT32);
}

static int64_t piece_work(const struct pack_piece *piece, enum hvd_dtype buffer_dtype)
{
    size_t tensor = dtype_bytes(piece->dtype);
    size_t buffer = dtype_bytes(buffer_dtype);
    return round_up(piece->count * (int64_t)(tensor > buffer ? tensor : buffer), PACK_GROUP_BYTES);
}

static int check_piece(const struct pack_piece *piece, enum hvd_dtype buffer_dtype, struct hvd_error *err)
{
    if (!pack_supports(piece->dtype, buffer_dtype)) {
        const char *name = dtype_name(piece->dtype);
        const char *buffer_name = dtype_name(buffer_dtype);
        return error_set(
            err, HVD_ERR_UNSUPPORTED,
            "a GPU cannot pack a tensor of %s into a buffer of %s: expected the same type, or float32 and "
            "float16 or bfloat16",
            name != NULL ? name : "an unknown type", buffer_name != NULL ? buffer_name : "an unknown type");
    }
    if (piece->count < 0 || piece->count > COUNT_MAX || piece->buffer_at < 0 || piece->buffer_at > COUNT_MAX)
        return error_set(err, HVD_ERR_INVALID,
                         "a tensor of %lld elements at element %lld of a buffer: expected 0 to 2^52 of both",
                         (long long)piece->count, (long long)piece->buffer_at);
    return HVD_OK;
}

int pack_layout(const struct pack_list *list, int64_t workers, struct pack_layout *layout,
                struct hvd_error *err)
{
    const int64_t row = PACK_LANES * PACK_GROUP_BYTES; /* what a warp loads at once */
    struct pack_layout made = {0};
    for (int i = 0; i < list->count; i++) {
        int rc = check_piece(&list->pieces[i], list->buffer_dtype, err);
        if (rc != HVD_OK)
            return rc;
        if (__builtin_add_overflow(made.work_bytes, piece_work(&list->pieces[i], list->buffer_dtype),
                                   &made.work_bytes))
            return error_set(err, HVD_ERR_INVALID, "tensors of more than 2^63 bytes cannot be packed");
        made.entry_count += list->pieces[i].count > 0;
    }
    made.tile_bytes = round_up(made.work_bytes / workers + 1, row);
    if (made.tile_bytes > PACK_TILE_BYTES)
        made.tile_bytes = PACK_TILE_BYTES;
    made.tile_count = (made.work_bytes + made.tile_bytes - 1) / made.tile_bytes;
    made.first_at = (size_t)(made.entry_count + 1) * sizeof(struct pack_entry);
    made.table_bytes = made.first_at + (size_t)made.tile_count * sizeof(uint32_t);
    *layout = made;
    return HVD_OK;
}

void pack_table_fill(const struct pack_layout *layout, const struct pack_list *list, void *memory)
{
    struct pack_entry *entries = memory;
    uint32_t *first = (uint32_t *)(void *)((char *)memory + layout->first_at);
    int64_t work_at = 0;
    int64_t tile = 0;
    uint32_t used = 0;
    for (int i = 0; i < list->count; i++) {
        const struct pack_piece *piece = &list->pieces[i];
        if (piece->count == 0)
            continue;
        entries[used] =
            (struct pack_entry){.work_at = work_at,
                                .tensor = (uint64_t)(uintptr_t)piece->tensor,
                                .buffer_at = (uint64_t)piece->buffer_at * dtype_bytes(list->buffer_dtype),
                                .count = piece->count & COUNT_BITS,
                                .dtype = piece->dtype};
        work_at += piece_work(piece, list->buffer_dtype);
        for (; tile < layout->tile_count && tile * layout->tile_bytes < work_at; tile++)
            first[tile] = used;
        used++;
    }
    entries[used] = (struct pack_entry){.work_at = work_at};
}

struct pack_table pack_table_at(const struct pack_layout *layout, uint64_t address)
{
    return (struct pack_table){.entries = (const struct pack_entry *)(uintptr_t)address,
                               .first = (const uint32_t *)(uintptr_t)(address + layout->first_at),
                               .work_bytes = layout->work_bytes,
                               .tile_bytes = layout->tile_bytes,
                               .tile_count = layout->tile_count};
}
