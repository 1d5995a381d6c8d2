/* backends.c: the backends of one rank: which it has, in which order it likes them, which are open. */
#include "backend/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend/hier/hier_split.h"

/* ---- Backends --------------------------------------------------------------------------------- */

/* The option's list, or with auto all backends in their own order; then local, which takes nothing away from
 * the others: it carries for teams of one only. */
static void fill_order(struct backends *set)
{
    uint64_t list = set->env.config->backends;
    int count = 0;
    bool has_local = false;
    for (int i = 0; i < BACKEND_COUNT; i++) {
        int backend = list == 0 ? i : option_list_choice(list, i);
        set->order[i] = -1;
        if (backend >= 0)
            set->order[count++] = backend;
        has_local = has_local || backend == BACKEND_LOCAL;
    }
    if (!has_local)
        set->order[count] = BACKEND_LOCAL;
}

/* Does [backend] carry anything in teams of so many? */
static bool supports_size(int backend, int ranks)
{
    const struct backend_need need = {
        .kind = COLL_BROADCAST, .dtype = HVD_UINT8, .partial = HVD_UINT8, .op = HVD_SUM, .ranks = ranks};
    return backend_table[backend]->can(&need);
}

/* May [backend] have this team? Otherwise a phrase says why not. */
static bool carries(const struct backends *set, int backend, const struct team *members, const char **whyp)
{
    const struct backend_ops *ops = backend_table[backend];
    *whyp = "it does not carry between so many ranks";
    return supports_size(backend, members->size) &&
           (ops->reaches == NULL || ops->reaches(&set->env, members, whyp));
}

/* May it have a team of all ranks of the job? */
static bool can_carry_job(const struct backends *set, int backend, const char **whyp)
{
    int size = set->env.job->size;
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    for (int i = 0; ranks != NULL && i < size; i++)
        ranks[i] = i;
    const struct team all = {.set = HVD_ALL_RANKS, .rank = set->env.job->rank, .size = size, .ranks = ranks};
    *whyp = "there is no memory for a list of all ranks";
    bool carried = ranks != NULL && carries(set, backend, &all, whyp);
    free(ranks);
    return carried;
}

/* Is nothing of opening left? */
static bool is_open(const struct backends *set, int backend)
{
    return set->opened[backend] && (backend_table[backend]->open_late == NULL || set->opened_late[backend]);
}

static int open_backend(struct backends *set, int backend, int64_t deadline_us, struct hvd_error *err)
{
    int rc = backend_table[backend]->open(&set->env, deadline_us, &set->state[backend], err);
    set->opened[backend] = rc == HVD_OK;
    if (is_open(set, backend))
        log_write(set->env.log, LOG_INFO, "backend", "opened %s", backend_names[backend]);
    return rc;
}

static int64_t start_deadline(const struct backends *set)
{
    return clock_us() + set->env.config->start_timeout_us;
}

/* What is left of it, where something is. */
static int finish_open(struct backends *set, int backend, struct hvd_error *err)
{
    const struct backend_ops *ops = backend_table[backend];
    int rc = set->opened[backend] ? HVD_OK : open_backend(set, backend, start_deadline(set), err);
    if (rc != HVD_OK || is_open(set, backend))
        return rc;
    rc = ops->open_late(set->state[backend], start_deadline(set), err);
    set->opened_late[backend] = rc == HVD_OK;
    if (rc == HVD_OK)
        log_write(set->env.log, LOG_INFO, "backend", "opened %s", backend_names[backend]);
    return rc;
}

/* Asks whether [backend] is there; appends to [reasons] why it cannot carry batches of the whole job. True if
 * it can. */
static bool find_backend(struct backends *set, int backend, char *reasons, size_t reasons_bytes)
{
    const char *why = NULL;
    size_t used = strlen(reasons);
    set->available[backend] = backend_table[backend]->available(&set->env, &why);
    if (set->available[backend] && can_carry_job(set, backend, &why))
        return true;
    log_write(set->env.log, LOG_DEBUG, "backend", "%s is not for all ranks: %s", backend_names[backend], why);
    snprintf(reasons + used, reasons_bytes - used, "%s%s: %s", used == 0 ? "" : "; ", backend_names[backend],
             why);
    return false;
}

