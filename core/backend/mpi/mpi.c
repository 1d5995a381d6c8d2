/* mpi.c: the module backend_mpi.so: the chunks of batches as MPI messages.
 *
 * Threads: hvd requests MPI_THREAD_SERIALIZED, as only the progress driver calls MPI. A program that calls
 * MPI itself while hvd has work in flight must have requested MPI_THREAD_MULTIPLE. Waking: MPI has no
 * descriptor that becomes readable when a message arrives, so test is polled while a batch runs. Start and
 * end: if the program has not called MPI_Init, hvd does at the first batch. MPI cannot start twice in a
 * process, so hvd then calls MPI_Finalize only when the process exits. After MPI_Finalize, whoever calls it,
 * hvd makes no more MPI calls. */
#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ulimit.h"
#include "backend/sched/chain.h"
#include "backend/sched/pairwise.h"
#include "backend/backend_env.h"

#define CHUNK_BYTES BACKEND_SENDS_BYTES(4)
#define DEPTH       4 /* messages of a kind in flight in each direction */
#define SLICE_US    100
#define GIVE_UP_US  1000000

/* What MPI_Init takes of the address space, without which MPI's libraries crash: 216 MiB with Open MPI 4.1,
 * three heaps of threads among them. */
#define INIT_BYTES ((size_t)224 << 20)

_Static_assert(CHUNK_BYTES >= BACKEND_SOURCE_BYTES, "a chunk of a source is no longer than ours");

/* The messages in flight of one kind and direction, in order: the oldest is requests[first]. */
struct mpi_queue {
    MPI_Request requests[DEPTH];
    size_t lengths[DEPTH];
    int first, count;
};

/* One communicator for all teams. Its ranks are the job's. */
struct mpi {
    MPI_Comm comm;
    bool broken; /* MPI has reported an error, or a batch was given up */
    bool takes_gpu;
};

struct mpi_team {
    struct mpi *mpi;
    struct team team;
    int next, previous; /* ranks of the job */
    bool is_alltoall;   /* the batch that runs is an alltoall */
    struct chain chain;
    struct mpi_queue in[CHAIN_KINDS];
    struct mpi_queue out[CHAIN_KINDS];
    struct pairwise pairwise;
    MPI_Request requests[PAIRWISE_DIRECTIONS][PAIRWISE_LANES]; /* MPI_REQUEST_NULL: none */
};

/* MPI exists once in a process, and may have been started by hvd. */
static struct {
    bool initialized_here;
    bool broken; /* a rank is lost or messages are left over, for which MPI_Finalize would wait */
} process;

/* ---- MPI itself ----------------------------------------------------------------------------- */

static int mpi_error(int rc, const char *what, struct hvd_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(rc, text, &length);
    return error_set(err, HVD_ERR_SYSTEM, "backend mpi: %s: %s", what, text);
}

static bool is_finalized(void)
{
    int flag = 0;
    MPI_Finalized(&flag);
    return flag != 0;
}

/* atexit handlers run before the destructors of libraries, of which those of MPI's own parts could come
 * before ours. */
static void finalize_at_exit(void)
{
    if (process.initialized_here && !process.broken && !is_finalized())
        MPI_Finalize();
}

/* MPI_Init has no deadline: it returns when all ranks have called it, or never. */
static int initialize(struct hvd_error *err)
{
    int flag = 0;
    int level = MPI_THREAD_SINGLE;
    if (is_finalized())
        return error_set(err, HVD_ERR_STATE,
                         "backend mpi: the program has called MPI_Finalize; leave mpi out of backends");
    MPI_Initialized(&flag);
    if (flag == 0) {
        int rc = ulimit_leaves_room("backend mpi: MPI", INIT_BYTES, err);
        if (rc != HVD_OK)
            return rc;
        rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (rc != MPI_SUCCESS)
            return mpi_error(rc, "MPI_Init_thread", err);
        process.initialized_here = true;
        atexit(finalize_at_exit);
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "backend mpi: MPI runs at thread level %d, MPI_THREAD_SERIALIZED (%d) is needed",
                         level, MPI_THREAD_SERIALIZED);
    return HVD_OK;
}

