/* hvd_mpi.h: jobs and process sets from MPI communicators.
 *
 * For programs that are linked with MPI. libhvd itself is not linked with MPI, so every function here is
 * inline. The program initialises MPI before it calls them. One launcher must have started the program for
 * both MPI and hvd, so that a process has the same rank in MPI_COMM_WORLD and for the launcher. Errors are as
 * in hvd.h: hvd_error_text() returns the sentence. */
#ifndef HVD_MPI_H
#define HVD_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* hvd_init for a job that consists of the ranks of [comm], in its order. All processes of MPI_COMM_WORLD must
 * call it, each with a communicator that contains it. A process that takes part in no job passes
 * MPI_COMM_SELF. */
static inline enum hvd_status hvd_init_comm(MPI_Comm comm);

/* hvd_init_comm for comms[0]. comms[1] to comms[count - 1] become process sets. On different ranks comms[i]
 * may be different communicators, as MPI_Comm_split returns them, or MPI_COMM_NULL: each communicator becomes
 * a set. The sets are numbered in the order of the arguments, and for one argument in the order of their
 * first members' ranks. Equal sets become one. Every communicator must be a part of comms[0], otherwise all
 * ranks of comms[0] get HVD_ERR_INVALID. Collective over comms[0]. */
static inline enum hvd_status hvd_init_comms(const MPI_Comm *comms, int count);

/* Set *setp to the process set that has exactly the ranks of [comm]. HVD_ERR_SET, and *setp is unchanged, if
 * there is none. May be called from any thread that may call MPI. Local: it waits for no other rank. */
static inline enum hvd_status hvd_set_of_comm(MPI_Comm comm, hvd_set *setp);

/* ---- Internal: programs must not call anything below -------------------------------------------- */

/* The ranks of a communicator, numbered as in another one; MPI_UNDEFINED for those that are not in it.
 * [ranks] is malloc'ed. */
struct hvd_mpi_list {
    int *ranks;
    int count;
};

struct hvd_mpi_sets {
    struct hvd_ranks *lists;
    int count;
};

static inline enum hvd_status hvd_mpi_no_memory(const char *what)
{
    char text[128];
    snprintf(text, sizeof(text), "%s: no memory for lists of ranks", what);
    return hvd_error_set(HVD_ERR_NO_MEMORY, text);
}

static inline enum hvd_status hvd_mpi_result(int rc, const char *what, const char *call)
{
    char text[128 + MPI_MAX_ERROR_STRING], why[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (rc == MPI_SUCCESS)
        return HVD_OK;
    MPI_Error_string(rc, why, &length);
    snprintf(text, sizeof(text), "%s: %s: %s", what, call, why);
    return hvd_error_set(HVD_ERR_SYSTEM, text);
}

static inline enum hvd_status hvd_mpi_ready(const char *what)
{
    char text[128];
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (begun && !ended)
        return HVD_OK;
    snprintf(text, sizeof(text), "%s: MPI %s", what,
             ended ? "was finalised; call it before MPI_Finalize"
                   : "is not initialised; call MPI_Init_thread first");
    return hvd_error_set(HVD_ERR_STATE, text);
}

/* The ranks of [comm], numbered as in [frame]. An empty list for MPI_COMM_NULL. */
static inline enum hvd_status hvd_mpi_translate(MPI_Comm comm, MPI_Comm frame, const char *what,
                                                struct hvd_mpi_list *list)
{
    MPI_Group from = MPI_GROUP_NULL, to = MPI_GROUP_NULL;
    int *own = NULL;
    list->ranks = NULL;
    list->count = 0;
    if (comm == MPI_COMM_NULL)
        return HVD_OK;
    int rc = MPI_Comm_group(comm, &from);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_group(frame, &to);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_size(from, &list->count);
    enum hvd_status status = hvd_mpi_result(rc, what, "MPI_Comm_group");
    if (status == HVD_OK) {
        own = (int *)malloc((size_t)list->count * sizeof(int) + 1);
        list->ranks = (int *)malloc((size_t)list->count * sizeof(int) + 1);
        if (own == NULL || list->ranks == NULL)
            status = hvd_mpi_no_memory(what);
    }
    if (status == HVD_OK) {
        for (int i = 0; i < list->count; i++)
            own[i] = i;
        rc = MPI_Group_translate_ranks(from, list->count, own, to, list->ranks);
        status = hvd_mpi_result(rc, what, "MPI_Group_translate_ranks");
    }
    free(own);
    if (from != MPI_GROUP_NULL)
        MPI_Group_free(&from);
    if (to != MPI_GROUP_NULL)
        MPI_Group_free(&to);
    if (status != HVD_OK) {
        free(list->ranks);
        list->ranks = NULL;
    }
    return status;
}

static inline int hvd_mpi_is_inside(const struct hvd_mpi_list *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->ranks[i] == MPI_UNDEFINED)
            return 0;
    return 1;
}

