/* backends.c: the backends of one rank and its process sets. */
#include "backend/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend/nccl/nccl.h"
#include "backend/team.h"
#include "net/peer_table.h"

/* ---- Backends --------------------------------------------------------------------------------- */

/* The option's list, or with auto all backends in the order of their numbers. Local is added at the end: it
 * takes nothing from the others, as it carries for teams of one only. */
static void fill_order(struct backends *backends)
{
    uint64_t list = backends->env.config->backends;
    int count = 0;
    bool has_local = false;
    for (int i = 0; i < BACKEND_COUNT; i++) {
        int backend = list == 0 ? i : option_list_choice(list, i);
        backends->order[i] = -1;
        if (backend >= 0)
            backends->order[count++] = backend;
        has_local = has_local || backend == BACKEND_LOCAL;
    }
    if (!has_local)
        backends->order[count] = BACKEND_LOCAL;
}

/* Does [backend] carry anything in teams of [ranks] members? */
static bool supports_size(int backend, int ranks)
{
    const struct backend_need need = {
        .kind = COLL_BROADCAST, .dtype = HVD_UINT8, .partial = HVD_UINT8, .op = HVD_SUM, .ranks = ranks};
    return backend_table[backend]->supports(&need);
}

/* May [backend] carry for this team? If not, *whyp is a phrase that says why. */
static bool carries(const struct backends *backends, int backend, const struct team *members,
                    const char **whyp)
{
    const struct backend_ops *ops = backend_table[backend];
    *whyp = "it does not carry between this number of ranks";
    return supports_size(backend, members->size) &&
           (ops->reaches == NULL || ops->reaches(&backends->env, members, whyp));
}

/* May it carry for a team of all ranks of the job? */
static bool can_carry_job(const struct backends *backends, int backend, const char **whyp)
{
    int size = backends->env.job->size;
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    for (int i = 0; ranks != NULL && i < size; i++)
        ranks[i] = i;
    const struct team all = {
        .set = HVD_ALL_RANKS, .rank = backends->env.job->rank, .size = size, .ranks = ranks};
    *whyp = "there is no memory for a list of all ranks";
    bool carried = ranks != NULL && carries(backends, backend, &all, whyp);
    free(ranks);
    return carried;
}

/* Is it open, with the late part? */
static bool is_open(const struct backends *backends, int backend)
{
    return backends->opened[backend] &&
           (backend_table[backend]->open_late == NULL || backends->opened_late[backend]);
}

static int open_backend(struct backends *backends, int backend, int64_t deadline_us, struct hvd_error *err)
{
    int rc = backend_table[backend]->open(&backends->env, deadline_us, &backends->state[backend], err);
    backends->opened[backend] = rc == HVD_OK;
    if (is_open(backends, backend))
        log_write(backends->env.log, LOG_INFO, "backend", "opened %s", backend_names[backend]);
    return rc;
}

static int64_t start_deadline(const struct backends *backends)
{
    return clock_us() + backends->env.config->start_timeout_us;
}

/* Open the backend, or the part of it that is left. */
static int finish_open(struct backends *backends, int backend, struct hvd_error *err)
{
    const struct backend_ops *ops = backend_table[backend];
    int rc =
        backends->opened[backend] ? HVD_OK : open_backend(backends, backend, start_deadline(backends), err);
    if (rc != HVD_OK || is_open(backends, backend))
        return rc;
    rc = ops->open_late(backends->state[backend], start_deadline(backends), err);
    backends->opened_late[backend] = rc == HVD_OK;
    if (rc == HVD_OK)
        log_write(backends->env.log, LOG_INFO, "backend", "opened %s", backend_names[backend]);
    return rc;
}

/* Is [backend] available? True if it can carry for the whole job; otherwise append the reason to [reasons].
 */
static bool find_backend(struct backends *backends, int backend, char *reasons, size_t reasons_bytes)
{
    const char *why = NULL;
    size_t used = strlen(reasons);
    backends->available[backend] = backend_table[backend]->available(&backends->env, &why);
    if (backends->available[backend] && can_carry_job(backends, backend, &why))
        return true;
    log_write(backends->env.log, LOG_DEBUG, "backend", "%s is not for all ranks: %s", backend_names[backend],
              why);
    snprintf(reasons + used, reasons_bytes - used, "%s%s: %s", used == 0 ? "" : "; ", backend_names[backend],
             why);
    return false;
}

