/* backends.c: the planes of one rank: which it has, in which order it likes them, which are open. */
#include "backend/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend/hier/hier_split.h"

/* ---- Planes --------------------------------------------------------------------------------- */

/* The option's list, or with auto all planes in their own order; then local, which takes nothing away from
 * the others: it carries for teams of one only. */
static void fill_order(struct plane_set *set)
{
    uint64_t list = set->env.config->planes;
    int count = 0;
    bool has_local = false;
    for (int i = 0; i < PLANE_COUNT; i++) {
        int plane = list == 0 ? i : option_list_at(list, i);
        set->order[i] = -1;
        if (plane >= 0)
            set->order[count++] = plane;
        has_local = has_local || plane == PLANE_LOCAL;
    }
    if (!has_local)
        set->order[count] = PLANE_LOCAL;
}

/* Does [plane] carry anything in teams of so many? */
static bool can_between(int plane, int ranks)
{
    const struct plane_need need = {
        .kind = PLANE_BROADCAST, .dtype = HVD_UINT8, .partial = HVD_UINT8, .op = HVD_SUM, .ranks = ranks};
    return plane_table[plane]->can(&need);
}

/* May [plane] have this team? Otherwise a phrase says why not. */
static bool carries(const struct plane_set *set, int plane, const struct plane_team *members,
                    const char **whyp)
{
    const struct plane_ops *ops = plane_table[plane];
    *whyp = "it does not carry between so many ranks";
    return can_between(plane, members->size) &&
           (ops->serves == NULL || ops->serves(&set->env, members, whyp));
}

/* May it have a team of all ranks of the job? */
static bool carries_all(const struct plane_set *set, int plane, const char **whyp)
{
    int size = set->env.job->size;
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    for (int i = 0; ranks != NULL && i < size; i++)
        ranks[i] = i;
    const struct plane_team all = {
        .set = HVD_ALL_RANKS, .rank = set->env.job->rank, .size = size, .ranks = ranks};
    *whyp = "there is no memory for a list of all ranks";
    bool carried = ranks != NULL && carries(set, plane, &all, whyp);
    free(ranks);
    return carried;
}

/* Is nothing of opening left? */
static bool is_open(const struct plane_set *set, int plane)
{
    return set->opened[plane] && (plane_table[plane]->open_late == NULL || set->opened_late[plane]);
}

static int open_plane(struct plane_set *set, int plane, int64_t deadline_us, struct hvd_error *err)
{
    int rc = plane_table[plane]->open(&set->env, deadline_us, &set->state[plane], err);
    set->opened[plane] = rc == HVD_OK;
    if (is_open(set, plane))
        log_write(set->env.log, LOG_INFO, "plane", "opened %s", plane_names[plane]);
    return rc;
}

static int64_t start_deadline(const struct plane_set *set)
{
    return clock_us() + set->env.config->start_timeout_us;
}

/* What is left of it, where something is. */
static int open_rest(struct plane_set *set, int plane, struct hvd_error *err)
{
    const struct plane_ops *ops = plane_table[plane];
    int rc = set->opened[plane] ? HVD_OK : open_plane(set, plane, start_deadline(set), err);
    if (rc != HVD_OK || is_open(set, plane))
        return rc;
    rc = ops->open_late(set->state[plane], start_deadline(set), err);
    set->opened_late[plane] = rc == HVD_OK;
    if (rc == HVD_OK)
        log_write(set->env.log, LOG_INFO, "plane", "opened %s", plane_names[plane]);
    return rc;
}

/* Asks whether [plane] is there; appends to [reasons] why it cannot carry batches of the whole job. True if
 * it can. */
static bool find_plane(struct plane_set *set, int plane, char *reasons, size_t reasons_bytes)
{
    const char *why = NULL;
    size_t used = strlen(reasons);
    set->available[plane] = plane_table[plane]->available(&set->env, &why);
    if (set->available[plane] && carries_all(set, plane, &why))
        return true;
    log_write(set->env.log, LOG_DEBUG, "plane", "%s is not for all ranks: %s", plane_names[plane], why);
    snprintf(reasons + used, reasons_bytes - used, "%s%s: %s", used == 0 ? "" : "; ", plane_names[plane],
             why);
    return false;
}

