/* pmix.c: the provider that asks the PMIx server of srun, mpirun, jsrun or hvdrun. It is a module, as
 * nothing else in libhvd needs libpmix. */
#include "config.h"
#include "bootstrap/wireup.h"

#include <pmix.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pmix_shim/timed_call.h"
#include "base/home.h"
#include "base/rank_list.h"
#include "base/stack.h"
#include "base/ulimit.h"

/* Who is missing from a fence that is late: */
#define NAMES_MAX 8                /* the most ranks that are named */
#define NAME_US   INT64_C(300000)  /* how long PMIx is asked about one of them */
#define NAMES_US  INT64_C(1500000) /* and about all of them */

/* Of the ranks of other nodes PMIx is asked about the next ones after this rank, all of them at once. Where
 * more are missing, other ranks name them. */
#define ASKED_MAX 64
#define ASKED_US  INT64_C(1000000)

/* How long PMIx_Finalize may take; the start is over then, so a server that hangs does not matter. */
#define FINALIZE_US INT64_C(3000000)

#define FENCE_AGAIN_MS 10 /* before a fence that ended too soon is called again */

#define ASK_AGAIN_MS 5                /* from one request for a value that is not there yet to the next */
#define LATE_US      INT64_C(2000000) /* how long to ask for a value of which the server knows nothing */

/* PMIx calls back on a thread of its own, perhaps after the caller has stopped waiting; then
 * complete_waiter frees this struct. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, abandoned;
    pmix_status_t status;
    void *bytes; /* of a get: a copy of the blob */
    size_t length;
};

/* What PMIx_Init takes of the address space: 32 MiB for its modules and the stack of its thread; and as much
 * as malloc takes for the heaps of two threads, if only for a moment in which nobody else gets any. */
#define INIT_BYTES ((size_t)(32 + 2 * 64) << 20)

struct pmix_state {
    pmix_proc_t self;
    int size;
    char *local_peers;           /* the ranks of this node, "0,1,2", or NULL if the launcher does not say */
    unsigned fence;              /* counts the fences from 1 */
    char first_key[64];          /* what this rank puts first before the first of them */
    bool late;                   /* a fence was given up: the launcher still waits for it */
    struct timed_caller *caller; /* NULL if one of its calls was given up */
};

/* ---- Waiting for a callback ------------------------------------------------------------------------ */

static struct waiter *waiter_create(void)
{
    pthread_condattr_t monotonic;
    struct waiter *waiter = calloc(1, sizeof(*waiter));
    if (waiter == NULL)
        return NULL;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&waiter->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&waiter->lock, NULL);
    return waiter;
}

static void waiter_destroy(struct waiter *waiter)
{
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->lock);
    free(waiter->bytes);
    free(waiter);
}

/* Runs on PMIx's thread: copies its arguments and returns. */
static void complete_waiter(struct waiter *waiter, pmix_status_t status, const pmix_byte_object_t *blob)
{
    pthread_mutex_lock(&waiter->lock);
    waiter->status = status;
    if (blob != NULL && blob->size <= WIREUP_BLOB_BYTES) {
        waiter->bytes = malloc(blob->size + 1);
        waiter->length = blob->size;
        if (waiter->bytes != NULL && blob->size > 0)
            memcpy(waiter->bytes, blob->bytes, blob->size);
    }
    waiter->done = true;
    bool abandoned = waiter->abandoned;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->lock);
    if (abandoned)
        waiter_destroy(waiter);
}

static void on_fence(pmix_status_t status, void *waiter)
{
    complete_waiter(waiter, status, NULL);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *waiter)
{
    bool is_blob = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_BYTE_OBJECT;
    complete_waiter(waiter, status, is_blob ? &value->data.bo : NULL);
}

static bool await_locked(struct waiter *waiter, int64_t deadline_us)
{
    const struct timespec deadline = clock_timespec(deadline_us);
    int rc = 0;
    while (!waiter->done && rc == 0)
        rc = pthread_cond_timedwait(&waiter->changed, &waiter->lock, &deadline);
    return waiter->done;
}