int backends_open(struct backends *backends, const struct backend_env *env, int64_t deadline_us,
                  struct hvd_error *err)
{
    char reasons[600] = "";
    int found = 0;
    int rc = HVD_OK;
    memset(backends, 0, sizeof(*backends));
    backends->env = *env;
    fill_order(backends);
    for (int i = 0; i < BACKEND_COUNT && rc == HVD_OK && backends->order[i] >= 0; i++) {
        int backend = backends->order[i];
        found += find_backend(backends, backend, reasons, sizeof(reasons));
        if (backends->available[backend] && backend_table[backend]->opens_early)
            rc = open_backend(backends, backend, deadline_us, err);
    }
    if (rc == HVD_OK && found == 0)
        rc = error_set(err, HVD_ERR_UNSUPPORTED,
                       "no backend is left to carry tensors (%s); name another in --hvd-backends", reasons);
    if (rc != HVD_OK)
        backends_close(backends);
    return rc;
}

uint32_t backends_supporting(const struct backends *backends, const struct backend_need *need, int ppn)
{
    uint32_t mask = 0;
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        const struct backend_ops *ops = backend_table[backend];
        if (backends->available[backend] && ops->supports(need) &&
            (ops->supports_ppn == NULL || ops->supports_ppn(need, ppn)))
            mask |= UINT32_C(1) << backend;
    }
    return mask;
}

uint32_t backends_available(const struct backends *backends)
{
    uint32_t mask = 0;
    for (int backend = 0; backend < BACKEND_COUNT; backend++)
        mask |= (uint32_t)backends->available[backend] << backend;
    return mask;
}

int backends_open_all(struct backends *backends, uint32_t mask, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; i < BACKEND_COUNT && rc == HVD_OK && backends->order[i] >= 0; i++) {
        int backend = backends->order[i];
        if (mask >> backend & 1)
            rc = finish_open(backends, backend, err);
    }
    return rc;
}

uint32_t backends_reaching(const struct backends *backends, const struct team *members, uint32_t mask)
{
    const char *why = NULL;
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (!carries(backends, backend, members, &why))
            mask &= ~(UINT32_C(1) << backend);
    }
    return mask;
}

int backends_ppn(const struct backends *backends, const struct team *members)
{
    return team_ppn(backends->env.peer_table->node_of_rank, members);
}

/* ---- Teams ---------------------------------------------------------------------------------- */

static int add_team(struct backends *backends, struct process_set *set, int backend, struct hvd_error *err)
{
    int rc = backend_table[backend]->add_team(backends->state[backend], &set->members,
                                              start_deadline(backends), &set->state[backend], err);
    set->added[backend] = rc == HVD_OK;
    return rc;
}

/* Add the team to [backend]. If there is no room for it the members do without this backend: for each
 * operation they agree on the backends that all of them have. */
static int offer_team(struct backends *backends, struct process_set *set, int backend, struct hvd_error *err)
{
    struct hvd_error why = {""};
    const char *phrase = NULL;
    if (!carries(backends, backend, &set->members, &phrase)) {
        /* for all ranks find_backend has logged it */
        if (set->members.set != HVD_ALL_RANKS)
            log_write(backends->env.log, LOG_DEBUG, "backend", "%s is not for process set %d: %s",
                      backend_names[backend], set->members.set, phrase);
        return HVD_OK;
    }
    int rc = add_team(backends, set, backend, &why);
    set->refused[backend] = rc == HVD_ERR_UNSUPPORTED;
    if (rc == HVD_OK)
        return rc;
    if (!set->refused[backend])
        return error_set(err, rc, "%s", why.text);
    if (set->members.rank == 0)
        log_write(backends->env.log, LOG_WARN, "backend", "%s carries nothing in process set %d: %s",
                  backend_names[backend], set->members.set, why.text);
    return HVD_OK;
}

int process_set_create(struct backends *backends, const struct team *members, struct process_set **setp,
                       struct hvd_error *err)
{
    int rc = HVD_OK;
    size_t list_bytes = (size_t)members->size * sizeof(*members->ranks);
    struct process_set *set = calloc(1, sizeof(*set));
    int *ranks = malloc(list_bytes);
    if (set == NULL || ranks == NULL) {
        rc = error_set_errno(err, "no memory for a process set of %d ranks", members->size);
        free(set);
        free(ranks);
        return rc;
    }
    memcpy(ranks, members->ranks, list_bytes);
    set->members = *members;
    set->members.ranks = ranks;
    for (int i = 0; i < BACKEND_COUNT && rc == HVD_OK && backends->order[i] >= 0; i++) {
        int backend = backends->order[i];
        if (is_open(backends, backend) || (backends->opened[backend] && members->set == HVD_ALL_RANKS))
            rc = offer_team(backends, set, backend, err);
    }
    if (rc != HVD_OK) {
        process_set_destroy(backends, set);
        return rc;
    }
    *setp = set;
    return HVD_OK;
}