int plane_set_open(struct plane_set *set, const struct plane_env *env, int64_t deadline_us,
                   struct hvd_error *err)
{
    char reasons[600] = "";
    int found = 0;
    int rc = HVD_OK;
    memset(set, 0, sizeof(*set));
    set->env = *env;
    fill_order(set);
    for (int i = 0; i < PLANE_COUNT && rc == HVD_OK && set->order[i] >= 0; i++) {
        int plane = set->order[i];
        found += find_plane(set, plane, reasons, sizeof(reasons));
        if (set->available[plane] && plane_table[plane]->opens_early)
            rc = open_plane(set, plane, deadline_us, err);
    }
    if (rc == HVD_OK && found == 0)
        rc = error_set(err, HVD_ERR_UNSUPPORTED,
                       "no plane is left to carry tensors (%s); name another in --hvd-planes", reasons);
    if (rc != HVD_OK)
        plane_set_close(set);
    return rc;
}

uint32_t plane_set_can(const struct plane_set *set, const struct plane_need *need, int each)
{
    uint32_t planes = 0;
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        const struct plane_ops *ops = plane_table[plane];
        if (set->available[plane] && ops->can(need) && (ops->suits == NULL || ops->suits(need, each)))
            planes |= UINT32_C(1) << plane;
    }
    return planes;
}

uint32_t plane_set_available(const struct plane_set *set)
{
    uint32_t planes = 0;
    for (int plane = 0; plane < PLANE_COUNT; plane++)
        planes |= (uint32_t)set->available[plane] << plane;
    return planes;
}

int plane_set_open_all(struct plane_set *set, uint32_t planes, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; i < PLANE_COUNT && rc == HVD_OK && set->order[i] >= 0; i++) {
        int plane = set->order[i];
        if (planes >> plane & 1)
            rc = open_rest(set, plane, err);
    }
    return rc;
}

uint32_t plane_set_serving(const struct plane_set *set, const struct plane_team *members, uint32_t planes)
{
    const char *why = NULL;
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        if (!carries(set, plane, members, &why))
            planes &= ~(UINT32_C(1) << plane);
    }
    return planes;
}

int plane_set_each(const struct plane_set *set, const struct plane_team *members)
{
    return hier_each(set->env.roster->node_of_rank, members);
}

/* ---- Teams ---------------------------------------------------------------------------------- */

static int add_team(struct plane_set *set, struct team *team, int plane, struct hvd_error *err)
{
    int rc = plane_table[plane]->add_team(set->state[plane], &team->members, start_deadline(set),
                                          &team->state[plane], err);
    team->added[plane] = rc == HVD_OK;
    return rc;
}

/* Where there is no room for it the members do without this plane: they are asked for each operation which
 * planes they have for it. */
static int offer_team(struct plane_set *set, struct team *team, int plane, struct hvd_error *err)
{
    struct hvd_error why = {""};
    const char *phrase = NULL;
    if (!carries(set, plane, &team->members, &phrase)) {
        /* of all ranks it has been said */
        if (team->members.set != HVD_ALL_RANKS)
            log_write(set->env.log, LOG_DEBUG, "plane", "%s is not for process set %d: %s",
                      plane_names[plane], team->members.set, phrase);
        return HVD_OK;
    }
    int rc = add_team(set, team, plane, &why);
    team->refused[plane] = rc == HVD_ERR_UNSUPPORTED;
    if (rc == HVD_OK)
        return rc;
    if (!team->refused[plane])
        return error_set(err, rc, "%s", why.text);
    if (team->members.rank == 0)
        log_write(set->env.log, LOG_WARN, "plane", "%s carries nothing in process set %d: %s",
                  plane_names[plane], team->members.set, why.text);
    return HVD_OK;
}