static int check_world(const struct hvd_job *job, struct hvd_error *err)
{
    int rank = -1;
    int size = -1;
    bool sub_job = job->launcher_ranks != NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (sub_job && rank == job->launcher_ranks[job->rank] && size == job->launcher_size)
        return HVD_OK;
    if (!sub_job && rank == job->rank && size == job->size)
        return HVD_OK;
    return error_set(err, HVD_ERR_UNSUPPORTED,
                     "backend mpi: this is rank %d of %d in MPI_COMM_WORLD, but rank %d of %d in the job; "
                     "leave mpi out of backends",
                     rank, size, sub_job ? job->launcher_ranks[job->rank] : job->rank,
                     sub_job ? job->launcher_size : job->size);
}

static int duplicate_world(MPI_Comm *comm, int64_t deadline_us, struct hvd_error *err)
{
    int done = 0;
    MPI_Request request;
    int rc = MPI_Comm_idup(MPI_COMM_WORLD, comm, &request);
    while (rc == MPI_SUCCESS && done == 0 && clock_us() < deadline_us) {
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        sched_yield();
    }
    if (rc != MPI_SUCCESS)
        return mpi_error(rc, "MPI_Comm_idup of MPI_COMM_WORLD", err);
    if (done == 0)
        return error_set(err, HVD_ERR_TIMEOUT, "backend mpi: not all ranks came to MPI_Comm_idup in time");
    return HVD_OK;
}

#define SUB_JOB_TAG 0x6876 /* of MPI_Comm_create_group; unlikely to be one of the program's */

/* A communicator of the processes of MPI_COMM_WORLD that make up this sub-job. It has no deadline. */
static int make_sub_job_comm(const struct hvd_job *job, MPI_Comm *comm, struct hvd_error *err)
{
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    int rc = MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_incl(world, job->size, job->launcher_ranks, &members);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_create_group(MPI_COMM_WORLD, members, SUB_JOB_TAG, comm);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    if (world != MPI_GROUP_NULL)
        MPI_Group_free(&world);
    return rc == MPI_SUCCESS ? HVD_OK : mpi_error(rc, "MPI_Comm_create_group of the sub-job", err);
}

/* hvd's own communicator, so that messages of the program are never mistaken for hvd's. */
static int make_comm(const struct hvd_job *job, MPI_Comm *comm, int64_t deadline_us, struct hvd_error *err)
{
    int rc = job->launcher_ranks == NULL ? duplicate_world(comm, deadline_us, err)
                                         : make_sub_job_comm(job, comm, err);
    if (rc != HVD_OK)
        return rc;
    rc = MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return rc == MPI_SUCCESS ? HVD_OK : mpi_error(rc, "MPI_Comm_set_errhandler", err);
}

/* ---- Memory of GPUs ------------------------------------------------------------------------- */

/* Open MPI and MPICH have it; in another MPI it is NULL. */
extern int MPIX_Query_cuda_support(void) __attribute__((weak));

/* MPI can tell once it has started. */
static bool find_takes_gpu(const struct backend_env *env)
{
    bool aware = MPIX_Query_cuda_support != NULL && MPIX_Query_cuda_support() != 0;
    if (!env->config->mpi_gpu)
        return false;
    log_write(env->log, aware || env->job->rank > 0 ? LOG_INFO : LOG_WARN, "backend",
              aware ? "mpi is given tensors where they are on GPUs, if nothing is to be reduced"
                    : "mpi is given copies of tensors on GPUs, as this MPI says that it is not CUDA-aware; "
                      "install one that is, or leave out --hvd-mpi-gpu");
    return aware;
}

static bool mpi_takes_gpu(const void *state)
{
    const struct mpi *mpi = state;
    return mpi->takes_gpu;
}

/* ---- Messages along the ring ---------------------------------------------------------------- */

/* MPI keeps messages of one sender, tag and communicator in order, and any two ranks begin the batches that
 * they share, of all teams, in the same order. So the kind, as tag, suffices to identify a message. */
#define TAG_PAIRWISE CHAIN_KINDS

static int post_receive(struct mpi_team *self, enum chain_kind kind)
{
    struct mpi_queue *queue = &self->in[kind];
    struct chain_chunk chunk;
    void *bytes = chain_receive(&self->chain, kind, &chunk);
    int slot = (queue->first + queue->count++) % DEPTH;
    queue->lengths[slot] = chunk.length;
    return MPI_Irecv(bytes, (int)chunk.length, MPI_BYTE, self->previous, (int)kind, self->mpi->comm,
                     &queue->requests[slot]);
}

