/* set.c: the planes of one rank: which it has, in which order it likes them, which are open. */
#include "plane/set.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* The option's list, or with auto all planes in their own order. */
static void fill_order(struct plane_set *set)
{
    uint64_t list = set->env.config->planes;
    for (int i = 0; i < PLANE_COUNT; i++)
        set->order[i] = list == 0 ? i : option_list_at(list, i);
}

static int open_plane(struct plane_set *set, int plane, int64_t deadline_us, struct hvd_error *err)
{
    int rc = plane_table[plane]->open(&set->env, deadline_us, &set->state[plane], err);
    set->opened[plane] = rc == HVD_OK;
    if (rc == HVD_OK)
        log_write(set->env.log, LOG_INFO, "plane", "opened %s", plane_names[plane]);
    return rc;
}

int plane_set_open(struct plane_set *set, const struct plane_env *env, int64_t deadline_us,
                   struct hvd_error *err)
{
    char reasons[300] = "";
    size_t used = 0;
    int found = 0;
    int rc = HVD_OK;
    memset(set, 0, sizeof(*set));
    set->env = *env;
    fill_order(set);
    for (int i = 0; i < PLANE_COUNT && rc == HVD_OK; i++) {
        int plane = set->order[i];
        const char *why = "";
        if (plane < 0)
            break;
        set->available[plane] = plane_table[plane]->available(env, &why);
        if (!set->available[plane]) {
            log_write(env->log, LOG_DEBUG, "plane", "%s is not available: %s", plane_names[plane], why);
            if (used < sizeof(reasons))
                used += (size_t)snprintf(reasons + used, sizeof(reasons) - used, "%s%s: %s",
                                         used == 0 ? "" : "; ", plane_names[plane], why);
            continue;
        }
        found++;
        if (plane_table[plane]->opens_early)
            rc = open_plane(set, plane, deadline_us, err);
    }
    if (rc == HVD_OK && found == 0)
        rc = error_set(err, HVD_ERR_UNSUPPORTED,
                       "no plane is left to carry tensors (%s); name another in --hvd-planes", reasons);
    if (rc != HVD_OK)
        plane_set_close(set);
    return rc;
}

uint32_t plane_set_can(const struct plane_set *set, const struct plane_need *need)
{
    uint32_t planes = 0;
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        if (set->available[plane] && plane_table[plane]->can(need))
            planes |= UINT32_C(1) << plane;
    }
    return planes;
}

int plane_set_start(struct plane_set *set, int plane, const struct plane_batch *batch, struct hvd_error *err)
{
    if (!set->opened[plane]) {
        int rc = open_plane(set, plane, clock_us() + set->env.config->start_timeout_us, err);
        if (rc != HVD_OK)
            return rc;
    }
    return plane_table[plane]->start(set->state[plane], batch, err);
}

int plane_set_test(struct plane_set *set, int plane, bool *movedp, int *rankp, struct hvd_error *err)
{
    return plane_table[plane]->test(set->state[plane], movedp, rankp, err);
}

void plane_set_give_up(struct plane_set *set, int plane)
{
    if (set->opened[plane])
        plane_table[plane]->close(set->state[plane]);
    set->opened[plane] = false;
}

void plane_set_after_fork(struct plane_set *set)
{
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        if (set->opened[plane])
            plane_table[plane]->after_fork(set->state[plane]);
        set->opened[plane] = false;
    }
}

void plane_set_close(struct plane_set *set)
{
    for (int plane = 0; plane < PLANE_COUNT; plane++)
        plane_set_give_up(set, plane);
}