/* True when the callback has come. After false it may be awaited again. */
static bool await_first(struct waiter *waiter, int64_t deadline_us)
{
    pthread_mutex_lock(&waiter->lock);
    bool done = await_locked(waiter, deadline_us);
    pthread_mutex_unlock(&waiter->lock);
    return done;
}

/* True when the callback has come. False at the deadline; then PMIx's thread frees the waiter. */
static bool await(struct waiter *waiter, int64_t deadline_us)
{
    pthread_mutex_lock(&waiter->lock);
    bool done = await_locked(waiter, deadline_us);
    waiter->abandoned = !done;
    pthread_mutex_unlock(&waiter->lock);
    return done;
}

/* ---- The provider ----------------------------------------------------------------------------- */

/* Report what went wrong in [step], as a status and a sentence. */
static int pmix_failure(pmix_status_t status, const char *step, struct hvd_error *err)
{
    switch (status) {
    case PMIX_ERR_PARTIAL_SUCCESS:
    case PMIX_ERR_PROC_ABORTED:
        return error_set(err, HVD_ERR_RANK_LOST, "a rank ended before all ranks had joined (PMIx %s: %s)",
                         step, PMIx_Error_string(status));
    case PMIX_ERR_UNREACH:
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_COMM_FAILURE:
        return error_set(err, HVD_ERR_RANK_LOST,
                         "the launcher's PMIx server on this node is gone (PMIx %s: %s)", step,
                         PMIx_Error_string(status));
    default:
        return error_set(err, HVD_ERR_SYSTEM, "PMIx %s: %s", step, PMIx_Error_string(status));
    }
}

/* Read a number about [rank] that the launcher's server gave this process at its start. It never asks the
 * server. [numberp] is unchanged if the server gave none. */