static void remove_team(struct backends *backends, struct process_set *set, int backend)
{
    if (backends->opened[backend] && set->added[backend])
        backend_table[backend]->remove_team(backends->state[backend], set->state[backend]);
    set->added[backend] = false;
    set->state[backend] = NULL;
}

void process_set_destroy(struct backends *backends, struct process_set *set)
{
    if (set == NULL)
        return;
    for (int backend = 0; backend < BACKEND_COUNT; backend++)
        remove_team(backends, set, backend);
    nccl_team_destroy(set->nccl);
    free((void *)(uintptr_t)set->members.ranks);
    free(set);
}

uint32_t process_set_backends(const struct process_set *set, uint32_t mask)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (set->refused[backend])
            mask &= ~(UINT32_C(1) << backend);
    }
    return mask;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* A backend that opens late does so at the first batch of all ranks, unless a process set has opened it
 * before. */
static int prepare_team(struct backends *backends, struct process_set *set, int backend,
                        struct hvd_error *err)
{
    if (set->given_up[backend])
        return error_set(err, HVD_ERR_STATE, "backend %s was given up for process set %d",
                         backend_names[backend], set->members.set);
    if (!is_open(backends, backend) && set->members.size != backends->env.job->size)
        return error_set(err, HVD_ERR_STATE, "backend %s is not open for process set %d",
                         backend_names[backend], set->members.set);
    int rc = finish_open(backends, backend, err);
    if (rc == HVD_OK && !set->added[backend])
        rc = add_team(backends, set, backend, err);
    return rc;
}

bool backends_may_block(const struct backends *backends, uint32_t mask)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (mask >> backend & 1 && !is_open(backends, backend))
            return true;
    }
    return false;
}

int backends_start(struct backends *backends, struct process_set *set, int backend,
                   struct backend_batch *batch, struct hvd_error *err)
{
    int rc = prepare_team(backends, set, backend, err);
    if (rc != HVD_OK)
        return rc;
    batch->sequence = ++set->sequence;
    if (!set->used[backend])
        log_write(backends->env.log, LOG_DEBUG, "backend", "process set %d: first tensors over %s",
                  set->members.set, backend_names[backend]);
    set->used[backend] = backends->used[backend] = true;
    return backend_table[backend]->start(backends->state[backend], set->state[backend], batch, err);
}

int backends_test(struct backends *backends, struct process_set *set, int backend, bool *movedp, int *rankp,
                  struct hvd_error *err)
{
    return backend_table[backend]->test(backends->state[backend], set->state[backend], movedp, rankp, err);
}

bool backends_take_gpu(const struct backends *backends, int backend)
{
    return backend >= 0 && backend < BACKEND_COUNT && backends->opened[backend] &&
           backend_table[backend]->takes_gpu != NULL &&
           backend_table[backend]->takes_gpu(backends->state[backend]);
}

int64_t backends_deadline(const struct backends *backends, const struct process_set *set, int backend)
{
    const struct backend_ops *ops = backend_table[backend];
    return ops->deadline == NULL ? INT64_MAX : ops->deadline(backends->state[backend], set->state[backend]);
}

int backends_waits_for(const struct backends *backends, const struct process_set *set, int backend)
{
    const struct backend_ops *ops = backend_table[backend];
    return ops->waits_for == NULL ? -1 : ops->waits_for(backends->state[backend], set->state[backend]);
}

void backends_arm(struct backends *backends, bool armed)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (backends->opened[backend] && backend_table[backend]->arm != NULL)
            backend_table[backend]->arm(backends->state[backend], armed);
    }
}

void backends_abort(struct backends *backends, struct process_set *set, int backend)
{
    remove_team(backends, set, backend);
    set->given_up[backend] = true;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

void backends_after_fork(struct backends *backends)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (backends->opened[backend])
            backend_table[backend]->after_fork(backends->state[backend]);
        backends->opened[backend] = false;
    }
}

void backends_forget(struct backends *backends)
{
    memset(backends->opened, 0, sizeof(backends->opened));
}

void backends_close(struct backends *backends)
{
    for (int backend = 0; backend < BACKEND_COUNT; backend++) {
        if (backends->opened[backend])
            backend_table[backend]->close(backends->state[backend]);
        backends->opened[backend] = backends->opened_late[backend] = false;
    }
}
