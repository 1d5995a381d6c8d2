/* mpi_opening.c: starts MPI, unless the program has, and makes hvd's communicator, in a thread of their own.
 */
#include "backend/mpi/mpi_opening.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stack.h"

/* MPI exists once in a process, and may have been started by hvd. */
static struct {
    struct mpi_opening *opening; /* NULL: there is none, or it was left */
    bool initialized_here;
    bool broken; /* a rank is lost or messages are left over, for which MPI_Finalize would wait */
    bool left;   /* an opening was given up, and may still be inside MPI */
} process;

#define USERS 2 /* mpi and hier-mpi */

/* What the thread works on. */
struct mpi_opening {
    struct hvd_job job;
    int *launcher_ranks; /* the job's list, or NULL */
    int64_t deadline_us;
    pthread_t thread;
    int began, users;      /* of both backends: that have begun, and that are not done */
    MPI_Comm comms[USERS]; /* all are made at once: later the driver uses MPI */
    struct hvd_error why;
    _Atomic int status; /* HVD_IN_PROGRESS until the thread is done with all of this */
};

/* ---- MPI itself ----------------------------------------------------------------------------- */

int mpi_error(int rc, const char *what, struct hvd_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(rc, text, &length);
    return error_set(err, HVD_ERR_SYSTEM, "backend mpi: %s: %s", what, text);
}

bool mpi_is_finalized(void)
{
    int flag = 0;
    MPI_Finalized(&flag);
    return flag != 0;
}

/* atexit handlers run before the destructors of libraries, of which those of MPI's own parts could come
 * before ours. */
static void finalize_at_exit(void)
{
    if (process.initialized_here && !process.broken && !mpi_is_finalized())
        MPI_Finalize();
}

static int initialize(struct hvd_error *err)
{
    int flag = 0;
    int level = MPI_THREAD_SINGLE;
    if (mpi_is_finalized())
        return error_set(err, HVD_ERR_STATE,
                         "backend mpi: the program has called MPI_Finalize; leave mpi out of backends");
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

/* Not MPI_Comm_idup: in Open MPI 4.1.4 the second one does not end where ranks are on several nodes. */
static int duplicate_world(MPI_Comm *comm, struct hvd_error *err)
{
    int rc = MPI_Comm_dup(MPI_COMM_WORLD, comm);
    return rc == MPI_SUCCESS ? HVD_OK : mpi_error(rc, "MPI_Comm_dup of MPI_COMM_WORLD", err);
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
static int make_comm(const struct hvd_job *job, MPI_Comm *comm, struct hvd_error *err)
{
    int rc = job->launcher_ranks == NULL ? duplicate_world(comm, err) : make_sub_job_comm(job, comm, err);
    if (rc != HVD_OK)
        return rc;
    rc = MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return rc == MPI_SUCCESS ? HVD_OK : mpi_error(rc, "MPI_Comm_set_errhandler", err);
}

/* ---- The thread ----------------------------------------------------------------------------- */

static int open_mpi(struct mpi_opening *opening)
{
    int rc = initialize(&opening->why);
    if (rc == HVD_OK)
        rc = check_world(&opening->job, &opening->why);
    if (rc != HVD_OK)
        return rc;
    for (int user = 0; rc == HVD_OK && user < USERS; user++)
        rc = make_comm(&opening->job, &opening->comms[user], &opening->why);
    if (rc != HVD_OK)
        process.broken = true;
    return rc;
}

static void *run(void *arg)
{
    struct mpi_opening *opening = arg;
    atomic_store(&opening->status, open_mpi(opening));
    return NULL;
}

/* Signals of the program are for its own threads, and the threads that MPI starts inherit this one's mask. */
static int start_thread(struct mpi_opening *opening)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = stack_create_thread(&opening->thread, run, opening);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void opening_free(struct mpi_opening *opening)
{
    free(opening->launcher_ranks);
    free(opening);
}

static int opening_create(const struct hvd_job *job, int64_t deadline_us, struct hvd_error *err)
{
    if (process.left)
        return error_set(err, HVD_ERR_STATE,
                         "backend mpi: an earlier job of this process was given up while MPI started; leave "
                         "mpi out of backends");
    struct mpi_opening *opening = calloc(1, sizeof(*opening));
    bool lists = job->launcher_ranks != NULL;
    size_t list_bytes = (size_t)job->size * sizeof(int);
    if (opening != NULL && lists)
        opening->launcher_ranks = malloc(list_bytes);
    if (opening == NULL || (lists && opening->launcher_ranks == NULL)) {
        free(opening);
        return error_set(err, HVD_ERR_NO_MEMORY, "backend mpi: no memory to start MPI");
    }
    if (lists)
        memcpy(opening->launcher_ranks, job->launcher_ranks, list_bytes);
    opening->job = *job;
    opening->job.launcher_ranks = opening->launcher_ranks;
    opening->deadline_us = deadline_us;
    atomic_init(&opening->status, HVD_IN_PROGRESS);
    int error = start_thread(opening);
    if (error != 0) {
        opening_free(opening);
        return error_set(err, HVD_ERR_SYSTEM, "backend mpi: no thread to start MPI in: %s", strerror(error));
    }
    process.opening = opening;
    return HVD_OK;
}

int mpi_opening_begin(struct mpi_opening **openingp, int *userp, const struct hvd_job *job,
                      int64_t deadline_us, struct hvd_error *err)
{
    if (process.opening == NULL) {
        int rc = opening_create(job, deadline_us, err);
        if (rc != HVD_OK)
            return rc;
    }
    if (process.opening->began == USERS)
        return error_set(err, HVD_ERR_STATE, "backend mpi: more than %d backends use MPI", USERS);
    *openingp = process.opening;
    *userp = process.opening->began++;
    process.opening->users++;
    return HVD_OK;
}

int mpi_opening_test(const struct mpi_opening *opening, int user, MPI_Comm *comm, struct hvd_error *err)
{
    int status = atomic_load(&opening->status);
    if (status == HVD_OK)
        *comm = opening->comms[user];
    else if (status != HVD_IN_PROGRESS)
        error_set(err, status, "%s", opening->why.text);
    else if (clock_us() >= opening->deadline_us)
        return error_set(err, HVD_ERR_TIMEOUT,
                         "backend mpi: not all ranks came to MPI_Init and MPI_Comm_dup in time; "
                         "--hvd-start-timeout gives them longer");
    return status;
}

void mpi_opening_end(struct mpi_opening *opening)
{
    if (--opening->users > 0)
        return;
    process.opening = NULL;
    int status = atomic_load(&opening->status);
    if (status == HVD_IN_PROGRESS) {
        process.broken = process.left = true;
        pthread_detach(opening->thread);
        return;
    }
    pthread_join(opening->thread, NULL);
    for (int user = 0; user < USERS && status == HVD_OK && !process.broken && !mpi_is_finalized(); user++)
        MPI_Comm_free(&opening->comms[user]);
    opening_free(opening);
}

void mpi_process_break(void)
{
    process.broken = true;
}
