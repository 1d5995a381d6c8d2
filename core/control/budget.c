/* budget.c: whether a node's memory can hold the fusion buffers that its ranks ask for. */
#include "control/budget.h"

#include <unistd.h>

#include "base/parse.h"

#define GIB (INT64_C(1) << 30)

int budget_check(int64_t fusion_bytes, int rank_count, int64_t node_bytes, const char *host,
                 struct hvd_error *err)
{
    char fusion[32], needed[32], present[32];
    int64_t needed_bytes = INT64_MAX;
    if (node_bytes <= 0)
        return HVD_OK;
    if (!__builtin_mul_overflow(fusion_bytes, rank_count, &needed_bytes) && needed_bytes <= node_bytes)
        return HVD_OK;
    format_size(fusion_bytes, fusion, sizeof(fusion));
    format_size(needed_bytes, needed, sizeof(needed));
    format_size(node_bytes >= GIB ? node_bytes / GIB * GIB : node_bytes, present, sizeof(present));
    return error_set(err, HVD_ERR_NO_MEMORY,
                     "fusion=%s for %d ranks on %s needs %s, but the node has %s; lower --hvd-fusion", fusion,
                     rank_count, host, needed, present);
}

int64_t budget_node_bytes(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE), bytes = 0;
    if (pages <= 0 || page_bytes <= 0 || __builtin_mul_overflow(pages, page_bytes, &bytes))
        return 0;
    return bytes;
}