static inline int hvd_mpi_compare(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;
    return (left > right) - (left < right);
}

static inline void hvd_mpi_sort(int *ranks, int count)
{
    qsort(ranks, (size_t)count, sizeof(int), hvd_mpi_compare);
}

/* hvd_init_with for the ranks of [comm]. */
static inline enum hvd_status hvd_mpi_start(MPI_Comm comm, const struct hvd_mpi_sets *sets, const char *what)
{
    struct hvd_mpi_list job;
    struct hvd_start start;
    char text[256];
    int rank = -1;
    enum hvd_status status = hvd_mpi_translate(comm, MPI_COMM_WORLD, what, &job);
    if (status != HVD_OK)
        return status;
    MPI_Comm_rank(comm, &rank);
    memset(&start, 0, sizeof(start));
    start.job.ranks = job.ranks;
    start.job.count = job.count;
    start.sets = sets->lists;
    start.set_count = sets->count;
    if (hvd_mpi_is_inside(&job))
        status = hvd_init_with(&start);
    else {
        snprintf(text, sizeof(text), "%s: the communicator has ranks that are not in MPI_COMM_WORLD", what);
        status = hvd_error_set(HVD_ERR_INVALID, text);
    }
    free(job.ranks);
    if (status == HVD_OK && hvd_rank() != rank) {
        snprintf(text, sizeof(text),
                 "%s: MPI counts this process as rank %d of the communicator, the launcher as %d; start the "
                 "program with one launcher for both",
                 what, rank, hvd_rank());
        hvd_shutdown();
        status = hvd_error_set(HVD_ERR_MISMATCH, text);
    }
    return status;
}

static inline enum hvd_status hvd_mpi_check_comm(MPI_Comm comm, const char *what)
{
    char text[192];
    enum hvd_status status = hvd_mpi_ready(what);
    if (status != HVD_OK || comm != MPI_COMM_NULL)
        return status;
    snprintf(text, sizeof(text),
             "%s: the job's communicator is MPI_COMM_NULL; a process that has no part gives MPI_COMM_SELF",
             what);
    return hvd_error_set(HVD_ERR_INVALID, text);
}

static inline enum hvd_status hvd_init_comm(MPI_Comm comm)
{
    struct hvd_mpi_sets none = {NULL, 0};
    enum hvd_status status = hvd_mpi_check_comm(comm, "hvd_init_comm");
    return status == HVD_OK ? hvd_mpi_start(comm, &none, "hvd_init_comm") : status;
}

/* Add a copy of the set [ranks], which are ascending, unless [sets] has it already or it is the whole job. */
static inline enum hvd_status hvd_mpi_keep(struct hvd_mpi_sets *sets, const int *ranks, int count,
                                           int job_size)
{
    size_t bytes = (size_t)count * sizeof(int);
    if (count == 0 || count == job_size)
        return HVD_OK;
    for (int i = 0; i < sets->count; i++)
        if (sets->lists[i].count == count && memcmp(sets->lists[i].ranks, ranks, bytes) == 0)
            return HVD_OK;
    size_t list_bytes = ((size_t)sets->count + 1) * sizeof(*sets->lists);
    struct hvd_ranks *lists = (struct hvd_ranks *)realloc(sets->lists, list_bytes);
    if (lists == NULL)
        return hvd_mpi_no_memory("hvd_init_comms");
    sets->lists = lists;
    int *copy = (int *)malloc(bytes);
    if (copy == NULL)
        return hvd_mpi_no_memory("hvd_init_comms");
    memcpy(copy, ranks, bytes);
    lists[sets->count].ranks = copy;
    lists[sets->count].count = count;
    sets->count++;
    return HVD_OK;
}