static int post_send(struct mpi_team *self, enum chain_kind kind)
{
    struct mpi_queue *queue = &self->out[kind];
    struct chain_chunk chunk;
    const void *bytes = chain_send(&self->chain, kind, &chunk);
    int slot = (queue->first + queue->count++) % DEPTH;
    return MPI_Isend(bytes, (int)chunk.length, MPI_BYTE, self->next, (int)kind, self->mpi->comm,
                     &queue->requests[slot]);
}

static int post_all(struct mpi_team *self, enum chain_kind kind, bool *movedp)
{
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && self->in[kind].count < DEPTH && chain_can_receive(&self->chain, kind)) {
        rc = post_receive(self, kind);
        *movedp = true;
    }
    while (rc == MPI_SUCCESS && self->out[kind].count < DEPTH && chain_can_send(&self->chain, kind)) {
        rc = post_send(self, kind);
        *movedp = true;
    }
    return rc;
}

/* Is the oldest message of [queue] complete? If so, remove it. */
static int test_oldest(struct mpi_queue *queue, int *donep, MPI_Status *status)
{
    *donep = 0;
    if (queue->count == 0)
        return MPI_SUCCESS;
    int rc = MPI_Test(&queue->requests[queue->first], donep, status);
    if (rc == MPI_SUCCESS && *donep != 0) {
        queue->first = (queue->first + 1) % DEPTH;
        queue->count--;
    }
    return rc;
}

