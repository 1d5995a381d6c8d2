/* set.h: the planes of one rank: which it has, in which order it likes them, which are open. */
#ifndef PLANE_SET_H
#define PLANE_SET_H

#include "plane/plane.h"

struct plane_set {
    struct plane_env env;
    int order[PLANE_COUNT]; /* enum plane_id, best first; -1 where there are no more. Equal on all ranks */
    bool available[PLANE_COUNT];
    bool opened[PLANE_COUNT];
    void *state[PLANE_COUNT];
};

/* Find out which planes of the option there are, and open those that open early. [env] is copied.
 * HVD_ERR_UNSUPPORTED where none is left, with each one's reason. */
int plane_set_open(struct plane_set *set, const struct plane_env *env, int64_t deadline_us,
                   struct hvd_error *err);

/* Bits 1 << enum plane_id of those that can carry it. */
uint32_t plane_set_can(const struct plane_set *set, const struct plane_need *need);

/* plane_ops of an agreed plane; start opens it first where this is its first batch. */
int plane_set_start(struct plane_set *set, int plane, const struct plane_batch *batch, struct hvd_error *err);
int plane_set_test(struct plane_set *set, int plane, bool *movedp, int *rankp, struct hvd_error *err);

/* Give up the running batch of [plane]: it is closed and touches no memory any more. */
void plane_set_give_up(struct plane_set *set, int plane);

void plane_set_after_fork(struct plane_set *set);
void plane_set_close(struct plane_set *set); /* a zeroed one is fine */

#endif
