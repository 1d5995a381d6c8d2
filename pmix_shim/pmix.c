/* pmix.c: the provider that asks the PMIx server of srun, mpirun, jsrun or hvdrun. It is a module, as
 * nothing else in libhvd needs libpmix. */
#include "config.h"
#include "bootstrap/wireup.h"

#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/home.h"

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

struct pmix_state {
    pmix_proc_t self;
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

/* True when the callback has come. False at the deadline; then PMIx's thread frees the waiter. */
static bool await(struct waiter *waiter, int64_t deadline_us)
{
    const struct timespec deadline = {.tv_sec = deadline_us / 1000000,
                                      .tv_nsec = deadline_us % 1000000 * 1000};
    int rc = 0;
    pthread_mutex_lock(&waiter->lock);
    while (!waiter->done && rc == 0)
        rc = pthread_cond_timedwait(&waiter->changed, &waiter->lock, &deadline);
    bool done = waiter->done;
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

static void pmix_close(void *opaque)
{
    struct pmix_state *state = opaque;
    if (state == NULL)
        return;
    /* PMIx counts its users: if the program's MPI uses it too, this only drops our use */
    PMIx_Finalize(NULL, 0);
    free(state);
}

/* libpmix crashes without a home folder, so the program gets one for as long as this takes. */
static pmix_status_t init_with_home(pmix_proc_t *self)
{
    bool unknown = home_is_unknown(NULL);
    if (unknown)
        setenv("HOME", HOME_SUBSTITUTE, 1);
    pmix_status_t status = PMIx_Init(self, NULL, 0);
    if (unknown)
        unsetenv("HOME");
    return status;
}

static int pmix_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                     struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    (void)log;
    (void)deadline_us;
    struct pmix_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    /* with PMIx's default data store, an MPI_Init of this process after our PMIx_Finalize fails */
    if (!PMIx_Initialized())
        setenv("PMIX_MCA_gds", "hash", 0);
    pmix_status_t status = init_with_home(&state->self);
    if (status != PMIX_SUCCESS) {
        free(state);
        return error_set(
            err, HVD_ERR_INVALID,
            "the launcher's PMIx server cannot be reached (PMIx_Init: %s), though PMIX_NAMESPACE names one: "
            "start each rank by the launcher itself, or remove PMIX_* from the environment",
            PMIx_Error_string(status));
    }
    int rc = read_job(&state->self, job, err);
    if (rc == HVD_OK)
        *statep = state;
    else
        pmix_close(state);
    return rc;
}

static int pmix_put(void *opaque, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)opaque;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    if (length > WIREUP_BLOB_BYTES || strlen(key) > PMIX_MAX_KEYLEN)
        return error_set(err, HVD_ERR_INVALID, "wire-up: %zu bytes under '%.64s': expected at most %d",
                         length, key, WIREUP_BLOB_BYTES);
    value.data.bo.bytes = (char *)bytes; /* PMIx copies it and does not change it */
    value.data.bo.size = length;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? HVD_OK : pmix_failure(status, "Put", err);
}

static int pmix_fence(void *opaque, int64_t deadline_us, struct hvd_error *err)
{
    (void)opaque;
    pmix_info_t collect;
    pmix_status_t status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
        return pmix_failure(status, "Commit", err);
    struct waiter *waiter = waiter_create();
    if (waiter == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
    status = PMIx_Fence_nb(NULL, 0, &collect, 1, on_fence, waiter);
    bool answered = true;
    if (status == PMIX_SUCCESS) {
        answered = await(waiter, deadline_us);
        if (answered)
            status = waiter->status;
    }
    PMIX_INFO_DESTRUCT(&collect);
    if (!answered)
        return error_set(
            err, HVD_ERR_TIMEOUT,
            "not all ranks joined in time (PMIx does not say which); --hvd-start-timeout gives them longer");
    waiter_destroy(waiter);
    return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? HVD_OK
                                                                        : pmix_failure(status, "Fence", err);
}

static int pmix_get(void *opaque, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                    struct hvd_error *err)
{
    struct pmix_state *state = opaque;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, state->self.nspace, (pmix_rank_t)rank);
    struct waiter *waiter = waiter_create();
    if (waiter == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    pmix_status_t status = PMIx_Get_nb(&proc, key, NULL, 0, on_value, waiter);
    if (status == PMIX_SUCCESS) {
        if (!await(waiter, deadline_us))
            return error_set(err, HVD_ERR_TIMEOUT,
                             "PMIx did not hand over what rank %d put under '%.64s' in time; "
                             "--hvd-start-timeout waits longer",
                             rank, key);
        status = waiter->status;
    }
    int rc = HVD_OK;
    if (status == PMIX_ERR_NOT_FOUND)
        rc = error_set(err, HVD_ERR_MISMATCH,
                       "rank %d has put nothing under '%.64s'; do all ranks run the same hvd?", rank, key);
    else if (status != PMIX_SUCCESS)
        rc = pmix_failure(status, "Get", err);
    else if (waiter->bytes == NULL)
        rc = error_set(err, HVD_ERR_MISMATCH,
                       "what rank %d put under '%.64s' is no blob of at most %d bytes; do all "
                       "ranks run the same hvd?",
                       rank, key, WIREUP_BLOB_BYTES);
    if (rc == HVD_OK) {
        *blob = (struct wireup_blob){waiter->bytes, waiter->length};
        waiter->bytes = NULL;
    }
    waiter_destroy(waiter);
    return rc;
}

extern HVD_API const struct wireup_ops wireup_pmix_ops;

const struct wireup_ops wireup_pmix_ops = {.name = "pmix",
                                           .open = pmix_open,
                                           .put = pmix_put,
                                           .fence = pmix_fence,
                                           .get = pmix_get,
                                           .close = pmix_close};