static int check_length(const MPI_Status *status, size_t expected)
{
    int length = 0;
    MPI_Get_count(status, MPI_BYTE, &length);
    return (size_t)length == expected ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

static int finish_oldest(struct mpi_team *self, enum chain_kind kind, bool *movedp)
{
    int done = 0;
    MPI_Status status;
    int rc = test_oldest(&self->out[kind], &done, MPI_STATUS_IGNORE);
    if (done != 0) {
        chain_sent(&self->chain, kind);
        *movedp = true;
    }
    size_t expected = self->in[kind].lengths[self->in[kind].first];
    if (rc == MPI_SUCCESS)
        rc = test_oldest(&self->in[kind], &done, &status);
    if (rc != MPI_SUCCESS || done == 0)
        return rc;
    rc = check_length(&status, expected);
    if (rc != MPI_SUCCESS)
        return rc;
    chain_received(&self->chain, kind);
    *movedp = true;
    return MPI_SUCCESS;
}

static int progress_ring(struct mpi_team *self, bool *movedp)
{
    int rc = MPI_SUCCESS;
    for (int kind = CHAIN_KINDS - 1; rc == MPI_SUCCESS && kind >= 0; kind--) {
        rc = post_all(self, (enum chain_kind)kind, movedp);
        if (rc == MPI_SUCCESS)
            rc = finish_oldest(self, (enum chain_kind)kind, movedp);
    }
    return rc;
}

/* ---- Messages between all pairs ------------------------------------------------------------- */

static int post_chunk(struct mpi_team *self, enum pairwise_direction direction,
                      const struct pairwise_chunk *chunk, MPI_Request *request)
{
    int rank = self->team.ranks[chunk->member];
    if (direction == PAIRWISE_RECEIVE)
        return MPI_Irecv(chunk->bytes, (int)chunk->length, MPI_BYTE, rank, TAG_PAIRWISE, self->mpi->comm,
                         request);
    return MPI_Isend(chunk->bytes, (int)chunk->length, MPI_BYTE, rank, TAG_PAIRWISE, self->mpi->comm,
                     request);
}

/* Post the current chunk of this lane, or test whether it is complete. */
static int progress_lane(struct mpi_team *self, enum pairwise_direction direction, int lane, bool *movedp)
{
    MPI_Request *request = &self->requests[direction][lane];
    struct pairwise_chunk chunk;
    MPI_Status status;
    int done = 0;
    if (!pairwise_next(&self->pairwise, direction, lane, &chunk))
        return MPI_SUCCESS;
    if (*request == MPI_REQUEST_NULL) {
        *movedp = true;
        return post_chunk(self, direction, &chunk, request);
    }
    int rc = MPI_Test(request, &done, &status);
    if (rc != MPI_SUCCESS || done == 0)
        return rc;
    *movedp = true;
    if (direction == PAIRWISE_RECEIVE)
        rc = check_length(&status, chunk.length);
    pairwise_chunk_done(&self->pairwise, direction, lane);
    return rc;
}

static int progress_pairwise(struct mpi_team *self, bool *movedp)
{
    int rc = MPI_SUCCESS;
    *movedp = pairwise_copy_own(&self->pairwise);
    for (int lane = 0; rc == MPI_SUCCESS && lane < PAIRWISE_LANES; lane++) {
        rc = progress_lane(self, PAIRWISE_RECEIVE, lane, movedp);
        if (rc == MPI_SUCCESS)
            rc = progress_lane(self, PAIRWISE_SEND, lane, movedp);
    }
    return rc;
}

static int progress_batch(struct mpi_team *self, bool *movedp)
{
    *movedp = false;
    return self->is_alltoall ? progress_pairwise(self, movedp) : progress_ring(self, movedp);
}

/* Does a batch run? */
static bool is_running(const struct mpi_team *self)
{
    if (self->is_alltoall)
        return pairwise_left(&self->pairwise);
    return chain_sends_left(&self->chain) || chain_receives_left(&self->chain);
}

/* ---- The backend ------------------------------------------------------------------------------ */

/* The stub in libhvd has answered this before it loads the module. */
static bool mpi_available(const struct backend_env *env, const char **whyp)
{
    (void)env;
    *whyp = NULL;
    return true;
}

static bool mpi_supports(const struct backend_need *need)
{
    return chain_supports(need) || pairwise_supports(need);
}

static int mpi_open(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    int status;
    struct mpi *mpi = calloc(1, sizeof(*mpi));
    if (mpi == NULL)
        return error_set_errno(err, "backend mpi: no memory for %zu bytes", sizeof(*mpi));
    status = initialize(err);
    if (status < 0)
        goto fail;
    status = check_world(env->job, err);
    if (status < 0)
        goto fail;
    status = make_comm(env->job, &mpi->comm, deadline_us, err);
    if (status < 0) {
        process.broken = true;
        goto fail;
    }
    mpi->takes_gpu = find_takes_gpu(env);
    *statep = mpi;
    return HVD_OK;
fail:
    free(mpi);
    return status;
}

/* Nothing is said between ranks for it. */
static int mpi_add_team(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    (void)deadline_us;
    struct mpi_team *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return error_set_errno(err, "backend mpi: no memory for %zu bytes", sizeof(*self));
    int status = chain_init(&self->chain, team->rank, team->size, CHUNK_BYTES, DEPTH, err);
    if (status < 0) {
        free(self);
        return status;
    }
    pairwise_init(&self->pairwise, team->rank, team->size, CHUNK_BYTES);
    for (int direction = 0; direction < PAIRWISE_DIRECTIONS; direction++)
        for (int lane = 0; lane < PAIRWISE_LANES; lane++)
            self->requests[direction][lane] = MPI_REQUEST_NULL;
    self->mpi = state;
    self->team = *team;
    self->next = team->ranks[(team->rank + 1) % team->size];
    self->previous = team->ranks[(team->rank + team->size - 1) % team->size];
    *teamp = self;
    return HVD_OK;
}

static int mpi_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    struct mpi *mpi = state;
    struct mpi_team *self = team;
    if (is_finalized())
        return error_set(err, HVD_ERR_STATE,
                         "backend mpi: the program has called MPI_Finalize; call hvd_shutdown before that");
    if (mpi->broken)
        return error_set(err, HVD_ERR_SYSTEM, "backend mpi: MPI has failed in an earlier batch");
    self->is_alltoall = batch->need.kind == COLL_ALLTOALL;
    if (self->is_alltoall)
        pairwise_start(&self->pairwise, batch);
    else
        return chain_start(&self->chain, batch, err);
    return HVD_OK;
}