/* Gather the lists of all ranks of [job], and add those that differ to [sets]. [mine] is the communicator's
 * list on its first rank and empty on its other ranks, so that each communicator is sent once. [counts] has
 * room for two numbers per rank of the job. */
static inline enum hvd_status hvd_mpi_gather(MPI_Comm job, const struct hvd_mpi_list *mine, int *counts,
                                             struct hvd_mpi_sets *sets)
{
    int size = 0, total = 0;
    MPI_Comm_size(job, &size);
    int *places = counts + size;
    int rc = MPI_Allgather(&mine->count, 1, MPI_INT, counts, 1, MPI_INT, job);
    enum hvd_status status = hvd_mpi_result(rc, "hvd_init_comms", "MPI_Allgather");
    if (status != HVD_OK)
        return status;
    for (int i = 0; i < size; i++) {
        places[i] = total;
        total += counts[i];
    }
    int *all = (int *)malloc((size_t)total * sizeof(int) + 1);
    if (all == NULL)
        return hvd_mpi_no_memory("hvd_init_comms");
    rc = MPI_Allgatherv(mine->ranks, mine->count, MPI_INT, all, counts, places, MPI_INT, job);
    status = hvd_mpi_result(rc, "hvd_init_comms", "MPI_Allgatherv");
    for (int i = 0; status == HVD_OK && i < size; i++)
        status = hvd_mpi_keep(sets, all + places[i], counts[i], size);
    free(all);
    return status;
}

/* Check on all ranks that their arguments fit together, before any rank gathers lists. [mine]: the ranks of
 * each communicator, numbered as in comms[0]. */
static inline enum hvd_status hvd_mpi_agree(const MPI_Comm *comms, int count, const struct hvd_mpi_list *mine)
{
    char text[192];
    int own[3] = {count, -count, -INT_MAX}, most[3] = {0, 0, 0};
    for (int i = count - 1; i > 0; i--)
        if (!hvd_mpi_is_inside(&mine[i]))
            own[2] = -i;
    int rc = MPI_Allreduce(own, most, 3, MPI_INT, MPI_MAX, comms[0]);
    enum hvd_status status = hvd_mpi_result(rc, "hvd_init_comms", "MPI_Allreduce");
    if (status != HVD_OK)
        return status;
    if (most[0] != -most[1]) {
        snprintf(text, sizeof(text),
                 "hvd_init_comms: this rank gives %d communicators, others give %d to %d; give all ranks the "
                 "same number",
                 count, -most[1], most[0]);
        return hvd_error_set(HVD_ERR_MISMATCH, text);
    }
    if (most[2] == -INT_MAX)
        return HVD_OK;
    snprintf(
        text, sizeof(text),
        "hvd_init_comms: comms[%d] has ranks that are not in comms[0]; a process set is a part of the job",
        -most[2]);
    return hvd_error_set(HVD_ERR_INVALID, text);
}

static inline enum hvd_status hvd_mpi_collect(const MPI_Comm *comms, int count, struct hvd_mpi_list *mine,
                                              struct hvd_mpi_sets *sets)
{
    int size = 0;
    enum hvd_status status = HVD_OK;
    for (int i = 1; status == HVD_OK && i < count; i++)
        status = hvd_mpi_translate(comms[i], comms[0], "hvd_init_comms", &mine[i]);
    if (status == HVD_OK)
        status = hvd_mpi_agree(comms, count, mine);
    if (status != HVD_OK)
        return status;
    MPI_Comm_size(comms[0], &size);
    int *counts = (int *)malloc(2 * (size_t)size * sizeof(int));
    if (counts == NULL)
        return hvd_mpi_no_memory("hvd_init_comms");
    for (int i = 1; status == HVD_OK && i < count; i++) {
        int rank = 0;
        if (comms[i] != MPI_COMM_NULL)
            MPI_Comm_rank(comms[i], &rank);
        if (rank != 0)
            mine[i].count = 0;
        hvd_mpi_sort(mine[i].ranks, mine[i].count);
        status = hvd_mpi_gather(comms[0], &mine[i], counts, sets);
    }
    free(counts);
    return status;
}

