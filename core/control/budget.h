/* budget.h: whether a node's memory can hold the fusion buffers that its ranks ask for. */
#ifndef CONTROL_BUDGET_H
#define CONTROL_BUDGET_H

#include <stdint.h>

#include "base/status.h"

/* HVD_OK, or HVD_ERR_NO_MEMORY where [rank_count] buffers are more than [node_bytes]; 0: not known. Pure. */
int budget_check(int64_t fusion_bytes, int rank_count, int64_t node_bytes, const char *host,
                 struct hvd_error *err);

/* Physical memory of this node, 0 where it cannot be told. */
int64_t budget_node_bytes(void);

#endif
