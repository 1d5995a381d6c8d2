/* mpi.c: the module plane_mpi.so: chunks along the ring of ranks as messages of MPI.
 *
 * Threads. MPI is asked for MPI_THREAD_SERIALIZED: the holder of the baton is the only one of hvd's threads
 * that is in MPI. A program that calls MPI itself while hvd has work in flight must have asked for
 * MPI_THREAD_MULTIPLE. Waking. MPI has no descriptor that becomes readable when a message came, so while a
 * batch runs test is polled. Start and end. MPI_Init is called at the first batch where the program has not
 * done so. MPI cannot start twice in a process, so then MPI_Finalize is left to the process's exit. After
 * MPI_Finalize nothing of MPI is called any more. */
#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "plane/chain.h"

#define CHUNK_BYTES ((int64_t)256 * 1024)
#define WINDOW      4 /* messages of a kind on their way in each direction */
#define SLICE_US    100
#define GIVE_UP_US  1000000

/* Messages of one kind and direction, in order: the oldest is requests[first]. */
struct lane {
    MPI_Request requests[WINDOW];
    size_t lengths[WINDOW];
    int first, count;
};

struct mpi {
    MPI_Comm comm;
    int next, previous;
    struct chain chain;
    struct lane in[CHAIN_KINDS];
    struct lane out[CHAIN_KINDS];
    bool broken; /* MPI has reported an error, or a batch was given up */
};

/* MPI is one for the process, and so is the fact that it was hvd that started it. */
static struct {
    bool initialized_here;
    bool broken; /* a rank is lost or messages are left over: MPI_Finalize would wait for them */
} process;

/* ---- MPI itself ----------------------------------------------------------------------------- */

static int mpi_error(int rc, const char *what, struct hvd_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(rc, text, &length);
    return error_set(err, HVD_ERR_SYSTEM, "plane mpi: %s: %s", what, text);
}

static bool is_finalized(void)
{
    int flag = 0;
    MPI_Finalized(&flag);
    return flag != 0;
}

/* Run by exit before any library's destructor: those of MPI's own parts could come before ours. */
static void finalize_at_exit(void)
{
    if (process.initialized_here && !process.broken && !is_finalized())
        MPI_Finalize();
}

/* MPI_Init knows no deadline; it ends when all ranks came, or with the process. */
static int initialize(struct hvd_error *err)
{
    int flag = 0;
    int level = MPI_THREAD_SINGLE;
    if (is_finalized())
        return error_set(err, HVD_ERR_STATE,
                         "plane mpi: the program has called MPI_Finalize; leave mpi out of planes");
    MPI_Initialized(&flag);
    if (flag == 0) {
        int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (rc != MPI_SUCCESS)
            return mpi_error(rc, "MPI_Init_thread", err);
        process.initialized_here = true;
        atexit(finalize_at_exit);
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "plane mpi: MPI runs at thread level %d, MPI_THREAD_SERIALIZED (%d) is needed",
                         level, MPI_THREAD_SERIALIZED);
    return HVD_OK;
}

static int check_world(const struct hvd_job *job, struct hvd_error *err)
{
    int rank = -1;
    int size = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == job->rank && size == job->size)
        return HVD_OK;
    return error_set(err, HVD_ERR_UNSUPPORTED,
                     "plane mpi: this is rank %d of %d in MPI_COMM_WORLD, but rank %d of %d in the job; "
                     "leave mpi out of planes",
                     rank, size, job->rank, job->size);
}