static void read_number(const pmix_proc_t *self, pmix_rank_t rank, const char *key, int64_t *numberp)
{
    pmix_proc_t proc;
    pmix_info_t local;
    pmix_value_t *value = NULL;
    pmix_status_t rc;
    PMIX_LOAD_PROCID(&proc, self->nspace, rank);
    PMIX_INFO_LOAD(&local, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    if (PMIx_Get(&proc, key, &local, 1, &value) == PMIX_SUCCESS) {
        int64_t number = -1;
        PMIX_VALUE_GET_NUMBER(rc, value, number, int64_t);
        if (rc == PMIX_SUCCESS)
            *numberp = number;
        PMIX_VALUE_RELEASE(value);
    }
    PMIX_INFO_DESTRUCT(&local);
}

/* Which ranks are on this node, as "0,1,2"; NULL if the server did not say. The caller frees it. */
static char *read_local_peers(const pmix_proc_t *self)
{
    pmix_proc_t proc;
    pmix_info_t local;
    pmix_value_t *value = NULL;
    char *peers = NULL;
    PMIX_LOAD_PROCID(&proc, self->nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&local, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    if (PMIx_Get(&proc, PMIX_LOCAL_PEERS, &local, 1, &value) == PMIX_SUCCESS) {
        if (value->type == PMIX_STRING && value->data.string != NULL)
            peers = strdup(value->data.string);
        PMIX_VALUE_RELEASE(value);
    }
    PMIX_INFO_DESTRUCT(&local);
    return peers;
}

static void read_host(const pmix_proc_t *self, char *host, size_t host_bytes)
{
    pmix_info_t local;
    pmix_value_t *value = NULL;
    PMIX_INFO_LOAD(&local, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    if (PMIx_Get(self, PMIX_HOSTNAME, &local, 1, &value) == PMIX_SUCCESS) {
        const char *name = value->type == PMIX_STRING ? value->data.string : NULL;
        if (name != NULL && name[0] != 0 && strlen(name) < host_bytes)
            memcpy(host, name, strlen(name) + 1);
        PMIX_VALUE_RELEASE(value);
    }
    PMIX_INFO_DESTRUCT(&local);
}

/* Read the job as the server describes it, using only the values that all launchers give. */
static int read_job(const pmix_proc_t *self, struct hvd_job *job, struct hvd_error *err)
{
    int64_t size = 0;
    int64_t local_rank = -1;
    int64_t local_size = -1;
    read_number(self, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size);
    if (size < 1 || size > INT32_MAX || self->rank >= (uint64_t)size)
        return error_set(err, HVD_ERR_INVALID,
                         "the PMIx server of %s says that this is rank %u of %lld; expected a rank "
                         "below the size: is it a launcher that hvd knows (srun, mpirun, jsrun, hvdrun)?",
                         self->nspace, self->rank, (long long)size);
    read_number(self, self->rank, PMIX_LOCAL_RANK, &local_rank);
    read_number(self, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &local_size);
    job->rank = (int)self->rank;
    job->size = (int)size;
    job->local_rank = local_rank >= 0 && local_rank < size ? (int)local_rank : -1;
    job->local_size = local_size >= 1 && local_size <= size ? (int)local_size : -1;
    read_host(self, job->host, sizeof(job->host));
    return HVD_OK;
}

/* ---- Calls of PMIx that wait for the server without a limit ---- */

struct pmix_call {
    pmix_proc_t self; /* of PMIx_Init */
    pmix_status_t status;
};

/* libpmix crashes without a home folder, and where its thread has a small stack, so the program gets both for
 * as long as this takes. */
static void run_init(void *arg)
{
    struct pmix_call *call = arg;
    size_t stack_before = stack_raise_thread_default();
    bool unknown = home_is_unknown(NULL);
    if (unknown)
        setenv("HOME", HOME_SUBSTITUTE, 1);
    call->status = PMIx_Init(&call->self, NULL, 0);
    if (unknown)
        unsetenv("HOME");
    stack_restore_thread_default(stack_before);
}

static void run_commit(void *arg)
{
    struct pmix_call *call = arg;
    call->status = PMIx_Commit();
}

static void run_finalize(void *arg)
{
    struct pmix_call *call = arg;
    call->status = PMIx_Finalize(NULL, 0);
}

static int server_is_silent(const char *step, struct hvd_error *err)
{
    return error_set(
        err, HVD_ERR_TIMEOUT,
        "the launcher's PMIx server on this node does not answer (PMIx %s); does it stand still, or is "
        "the node overloaded? --hvd-start-timeout waits longer",
        step);
}

/* Make the call that PMIx names [step]. If the server does not answer in time PMIx cannot be called again. */
static int call_in_time(struct pmix_state *state, void (*run)(void *arg), const char *step,
                        int64_t deadline_us, struct pmix_call *result, struct hvd_error *err)
{
    struct pmix_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    int rc = timed_caller_call(&state->caller, &(struct timed_call){run, free, call}, deadline_us);
    if (rc != HVD_OK) /* the call is still running, and frees it */
        /* cppcheck-suppress memleak */
        return server_is_silent(step, err);
    *result = *call;
    free(call);
    return HVD_OK;
}

/* After a fence that was given up this process stays a client of the server: PMIx would wait for the fence,
 * and Slurm ends a step that loses a client, so the step does not stay for ranks that wait for ever. */
static void pmix_close(void *opaque)
{
    struct pmix_state *state = opaque;
    struct pmix_call ignored;
    if (state == NULL)
        return;
    /* PMIx counts its users: if the program's MPI uses it too, this only drops our use */
    if (!state->late && state->caller != NULL)
        call_in_time(state, run_finalize, "Finalize", clock_us() + FINALIZE_US, &ignored, NULL);
    timed_caller_close(state->caller);
    free(state->local_peers);
    free(state);
}

static int init_in_time(struct pmix_state *state, int64_t deadline_us, struct hvd_error *err)
{
    struct pmix_call call;
    int rc = ulimit_leaves_room("PMIx", INIT_BYTES, err); /* libpmix crashes without memory */
    if (rc != HVD_OK)
        return rc;
    if (timed_caller_open(&state->caller) != HVD_OK)
        return error_set(err, HVD_ERR_NO_MEMORY, "no thread to call PMIx");
    rc = call_in_time(state, run_init, "Init", deadline_us, &call, err);
    if (rc != HVD_OK)
        return rc;
    state->self = call.self;
    if (call.status == PMIX_SUCCESS)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "the launcher's PMIx server cannot be reached (PMIx_Init: %s), though PMIX_NAMESPACE names one: "
        "start each rank by the launcher itself, or remove PMIX_* from the environment",
        PMIx_Error_string(call.status));
}

static int pmix_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                     struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    (void)log;
    struct pmix_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    /* with PMIx's default data store, an MPI_Init of this process after our PMIx_Finalize fails */
    if (!PMIx_Initialized())
        setenv("PMIX_MCA_gds", "hash", 0);
    int rc = init_in_time(state, deadline_us, err);
    if (rc != HVD_OK) {
        timed_caller_close(state->caller);
        free(state);
        return rc;
    }
    rc = read_job(&state->self, job, err);
    state->size = job->size;
    state->local_peers = read_local_peers(&state->self);
    if (rc == HVD_OK)
        *statep = state;
    else
        pmix_close(state);
    return rc;
}

/* Read "0,2,3", which must ascend below [size] and hold [own]. Returns how many; 0 if it is no such list. */
static int parse_ranks(const char *text, int size, int own, int *ranks)
{
    int count = 0;
    bool own_seen = false;
    for (char *end = NULL; *text != 0 && count < size; text = *end == ',' ? end + 1 : end) {
        long rank = strtol(text, &end, 10);
        if (end == text || (*end != ',' && *end != 0) || rank < 0 || rank >= size ||
            (count > 0 && rank <= ranks[count - 1]))
            return 0;
        own_seen = own_seen || rank == own;
        ranks[count++] = (int)rank;
    }
    return own_seen && *text == 0 ? count : 0;
}

static int pmix_local_peers(void *opaque, int **ranksp, int *countp, struct hvd_error *err)
{
    const struct pmix_state *state = opaque;
    *countp = 0;
    *ranksp = NULL;
    if (state->local_peers == NULL)
        return HVD_OK;
    int *ranks = malloc((size_t)state->size * sizeof(*ranks));
    if (ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", state->size);
    *countp = parse_ranks(state->local_peers, state->size, (int)state->self.rank, ranks);
    *ranksp = ranks;
    return HVD_OK;
}

static int pmix_put(void *opaque, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    struct pmix_state *state = opaque;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    if (length > WIREUP_BLOB_BYTES || strlen(key) > PMIX_MAX_KEYLEN)
        return error_set(err, HVD_ERR_INVALID, "wire-up: %zu bytes under '%.64s': expected at most %d",
                         length, key, WIREUP_BLOB_BYTES);
    value.data.bo.bytes = (char *)bytes; /* PMIx copies it and does not change it */
    value.data.bo.size = length;
    if (state->first_key[0] == 0 && strlen(key) < sizeof(state->first_key))
        memcpy(state->first_key, key, strlen(key) + 1);
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? HVD_OK : pmix_failure(status, "Put", err);
}

/* ---- The fence, and who is missing from it ---- */

/* At each fence a rank leaves marks for the other ranks of its node, which do not ask for them unless the
 * fence is late. PMIx keeps them on this node. Before it calls PMIx_Fence it says that it comes; and where it
 * has waited for half of its time, that it waits: one that was stopped between the two does not say that. */
static const char mark_comes[] = "fence", mark_waits[] = "waits";

static void name_mark(const struct pmix_state *state, const char *kind, char key[32])
{
    snprintf(key, 32, "hvd.%s.%u", kind, state->fence);
}

static int leave_mark(struct pmix_state *state, const char *kind, int64_t deadline_us, struct hvd_error *err)
{
    char key[32];
    char here = 1;
    struct pmix_call commit;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {&here, sizeof(here)}};
    name_mark(state, kind, key);
    pmix_status_t status = PMIx_Put(PMIX_LOCAL, key, &value);
    if (status != PMIX_SUCCESS)
        return pmix_failure(status, "Put", err);
    int rc = call_in_time(state, run_commit, "Commit", deadline_us, &commit, err);
    if (rc == HVD_OK && commit.status != PMIX_SUCCESS)
        rc = pmix_failure(commit.status, "Commit", err);
    return rc;
}

enum mark { MARK_THERE, MARK_MISSING, MARK_UNANSWERED };

/* Ask for what [rank] has put under [key]; NULL if memory is out. */
static struct waiter *ask_for_key(const struct pmix_state *state, pmix_rank_t rank, const char *key,
                                  const pmix_info_t *info)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, state->self.nspace, rank);
    struct waiter *waiter = waiter_create();
    if (waiter == NULL)
        return NULL;
    pmix_status_t status = PMIx_Get_nb(&proc, key, info, info != NULL ? 1 : 0, on_value, waiter);
    if (status != PMIX_SUCCESS)
        complete_waiter(waiter, status, NULL);
    return waiter;
}

