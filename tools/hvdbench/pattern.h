/* pattern.h: values with which ranks fill tensors, so that every rank knows the sums. */
#ifndef TOOLS_HVDBENCH_PATTERN_H
#define TOOLS_HVDBENCH_PATTERN_H

#include "base/status.h"

/* Elements of one type: small integers, which every type represents exactly. They differ between ranks and
 * repeat with a prime period, so that data of a wrong rank or a wrong offset is noticed. Zero the struct
 * first. */
struct pattern {
    enum hvd_dtype dtype;
    unsigned char *own;    /* this rank's values */
    unsigned char *summed; /* the sums over all ranks */
};

int pattern_init(struct pattern *pattern, enum hvd_dtype dtype, int rank, int size, struct hvd_error *err);
void pattern_fini(struct pattern *pattern); /* does nothing on a zeroed struct */

/* Write [count] elements of the pattern, starting at offset [shift] >= 0. */
void pattern_fill(const struct pattern *pattern, void *data, int64_t count, int64_t shift);

/* Returns the index of the first element that is not the sum over all ranks, or -1. */
int64_t pattern_find_wrong(const struct pattern *pattern, const void *data, int64_t count, int64_t shift);

/* The same for elements that must still be as pattern_fill wrote them on this rank. */
int64_t pattern_find_changed(const struct pattern *pattern, const void *data, int64_t count, int64_t shift);

#endif