int backends_open(struct backends *set, const struct backend_env *env, int64_t deadline_us,
                  struct hvd_error *err)
{
    char reasons[600] = "";
    int found = 0;
    int rc = HVD_OK;
    memset(set, 0, sizeof(*set));
    set->env = *env;
    fill_order(set);
    for (int i = 0; i < BACKEND_COUNT && rc == HVD_OK && set->order[i] >= 0; i++) {
        int backend = set->order[i];
        found += find_backend(set, backend, reasons, sizeof(reasons));
        if (set->available[backend] && backend_table[backend]->opens_early)
            rc = open_backend(set, backend, deadline_us, err);
    }
    if (rc == HVD_OK && found == 0)
        rc = error_set(err, HVD_ERR_UNSUPPORTED,
                       "no backend is left to carry tensors (%s); name another in --hvd-backends", reasons);
    if (rc != HVD_OK)
        backends_close(set);
    return rc;
}

uint32_t backends_supporting(const struct backends *set, const struct backend_need *need, int each)
{
    uint32_t backends = 0;
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        const struct backend_ops *ops = backend_table[backend];
        if (set->available[backend] && ops->can(need) &&
            (ops->supports_ppn == NULL || ops->supports_ppn(need, each)))
            backends |= UINT32_C(1) << backend;
    }
    return backends;
}

uint32_t backends_available(const struct backends *set)
{
    uint32_t backends = 0;
    for (int backend = 0; backend < BACKEND_COUNT; backend++)
        backends |= (uint32_t)set->available[backend] << backend;
    return backends;
}

int backends_open_all(struct backends *set, uint32_t backends, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; i < BACKEND_COUNT && rc == HVD_OK && set->order[i] >= 0; i++) {
        int backend = set->order[i];
        if (backends >> backend & 1)
            rc = finish_open(set, backend, err);
    }
    return rc;
}

uint32_t backends_reaching(const struct backends *set, const struct team *members, uint32_t backends)
{
    const char *why = NULL;
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (!carries(set, backend, members, &why))
            backends &= ~(UINT32_C(1) << backend);
    }
    return backends;
}

int backends_ppn(const struct backends *set, const struct team *members)
{
    return hier_ppn(set->env.peer_table->node_of_rank, members);
}

/* ---- Teams ---------------------------------------------------------------------------------- */

static int add_team(struct backends *set, struct process_set *team, int backend, struct hvd_error *err)
{
    int rc = backend_table[backend]->add_team(set->state[backend], &team->members, start_deadline(set),
                                              &team->state[backend], err);
    team->added[backend] = rc == HVD_OK;
    return rc;
}

/* Where there is no room for it the members do without this backend: they are asked for each operation which
 * backends they have for it. */
static int offer_team(struct backends *set, struct process_set *team, int backend, struct hvd_error *err)
{
    struct hvd_error why = {""};
    const char *phrase = NULL;
    if (!carries(set, backend, &team->members, &phrase)) {
        /* of all ranks it has been said */
        if (team->members.set != HVD_ALL_RANKS)
            log_write(set->env.log, LOG_DEBUG, "backend", "%s is not for process set %d: %s",
                      backend_names[backend], team->members.set, phrase);
        return HVD_OK;
    }
    int rc = add_team(set, team, backend, &why);
    team->refused[backend] = rc == HVD_ERR_UNSUPPORTED;
    if (rc == HVD_OK)
        return rc;
    if (!team->refused[backend])
        return error_set(err, rc, "%s", why.text);
    if (team->members.rank == 0)
        log_write(set->env.log, LOG_WARN, "backend", "%s carries nothing in process set %d: %s",
                  backend_names[backend], team->members.set, why.text);
    return HVD_OK;
}

