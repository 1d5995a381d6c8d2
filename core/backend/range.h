/* range.h: consecutive elements of a batch. */
#ifndef BACKEND_RANGE_H
#define BACKEND_RANGE_H

#include <stdint.h>

struct range {
    int64_t begin, count;
};

/* The elements that are in both. */
static inline struct range range_overlap(struct range a, struct range b)
{
    int64_t a_end = a.begin + a.count;
    int64_t b_end = b.begin + b.count;
    int64_t begin = a.begin > b.begin ? a.begin : b.begin;
    int64_t end = a_end < b_end ? a_end : b_end;
    return (struct range){begin, end > begin ? end - begin : 0};
}

#endif