/* MPI does not say which rank was lost; control does. */
static int mpi_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp;
    struct mpi *mpi = state;
    struct mpi_team *self = team;
    int64_t end_us = clock_us() + SLICE_US;
    bool moved = true;
    *movedp = false;
    if (is_finalized())
        return error_set(err, HVD_ERR_STATE, "backend mpi: the program called MPI_Finalize in batch %" PRIu64,
                         self->is_alltoall ? self->pairwise.batch.sequence : self->chain.batch.sequence);
    while (is_running(self)) {
        if (!moved || clock_us() >= end_us)
            return HVD_IN_PROGRESS;
        int rc = progress_batch(self, &moved);
        if (rc != MPI_SUCCESS) {
            mpi->broken = true;
            return mpi_error(rc, self->is_alltoall ? "a message of an alltoall" : "a message of the ring",
                             err);
        }
        *movedp = *movedp || moved;
    }
    return HVD_OK;
}

/* MPI does not say whose message is missing, but the schedule does. */
static int mpi_waits_for(const void *state, void *team)
{
    (void)state;
    const struct mpi_team *self = team;
    struct pairwise_chunk chunk;
    if (!self->is_alltoall && (self->out[CHAIN_PARTIAL].count > 0 || self->out[CHAIN_RESULT].count > 0))
        return self->next;
    if (!self->is_alltoall)
        return chain_waits_for_input(&self->chain) ? self->previous : -1;
    for (int direction = PAIRWISE_DIRECTIONS - 1; direction >= 0; direction--) {
        for (int lane = 0; lane < PAIRWISE_LANES; lane++) {
            if (pairwise_next(&self->pairwise, (enum pairwise_direction)direction, lane, &chunk))
                return self->team.ranks[chunk.member];
        }
    }
    return -1;
}

/* End a request, so that MPI does not touch its memory any more. A receive that has no message yet is
 * cancelled. Any other completes soon if its peer is alive; if it is not, nothing moves that memory any more.
 */
static void give_up_request(MPI_Request *request, bool cancels, int64_t end_us)
{
    int done = *request == MPI_REQUEST_NULL;
    if (cancels && done == 0)
        MPI_Cancel(request);
    while (done == 0 && MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && clock_us() < end_us)
        continue;
}

static void give_up_queue(struct mpi_queue *queue, bool cancels, int64_t end_us)
{
    for (int i = 0; i < queue->count; i++)
        give_up_request(&queue->requests[(queue->first + i) % DEPTH], cancels, end_us);
    queue->count = 0;
}

static void give_up(struct mpi_team *self)
{
    int64_t end_us = clock_us() + GIVE_UP_US;
    for (int kind = 0; kind < CHAIN_KINDS; kind++)
        give_up_queue(&self->in[kind], true, end_us);
    for (int lane = 0; lane < PAIRWISE_LANES; lane++)
        give_up_request(&self->requests[PAIRWISE_RECEIVE][lane], true, end_us);
    for (int kind = 0; kind < CHAIN_KINDS; kind++)
        give_up_queue(&self->out[kind], false, end_us);
    for (int lane = 0; lane < PAIRWISE_LANES; lane++)
        give_up_request(&self->requests[PAIRWISE_SEND][lane], false, end_us);
}

/* Messages of a batch that was given up would be mistaken for those of the next one, so the backend is broken
 * after that. */
static void mpi_remove_team(void *state, void *team)
{
    struct mpi *mpi = state;
    struct mpi_team *self = team;
    if (is_running(self)) {
        mpi->broken = true;
        if (!is_finalized())
            give_up(self);
    }
    chain_fini(&self->chain);
    free(self);
}

/* The descriptors in a forked child belong to MPI. */
static void mpi_after_fork(void *state)
{
    (void)state;
}

static void mpi_close(void *state)
{
    struct mpi *mpi = state;
    if (mpi->broken)
        process.broken = true;
    else if (!is_finalized())
        MPI_Comm_free(&mpi->comm);
    free(mpi);
}

extern const struct backend_ops backend_mpi_module __attribute__((visibility("default")));

const struct backend_ops backend_mpi_module = {
    .id = BACKEND_MPI,
    .available = mpi_available,
    .open = mpi_open,
    .opens_early = false,
    .polled = true,
    .spans_from = 1,
    .supports = mpi_supports,
    .takes_gpu = mpi_takes_gpu,
    .add_team = mpi_add_team,
    .remove_team = mpi_remove_team,
    .start = mpi_start,
    .test = mpi_test,
    .waits_for = mpi_waits_for,
    .after_fork = mpi_after_fork,
    .close = mpi_close,
};