int process_set_create(struct backends *set, const struct team *members, struct process_set **teamp,
                       struct hvd_error *err)
{
    int rc = HVD_OK;
    size_t list_bytes = (size_t)members->size * sizeof(*members->ranks);
    struct process_set *team = calloc(1, sizeof(*team));
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
    for (int i = 0; i < BACKEND_COUNT && rc == HVD_OK && set->order[i] >= 0; i++) {
        int backend = set->order[i];
        if (is_open(set, backend) || (set->opened[backend] && members->set == HVD_ALL_RANKS))
            rc = offer_team(set, team, backend, err);
    }
    if (rc != HVD_OK) {
        process_set_destroy(set, team);
        return rc;
    }
    *teamp = team;
    return HVD_OK;
}

static void remove_team(struct backends *set, struct process_set *team, int backend)
{
    if (set->opened[backend] && team->added[backend])
        backend_table[backend]->remove_team(set->state[backend], team->state[backend]);
    team->added[backend] = false;
    team->state[backend] = NULL;
}

void process_set_destroy(struct backends *set, struct process_set *team)
{
    if (team == NULL)
        return;
    for (int backend = 0; backend < BACKEND_COUNT; backend++)
        remove_team(set, team, backend);
    free((void *)(uintptr_t)team->members.ranks);
    free(team);
}

uint32_t process_set_backends(const struct process_set *team, uint32_t backends)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (team->refused[backend])
            backends &= ~(UINT32_C(1) << backend);
    }
    return backends;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* What opens late does so at the first batch of all ranks, unless a process set has had it opened before. */
static int prepare_team(struct backends *set, struct process_set *team, int backend, struct hvd_error *err)
{
    if (team->given_up[backend])
        return error_set(err, HVD_ERR_STATE, "backend %s was given up for process set %d",
                         backend_names[backend], team->members.set);
    if (!is_open(set, backend) && team->members.size != set->env.job->size)
        return error_set(err, HVD_ERR_STATE, "backend %s is not open for process set %d",
                         backend_names[backend], team->members.set);
    int rc = finish_open(set, backend, err);
    if (rc == HVD_OK && !team->added[backend])
        rc = add_team(set, team, backend, err);
    return rc;
}

bool backends_may_block(const struct process_set *team, int backend, const struct backend_batch *batch)
{
    const struct backend_ops *ops = backend_table[backend];
    return !team->added[backend] || (ops->connects != NULL && ops->connects(team->state[backend], batch));
}

int backends_start(struct backends *set, struct process_set *team, int backend, struct backend_batch *batch,
                   struct hvd_error *err)
{
    int rc = prepare_team(set, team, backend, err);
    if (rc != HVD_OK)
        return rc;
    batch->sequence = ++team->sequence;
    if (!team->used[backend])
        log_write(set->env.log, LOG_DEBUG, "backend", "process set %d: first tensors over %s",
                  team->members.set, backend_names[backend]);
    team->used[backend] = set->used[backend] = true;
    return backend_table[backend]->start(set->state[backend], team->state[backend], batch, err);
}

int backends_test(struct backends *set, struct process_set *team, int backend, bool *movedp, int *rankp,
                  struct hvd_error *err)
{
    return backend_table[backend]->test(set->state[backend], team->state[backend], movedp, rankp, err);
}

void backends_arm(struct backends *set, bool armed)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (set->opened[backend] && backend_table[backend]->arm != NULL)
            backend_table[backend]->arm(set->state[backend], armed);
    }
}

void backends_abort(struct backends *set, struct process_set *team, int backend)
{
    remove_team(set, team, backend);
    team->given_up[backend] = true;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

void backends_after_fork(struct backends *set)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (set->opened[backend])
            backend_table[backend]->after_fork(set->state[backend]);
        set->opened[backend] = false;
    }
}

void backends_close(struct backends *set)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (set->opened[backend])
            backend_table[backend]->close(set->state[backend]);
        set->opened[backend] = set->opened_late[backend] = false;
    }
}
