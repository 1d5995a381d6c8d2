/* waits.h: who waits for whom in a batch that a member has stopped in: whoever is asked first, the way from
 * member to member ends at that one. */
#ifndef TESTS_UNIT_WAITS_H
#define TESTS_UNIT_WAITS_H

#include <stdbool.h>

#include "unit.h"

/* How to ask a member, and whether it is through. Members are numbered from 0. */
struct waits {
    int size;
    bool (*is_through)(void *world, int member);
    int (*waits_for)(void *world, int member);
    void *world;
};

static inline void ck_assert_waits_end_at(const struct waits *waits, int stopped)
{
    for (int first = 0; first < waits->size; first++) {
        int at = first;
        for (int steps = 0; at != stopped && !waits->is_through(waits->world, at); steps++) {
            int next = waits->waits_for(waits->world, at);
            ck_assert_msg(next >= 0 && next < waits->size && next != at, "member %d waits for %d", at, next);
            ck_assert_msg(!waits->is_through(waits->world, next), "%d waits for %d, which is through", at,
                          next);
            ck_assert_msg(steps < waits->size, "%d waits in a circle, %d for %d", first, at, next);
            at = next;
        }
    }
}

#endif