static inline enum hvd_status hvd_init_comms(const MPI_Comm *comms, int count)
{
    struct hvd_mpi_sets sets = {NULL, 0};
    if (comms == NULL || count < 1)
        return hvd_error_set(HVD_ERR_INVALID,
                             "hvd_init_comms: no communicator is given; comms[0] is the job");
    enum hvd_status status = hvd_mpi_check_comm(comms[0], "hvd_init_comms");
    if (status != HVD_OK)
        return status;
    struct hvd_mpi_list *mine = (struct hvd_mpi_list *)calloc((size_t)count, sizeof(*mine));
    status = mine == NULL ? hvd_mpi_no_memory("hvd_init_comms") : hvd_mpi_collect(comms, count, mine, &sets);
    for (int i = 1; mine != NULL && i < count; i++)
        free(mine[i].ranks);
    free(mine);
    if (status == HVD_OK)
        status = hvd_mpi_start(comms[0], &sets, "hvd_init_comms");
    for (int i = 0; i < sets.count; i++)
        free((void *)sets.lists[i].ranks);
    free(sets.lists);
    return status;
}

/* Translate ranks of MPI_COMM_WORLD into ranks of the job, -1 for those that are not in it, and sort them.
 * [job]: the launcher's rank of each rank of the job. */
static inline void hvd_mpi_to_job(struct hvd_mpi_list *list, const int *job, int size)
{
    for (int i = 0; i < list->count; i++) {
        int at = 0;
        while (at < size && job[at] != list->ranks[i])
            at++;
        list->ranks[i] = at < size ? at : -1;
    }
    hvd_mpi_sort(list->ranks, list->count);
}

/* The set that has exactly these ranks, or -1. [members] has room for as many ranks as [list] has. */
static inline hvd_set hvd_mpi_find(const struct hvd_mpi_list *list, int *members, hvd_set *sets,
                                   int set_count)
{
    for (int i = 0; i < set_count; i++) {
        int count = hvd_set_ranks(sets[i], members, list->count);
        if (count == list->count && memcmp(members, list->ranks, (size_t)count * sizeof(int)) == 0)
            return sets[i];
    }
    return -1;
}

static inline enum hvd_status hvd_set_of_comm(MPI_Comm comm, hvd_set *setp)
{
    struct hvd_mpi_list list;
    int size = hvd_size(), set_count = hvd_set_list(NULL, 0);
    hvd_set found = -1;
    enum hvd_status status = hvd_mpi_ready("hvd_set_of_comm");
    if (status != HVD_OK)
        return status;
    if (size < 0)
        return hvd_error_set(HVD_ERR_STATE,
                             "hvd_set_of_comm: hvd is not initialised; call hvd_init_comms first");
    status = hvd_mpi_translate(comm, MPI_COMM_WORLD, "hvd_set_of_comm", &list);
    if (status != HVD_OK)
        return status;
    int *job = (int *)malloc(((size_t)size + (size_t)list.count) * sizeof(int));
    hvd_set *sets = (hvd_set *)malloc((size_t)set_count * sizeof(*sets));
    if (job == NULL || sets == NULL) {
        status = hvd_mpi_no_memory("hvd_set_of_comm");
    } else {
        hvd_launcher_ranks(job, size);
        hvd_mpi_to_job(&list, job, size);
        hvd_set_list(sets, set_count);
        found = hvd_mpi_find(&list, job + size, sets, set_count);
    }
    if (found >= 0)
        *setp = found;
    else if (status == HVD_OK)
        status = hvd_error_set(HVD_ERR_SET, "hvd_set_of_comm: no process set has exactly the ranks of this "
                                            "communicator; hvd_set_add makes one");
    free(sets);
    free(job);
    free(list.ranks);
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
