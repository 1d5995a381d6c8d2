/* sub_job.c: the wire-up of a sub-job, by way of the wire-up of the launcher's job. */
#include "bootstrap/sub_job.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_list.h"

struct sub_job {
    struct wireup launcher; /* of the launcher's job; owned */
    int *launcher_ranks;    /* [size] */
    int size;
    int fences_left;
    bool fence_failed; /* a fence fails on all ranks: the remaining ones are not done */
};

static int sub_job_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    struct sub_job *sub_job = state;
    return sub_job->launcher.ops->put(sub_job->launcher.state, key, bytes, length, err);
}

static int sub_job_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    struct sub_job *sub_job = state;
    if (sub_job->fences_left == 0)
        return error_set(err, HVD_ERR_STATE,
                         "this sub-job fences more often than the other sub-jobs of the launcher's job");
    sub_job->fences_left--;
    int rc = sub_job->launcher.ops->fence(sub_job->launcher.state, deadline_us, err);
    sub_job->fence_failed = rc != HVD_OK;
    return rc;
}

static int sub_job_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                       struct hvd_error *err)
{
    struct sub_job *sub_job = state;
    if (rank < 0 || rank >= sub_job->size)
        return error_set(err, HVD_ERR_INVALID, "there is no rank %d in a sub-job of %d ranks", rank,
                         sub_job->size);
    return sub_job->launcher.ops->get(sub_job->launcher.state, sub_job->launcher_ranks[rank], key,
                                      deadline_us, blob, err);
}

/* The launcher's local peers that are in the sub-job, by their numbers there. */
static int sub_job_local_peers(void *state, int **ranksp, int *countp, struct hvd_error *err)
{
    const struct sub_job *sub_job = state;
    const struct wireup_ops *ops = sub_job->launcher.ops;
    int *launcher_peers = NULL, launcher_count = 0, count = 0;
    *ranksp = NULL;
    *countp = 0;
    int rc = ops->local_peers == NULL
                 ? HVD_OK
                 : ops->local_peers(sub_job->launcher.state, &launcher_peers, &launcher_count, err);
    if (rc != HVD_OK || launcher_count == 0) {
        free(launcher_peers);
        return rc;
    }
    int *ranks = malloc((size_t)launcher_count * sizeof(*ranks));
    if (ranks == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", launcher_count);
    for (int rank = 0; rc == HVD_OK && rank < sub_job->size && count < launcher_count; rank++)
        if (rank_list_has(launcher_peers, launcher_count, sub_job->launcher_ranks[rank]))
            ranks[count++] = rank;
    free(launcher_peers);
    *ranksp = ranks;
    *countp = count;
    return rc;
}

static void sub_job_close(void *state)
{
    struct sub_job *sub_job = state;
    wireup_close(&sub_job->launcher);
    free(sub_job->launcher_ranks);
    free(sub_job);
}

/* There is no open: sub_job_open makes a sub-job's wire-up from one that is open. */
static const struct wireup_ops sub_job_ops = {.name = "sub-job",
                                              .put = sub_job_put,
                                              .fence = sub_job_fence,
                                              .get = sub_job_get,
                                              .local_peers = sub_job_local_peers,
                                              .close = sub_job_close};

/* The index of this process in the list. */
static int find_own_rank(const struct hvd_ranks *list, const struct hvd_job *job, int *rankp,
                         struct hvd_error *err)
{
    char text[RANK_LIST_TEXT_BYTES];
    int rc = rank_list_check(list, job->size, "hvd_init_with: job", err);
    for (int i = 0; rc == HVD_OK && i < list->count; i++) {
        if (list->ranks[i] == job->rank) {
            *rankp = i;
            return HVD_OK;
        }
    }
    if (rc != HVD_OK)
        return rc;
    return error_set(
        err, HVD_ERR_INVALID,
        "hvd_init_with: job has the ranks %s, but this process is rank %d of the launcher's %d; a "
        "process names a list that it is in",
        rank_list_text(list->ranks, list->count, text, sizeof(text)), job->rank, job->size);
}

static int *copy_list(const struct hvd_ranks *list)
{
    size_t bytes = (size_t)list->count * sizeof(int);
    int *copy = malloc(bytes);
    if (copy != NULL)
        memcpy(copy, list->ranks, bytes);
    return copy;
}

int sub_job_open(struct wireup *wireup, const struct hvd_ranks *list, int fence_count, struct hvd_job *job,
                 int **launcher_ranksp, struct hvd_error *err)
{
    int own_rank = 0;
    struct sub_job *sub_job = calloc(1, sizeof(*sub_job));
    if (sub_job == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "hvd_init_with: no memory for the sub-job");
    *sub_job = (struct sub_job){.launcher = *wireup, .fences_left = fence_count};
    wireup->ops = &sub_job_ops;
    wireup->state = sub_job;
    wireup->module = NULL;
    int rc = find_own_rank(list, job, &own_rank, err);
    if (rc != HVD_OK)
        return rc; /* cppcheck-suppress memleak ; the wire-up owns it */
    sub_job->launcher_ranks = copy_list(list);
    int *callers = copy_list(list);
    if (sub_job->launcher_ranks == NULL || callers == NULL) {
        free(callers);
        return error_set(err, HVD_ERR_NO_MEMORY, "hvd_init_with: no memory for a list of %d ranks",
                         list->count);
    }
    sub_job->size = list->count;
    job->rank = own_rank;
    job->launcher_size = job->size;
    job->launcher_ranks = callers;
    job->size = list->count;
    job->local_rank = job->local_size = -1; /* the launcher's counts include other sub-jobs */
    *launcher_ranksp = callers;
    return HVD_OK;
}

int sub_job_fence_remaining(struct wireup *wireup, int64_t deadline_us, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (wireup->ops != &sub_job_ops)
        return HVD_OK;
    struct sub_job *sub_job = wireup->state;
    while (rc == HVD_OK && sub_job->fences_left > 0 && !sub_job->fence_failed)
        rc = sub_job_fence(sub_job, deadline_us, err);
    return rc;
}
