/* pattern.h: what ranks fill tensors with, so that their sums are known everywhere. */
#ifndef TOOLS_HVDBENCH_PATTERN_H
#define TOOLS_HVDBENCH_PATTERN_H

#include "base/status.h"

/* Elements of one type: small numbers that differ between ranks and repeat with a prime period, so that
 * neither a wrong rank nor a wrong place goes unnoticed, and that every type holds exactly. Zero it first. */
struct pattern {
    enum hvd_dtype dtype;
    unsigned char *own;    /* what this rank has */
    unsigned char *summed; /* what all ranks have together */
};

int pattern_init(struct pattern *pattern, enum hvd_dtype dtype, int rank, int size, struct hvd_error *err);
void pattern_fini(struct pattern *pattern); /* fine on a zeroed one */

/* Write [count] elements, beginning at the place [shift] >= 0 of the pattern. */
void pattern_fill(const struct pattern *pattern, void *data, int64_t count, int64_t shift);

/* The first element that is not the sum over the ranks of what pattern_fill wrote; -1 where all are. */
int64_t pattern_find_wrong(const struct pattern *pattern, const void *data, int64_t count, int64_t shift);

/* The same for what pattern_fill wrote here. */
int64_t pattern_find_changed(const struct pattern *pattern, const void *data, int64_t count, int64_t shift);

#endif