/* Has the rank put it? NULL is fine. */
static enum mark take_answer(struct waiter *waiter, int64_t deadline_us)
{
    if (waiter == NULL || !await(waiter, deadline_us))
        return MARK_UNANSWERED;
    enum mark mark = waiter->status == PMIX_SUCCESS ? MARK_THERE : MARK_MISSING;
    waiter_destroy(waiter);
    return mark;
}

/* Has [rank] of this node left the mark at the fence that is late? */
static enum mark find_mark(const struct pmix_state *state, pmix_rank_t rank, const char *kind,
                           int64_t deadline_us)
{
    char key[32];
    pmix_info_t immediate;
    name_mark(state, kind, key);
    PMIX_INFO_LOAD(&immediate, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
    enum mark mark = take_answer(ask_for_key(state, rank, key, &immediate), deadline_us);
    PMIX_INFO_DESTRUCT(&immediate);
    return mark;
}

/* Who is missing from the fence that is late. */
struct missing_ranks {
    const char *mark; /* that those of this node have not left */
    int count;        /* those that are named */
    char names[200];  /* "1, 4 and maybe more" */
    size_t used;
    bool unanswered; /* the server answered nothing */
    bool unknown;    /* the server never said who is on this node */
};

static void add_name(struct missing_ranks *missing, pmix_rank_t rank)
{
    size_t room = sizeof(missing->names) - missing->used;
    missing->used += (size_t)snprintf(missing->names + missing->used, room, "%s%u",
                                      missing->count++ == 0 ? "" : ", ", rank);
}

/* Returns whether there is room for one more. */
static bool may_add_name(struct missing_ranks *missing)
{
    if (missing->count == NAMES_MAX)
        snprintf(missing->names + missing->used, sizeof(missing->names) - missing->used, " and maybe more");
    return missing->count < NAMES_MAX;
}

/* Enter what is known of one rank of this node. Returns false at the end of the time, or of the room. */
static bool enter_rank(const struct pmix_state *state, pmix_rank_t rank, int64_t deadline_us,
                       struct missing_ranks *missing)
{
    if (rank == state->self.rank)
        return true;
    if (clock_us() >= deadline_us || !may_add_name(missing))
        return false;
    enum mark mark = find_mark(state, rank, missing->mark, clock_us() + NAME_US);
    missing->unanswered = mark == MARK_UNANSWERED;
    if (mark == MARK_MISSING)
        add_name(missing, rank);
    return mark != MARK_UNANSWERED;
}

static void find_missing_here(const struct pmix_state *state, struct missing_ranks *missing)
{
    int64_t deadline_us = clock_us() + NAMES_US;
    const char *at = state->local_peers;
    missing->unknown = at == NULL;
    while (at != NULL && *at != 0) {
        char *end = NULL;
        pmix_rank_t rank = (pmix_rank_t)strtoul(at, &end, 10);
        missing->unknown = end == at;
        if (missing->unknown || !enter_rank(state, rank, deadline_us, missing))
            return;
        at = *end == ',' ? end + 1 : end;
    }
}

/* The server of another node answers when the rank has put something, or never; that the rank has not put
 * this key, as rank 0 puts more than others, is an answer too. So this finds only those that are missing from
 * the first fence. */
static void find_missing_elsewhere(const struct pmix_state *state, struct missing_ranks *missing)
{
    struct waiter *waiters[ASKED_MAX];
    pmix_rank_t asked[ASKED_MAX];
    int *local = NULL, local_count = 0, count = 0;
    if (state->fence != 1 || state->first_key[0] == 0 ||
        pmix_local_peers((void *)state, &local, &local_count, NULL) != HVD_OK)
        return;
    for (int i = 1; i < state->size && count < ASKED_MAX; i++) {
        int rank = (int)((state->self.rank + (unsigned)i) % (unsigned)state->size);
        if (rank_list_has(local, local_count, rank))
            continue;
        asked[count] = (pmix_rank_t)rank;
        waiters[count++] = ask_for_key(state, (pmix_rank_t)rank, state->first_key, NULL);
    }
    int64_t deadline_us = clock_us() + ASKED_US;
    for (int i = 0; i < count; i++)
        if (take_answer(waiters[i], deadline_us) == MARK_UNANSWERED && may_add_name(missing))
            add_name(missing, asked[i]);
    free(local);
}

/* All that are missing may never have come; else there are those that came and do not wait. */
static void find_missing(const struct pmix_state *state, struct missing_ranks *missing)
{
    *missing = (struct missing_ranks){.mark = mark_comes};
    find_missing_here(state, missing);
    if (!missing->unanswered)
        find_missing_elsewhere(state, missing);
    if (missing->count > 0 || missing->unanswered)
        return;
    missing->mark = mark_waits;
    find_missing_here(state, missing);
}

/* Are all ranks of the job on this node? */
static bool is_one_node(const struct pmix_state *state)
{
    int *local = NULL, count = 0;
    pmix_local_peers((void *)state, &local, &count, NULL);
    free(local);
    return count == state->size;
}

static int fence_timeout(const struct pmix_state *state, struct hvd_error *err)
{
    struct missing_ranks missing;
    find_missing(state, &missing);
    const char *verb = missing.count == 1 ? "is" : "are";
    if (missing.count > 0 && missing.mark == mark_comes)
        return error_set(err, HVD_ERR_TIMEOUT,
                         "not all ranks joined in time: rank %s %s missing, and may never have called "
                         "hvd_init; --hvd-start-timeout gives them longer",
                         missing.names, verb);
    if (missing.count > 0)
        return error_set(err, HVD_ERR_TIMEOUT,
                         "not all ranks joined in time: rank %s called hvd_init, and %s late or stopped; "
                         "--hvd-start-timeout gives them longer",
                         missing.names, verb);
    if (missing.unanswered || is_one_node(state))
        return server_is_silent("Fence", err);
    return error_set(err, HVD_ERR_TIMEOUT,
                     "not all ranks joined in time%s; --hvd-start-timeout gives them longer",
                     missing.unknown ? ", and PMIx does not say which"
                                     : ": those of this node did, and some elsewhere did not");
}

/* Wait for the end of the fence. Half of the time is for those that come late. */
static int await_fence(struct pmix_state *state, struct waiter *waiter, int64_t deadline_us,
                       struct hvd_error *err)
{
    int rc = HVD_OK;
    int64_t now_us = clock_us();
    if (!await_first(waiter, now_us + (deadline_us - now_us) / 2))
        rc = leave_mark(state, mark_waits, deadline_us, err);
    if (rc == HVD_ERR_TIMEOUT)
        rc = server_is_silent("Fence", err); /* in which this rank is */
    if (await(waiter, rc == HVD_OK ? deadline_us : 0))
        return HVD_OK;
    state->late = true;
    return rc == HVD_OK ? fence_timeout(state, err) : rc;
}

static int fence_once(struct pmix_state *state, int64_t deadline_us, pmix_status_t *statusp,
                      struct hvd_error *err)
{
    pmix_info_t collect;
    int rc = HVD_OK;
    struct waiter *waiter = waiter_create();
    if (waiter == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
    *statusp = PMIx_Fence_nb(NULL, 0, &collect, 1, on_fence, waiter);
    if (*statusp == PMIX_SUCCESS) {
        rc = await_fence(state, waiter, deadline_us, err);
        if (rc == HVD_OK)
            *statusp = waiter->status;
    }
    PMIX_INFO_DESTRUCT(&collect);
    if (rc == HVD_OK)
        waiter_destroy(waiter);
    return rc;
}

/* A rank that calls hvd_init again may be in the first fence of that before another one has closed the
 * connection of the time before. The server then takes this one for lost, and ends the fence without it. */
static bool ended_too_soon(const struct pmix_state *state, pmix_status_t status)
{
    return state->fence == 1 && status == PMIX_ERR_PARTIAL_SUCCESS;
}

static int pmix_fence(void *opaque, int64_t deadline_us, struct hvd_error *err)
{
    struct pmix_state *state = opaque;
    pmix_status_t status = PMIX_SUCCESS;
    state->fence++;
    int rc = leave_mark(state, mark_comes, deadline_us, err);
    if (rc == HVD_OK)
        rc = fence_once(state, deadline_us, &status, err);
    while (rc == HVD_OK && ended_too_soon(state, status) && clock_us() < deadline_us) {
        poll(NULL, 0, FENCE_AGAIN_MS);
        rc = fence_once(state, deadline_us, &status, err);
    }
    if (rc != HVD_OK)
        return rc;
    return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? HVD_OK
                                                                        : pmix_failure(status, "Fence", err);
}

/* What one question for a blob brought. */
struct get_answer {
    pmix_status_t status;
    struct wireup_blob blob; /* NULL: it is no blob */
};

static int ask_once(const struct pmix_state *state, int rank, const char *key, int64_t deadline_us,
                    struct get_answer *answer, struct hvd_error *err)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, state->self.nspace, (pmix_rank_t)rank);
    struct waiter *waiter = waiter_create();
    if (waiter == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    answer->status = PMIx_Get_nb(&proc, key, NULL, 0, on_value, waiter);
    if (answer->status == PMIX_SUCCESS) {
        if (!await(waiter, deadline_us))
            return error_set(err, HVD_ERR_TIMEOUT,
                             "PMIx did not hand over what rank %d put under '%.64s' in time; "
                             "--hvd-start-timeout waits longer",
                             rank, key);
        answer->status = waiter->status;
    }
    answer->blob = (struct wireup_blob){waiter->bytes, waiter->length};
    waiter->bytes = NULL;
    waiter_destroy(waiter);
    return HVD_OK;
}

/* A fence of mpirun may end before all ranks have come: where a rank ran one program after another, the
 * server of Open MPI 4 may count it out, if the first one's connection closes before the server has entered
 * that it called PMIx_Finalize. So ask until the value is there. A server of PMIx waits a while by itself for
 * a rank that has put nothing. */
static int ask_until_put(const struct pmix_state *state, int rank, const char *key, int64_t deadline_us,
                         struct get_answer *answer, struct hvd_error *err)
{
    int64_t late_us = clock_us() + LATE_US;
    int rc = ask_once(state, rank, key, deadline_us, answer, err);
    while (rc == HVD_OK && clock_us() < deadline_us &&
           (answer->status == PMIX_ERR_TIMEOUT ||
            (answer->status == PMIX_ERR_NOT_FOUND && clock_us() < late_us))) {
        poll(NULL, 0, ASK_AGAIN_MS);
        rc = ask_once(state, rank, key, deadline_us, answer, err);
    }
    return rc;
}

static int pmix_get(void *opaque, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                    struct hvd_error *err)
{
    struct get_answer answer;
    int rc = ask_until_put(opaque, rank, key, deadline_us, &answer, err);
    if (rc != HVD_OK)
        return rc;
    if (answer.status == PMIX_ERR_NOT_FOUND)
        return error_set(err, HVD_ERR_MISMATCH,
                         "rank %d has put nothing under '%.64s'; do all ranks run the same hvd?", rank, key);
    if (answer.status != PMIX_SUCCESS)
        return pmix_failure(answer.status, "Get", err);
    if (answer.blob.bytes == NULL)
        return error_set(err, HVD_ERR_MISMATCH,
                         "what rank %d put under '%.64s' is no blob of at most %d bytes; do all "
                         "ranks run the same hvd?",
                         rank, key, WIREUP_BLOB_BYTES);
    *blob = answer.blob;
    return HVD_OK;
}

extern HVD_API const struct wireup_ops wireup_pmix_ops;

const struct wireup_ops wireup_pmix_ops = {.name = "pmix",
                                           .open = pmix_open,
                                           .put = pmix_put,
                                           .fence = pmix_fence,
                                           .get = pmix_get,
                                           .local_peers = pmix_local_peers,
                                           .close = pmix_close};