int team_create(struct plane_set *set, const struct plane_team *members, struct team **teamp,
                struct hvd_error *err)
{
    int rc = HVD_OK;
    size_t list_bytes = (size_t)members->size * sizeof(*members->ranks);
    struct team *team = calloc(1, sizeof(*team));
    int *ranks = malloc(list_bytes);
    if (team == NULL || ranks == NULL) {
        rc = error_set_errno(err, "no memory for a process set of %d ranks", members->size);
        free(team);
        free(ranks);
        return rc;
    }
    memcpy(ranks, members->ranks, list_bytes);
    team->members = *members;
    team->members.ranks = ranks;
    for (int i = 0; i < PLANE_COUNT && rc == HVD_OK && set->order[i] >= 0; i++) {
        int plane = set->order[i];
        if (is_open(set, plane) || (set->opened[plane] && members->set == HVD_ALL_RANKS))
            rc = offer_team(set, team, plane, err);
    }
    if (rc != HVD_OK) {
        team_destroy(set, team);
        return rc;
    }
    *teamp = team;
    return HVD_OK;
}

static void remove_team(struct plane_set *set, struct team *team, int plane)
{
    if (set->opened[plane] && team->added[plane])
        plane_table[plane]->remove_team(set->state[plane], team->state[plane]);
    team->added[plane] = false;
    team->state[plane] = NULL;
}

void team_destroy(struct plane_set *set, struct team *team)
{
    if (team == NULL)
        return;
    for (int plane = 0; plane < PLANE_COUNT; plane++)
        remove_team(set, team, plane);
    free((void *)(uintptr_t)team->members.ranks);
    free(team);
}

uint32_t team_planes(const struct team *team, uint32_t planes)
{
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        if (team->refused[plane])
            planes &= ~(UINT32_C(1) << plane);
    }
    return planes;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* What opens late does so at the first batch of all ranks, unless a process set has had it opened before. */
static int ready_team(struct plane_set *set, struct team *team, int plane, struct hvd_error *err)
{
    if (team->given_up[plane])
        return error_set(err, HVD_ERR_STATE, "plane %s was given up for process set %d", plane_names[plane],
                         team->members.set);
    if (!is_open(set, plane) && team->members.size != set->env.job->size)
        return error_set(err, HVD_ERR_STATE, "plane %s is not open for process set %d", plane_names[plane],
                         team->members.set);
    int rc = open_rest(set, plane, err);
    if (rc == HVD_OK && !team->added[plane])
        rc = add_team(set, team, plane, err);
    return rc;
}

bool plane_set_blocks(const struct team *team, int plane, const struct plane_batch *batch)
{
    const struct plane_ops *ops = plane_table[plane];
    return !team->added[plane] || (ops->connects != NULL && ops->connects(team->state[plane], batch));
}

int plane_set_start(struct plane_set *set, struct team *team, int plane, struct plane_batch *batch,
                    struct hvd_error *err)
{
    int rc = ready_team(set, team, plane, err);
    if (rc != HVD_OK)
        return rc;
    batch->sequence = ++team->sequence;
    if (!team->used[plane])
        log_write(set->env.log, LOG_DEBUG, "plane", "process set %d: first tensors over %s",
                  team->members.set, plane_names[plane]);
    team->used[plane] = set->used[plane] = true;
    return plane_table[plane]->start(set->state[plane], team->state[plane], batch, err);
}

int plane_set_test(struct plane_set *set, struct team *team, int plane, bool *movedp, int *rankp,
                   struct hvd_error *err)
{
    return plane_table[plane]->test(set->state[plane], team->state[plane], movedp, rankp, err);
}

void plane_set_arm(struct plane_set *set, bool armed)
{
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        if (set->opened[plane] && plane_table[plane]->arm != NULL)
            plane_table[plane]->arm(set->state[plane], armed);
    }
}

void plane_set_give_up(struct plane_set *set, struct team *team, int plane)
{
    remove_team(set, team, plane);
    team->given_up[plane] = true;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

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
    for (int plane = 0; plane < PLANE_COUNT; plane++) {
        if (set->opened[plane])
            plane_table[plane]->close(set->state[plane]);
        set->opened[plane] = set->opened_late[plane] = false;
    }
}