/* A communicator of our own, so that no message of the program is ever taken for one of ours. */
static int duplicate_world(MPI_Comm *comm, int64_t deadline_us, struct hvd_error *err)
{
    int done = 0;
    MPI_Request request;
    int rc = MPI_Comm_idup(MPI_COMM_WORLD, comm, &request);
    while (rc == MPI_SUCCESS && done == 0 && clock_us() < deadline_us) {
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        sched_yield();
    }
    if (rc == MPI_SUCCESS && done != 0)
        rc = MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    if (rc != MPI_SUCCESS)
        return mpi_error(rc, "MPI_Comm_idup of MPI_COMM_WORLD", err);
    if (done == 0)
        return error_set(err, HVD_ERR_TIMEOUT, "plane mpi: not all ranks came to MPI_Comm_idup in time");
    return HVD_OK;
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* MPI keeps messages of one sender, tag and communicator in order, so the kind as tag is all they need to
 * say. */
static int post_receive(struct mpi *mpi, enum chain_kind kind)
{
    struct lane *lane = &mpi->in[kind];
    struct chain_piece piece;
    void *bytes = chain_receive(&mpi->chain, kind, &piece);
    int slot = (lane->first + lane->count++) % WINDOW;
    lane->lengths[slot] = piece.length;
    return MPI_Irecv(bytes, (int)piece.length, MPI_BYTE, mpi->previous, (int)kind, mpi->comm,
                     &lane->requests[slot]);
}

static int post_send(struct mpi *mpi, enum chain_kind kind)
{
    struct lane *lane = &mpi->out[kind];
    struct chain_piece piece;
    const void *bytes = chain_send(&mpi->chain, kind, &piece);
    int slot = (lane->first + lane->count++) % WINDOW;
    return MPI_Isend(bytes, (int)piece.length, MPI_BYTE, mpi->next, (int)kind, mpi->comm,
                     &lane->requests[slot]);
}

static int post_all(struct mpi *mpi, enum chain_kind kind, bool *movedp)
{
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && mpi->in[kind].count < WINDOW && chain_can_receive(&mpi->chain, kind)) {
        rc = post_receive(mpi, kind);
        *movedp = true;
    }
    while (rc == MPI_SUCCESS && mpi->out[kind].count < WINDOW && chain_can_send(&mpi->chain, kind)) {
        rc = post_send(mpi, kind);
        *movedp = true;
    }
    return rc;
}

/* Is the oldest message of [lane] through? */
static int test_oldest(struct lane *lane, int *donep, MPI_Status *status)
{
    *donep = 0;
    if (lane->count == 0)
        return MPI_SUCCESS;
    int rc = MPI_Test(&lane->requests[lane->first], donep, status);
    if (rc == MPI_SUCCESS && *donep != 0) {
        lane->first = (lane->first + 1) % WINDOW;
        lane->count--;
    }
    return rc;
}

static int finish_oldest(struct mpi *mpi, enum chain_kind kind, bool *movedp)
{
    int done = 0;
    int length = 0;
    MPI_Status status;
    int rc = test_oldest(&mpi->out[kind], &done, MPI_STATUS_IGNORE);
    if (done != 0) {
        chain_sent(&mpi->chain, kind);
        *movedp = true;
    }
    size_t expected = mpi->in[kind].lengths[mpi->in[kind].first];
    if (rc == MPI_SUCCESS)
        rc = test_oldest(&mpi->in[kind], &done, &status);
    if (rc != MPI_SUCCESS || done == 0)
        return rc;
    MPI_Get_count(&status, MPI_BYTE, &length);
    if ((size_t)length != expected)
        return MPI_ERR_TRUNCATE;
    chain_received(&mpi->chain, kind);
    *movedp = true;
    return MPI_SUCCESS;
}

static int progress(struct mpi *mpi, bool *movedp)
{
    int rc = MPI_SUCCESS;
    *movedp = false;
    for (int kind = CHAIN_KINDS - 1; rc == MPI_SUCCESS && kind >= 0; kind--) {
        rc = post_all(mpi, (enum chain_kind)kind, movedp);
        if (rc == MPI_SUCCESS)
            rc = finish_oldest(mpi, (enum chain_kind)kind, movedp);
    }
    return rc;
}

/* ---- The plane ------------------------------------------------------------------------------ */

/* The stub in libhvd answers this before the module is loaded. */
static bool mpi_available(const struct plane_env *env, const char **whyp)
{
    (void)env;
    *whyp = NULL;
    return true;
}

static int mpi_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    int status;
    struct mpi *mpi = calloc(1, sizeof(*mpi));
    if (mpi == NULL)
        return error_set_errno(err, "plane mpi: no memory for %zu bytes", sizeof(*mpi));
    status = initialize(err);
    if (status < 0)
        goto fail;
    status = check_world(env->job, err);
    if (status < 0)
        goto fail;
    status = chain_init(&mpi->chain, env->job->rank, env->job->size, CHUNK_BYTES, WINDOW, err);
    if (status < 0)
        goto fail;
    status = duplicate_world(&mpi->comm, deadline_us, err);
    if (status < 0) {
        process.broken = true;
        goto fail;
    }
    mpi->next = (env->job->rank + 1) % env->job->size;
    mpi->previous = (env->job->rank + env->job->size - 1) % env->job->size;
    *statep = mpi;
    return HVD_OK;
fail:
    chain_fini(&mpi->chain);
    free(mpi);
    return status;
}

static int mpi_start(void *state, const struct plane_batch *batch, struct hvd_error *err)
{
    struct mpi *mpi = state;
    if (is_finalized())
        return error_set(err, HVD_ERR_STATE,
                         "plane mpi: the program has called MPI_Finalize; call hvd_shutdown before that");
    if (mpi->broken)
        return error_set(err, HVD_ERR_SYSTEM, "plane mpi: MPI has failed in an earlier batch");
    chain_start(&mpi->chain, batch);
    return HVD_OK;
}

/* Which rank is gone MPI does not say: control tells. */
static int mpi_test(void *state, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp;
    struct mpi *mpi = state;
    int64_t end_us = clock_us() + SLICE_US;
    bool moved = true;
    *movedp = false;
    if (is_finalized())
        return error_set(err, HVD_ERR_STATE, "plane mpi: the program called MPI_Finalize in batch %" PRIu64,
                         mpi->chain.batch.sequence);
    while (chain_sends_left(&mpi->chain) || chain_receives_left(&mpi->chain)) {
        if (!moved || clock_us() >= end_us)
            return HVD_IN_PROGRESS;
        int rc = progress(mpi, &moved);
        if (rc != MPI_SUCCESS) {
            mpi->broken = true;
            return mpi_error(rc, "a message of the ring", err);
        }
        *movedp = *movedp || moved;
    }
    return HVD_OK;
}

/* The descriptors in a forked child are MPI's own affair. */
static void mpi_after_fork(void *state)
{
    (void)state;
}

/* Get messages back from MPI, so that it does not touch their memory any more: receives that have no message
 * yet are cancelled, and the others end soon where their sender lives. What is left is of a rank that is gone
 * and moves no more. */
static void give_up(struct lane *lane, bool cancels, int64_t end_us)
{
    for (int i = 0; cancels && i < lane->count; i++)
        MPI_Cancel(&lane->requests[(lane->first + i) % WINDOW]);
    while (lane->count > 0 && clock_us() < end_us) {
        int done = 0;
        if (test_oldest(lane, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
    }
}

static void mpi_close(void *state)
{
    struct mpi *mpi = state;
    if (mpi == NULL)
        return;
    bool running = chain_sends_left(&mpi->chain) || chain_receives_left(&mpi->chain);
    bool finalized = is_finalized();
    if (running || mpi->broken)
        process.broken = true;
    if (running && !finalized) {
        int64_t end_us = clock_us() + GIVE_UP_US;
        for (int kind = 0; kind < CHAIN_KINDS; kind++)
            give_up(&mpi->in[kind], true, end_us);
        for (int kind = 0; kind < CHAIN_KINDS; kind++)
            give_up(&mpi->out[kind], false, end_us);
    } else if (!finalized) {
        MPI_Comm_free(&mpi->comm);
    }
    chain_fini(&mpi->chain);
    free(mpi);
}

extern const struct plane_ops plane_mpi_module __attribute__((visibility("default")));

const struct plane_ops plane_mpi_module = {
    .id = PLANE_MPI,
    .available = mpi_available,
    .open = mpi_open,
    .opens_early = false,
    .polled = true,
    .can = chain_can,
    .start = mpi_start,
    .test = mpi_test,
    .after_fork = mpi_after_fork,
    .close = mpi_close,
};
