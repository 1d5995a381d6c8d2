/* sub_job.c: a part of the launcher's job that is a job of its own. */
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
    bool fence_failed; /* then the others fail too, and there is nobody to keep step with */
};

static int sub_job_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    struct sub_job *part = state;
    return part->launcher.ops->put(part->launcher.state, key, bytes, length, err);
}

static int sub_job_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    struct sub_job *part = state;
    if (part->fences_left == 0)
        return error_set(err, HVD_ERR_STATE,
                         "a part of the launcher's job fences more often than the others");
    part->fences_left--;
    int rc = part->launcher.ops->fence(part->launcher.state, deadline_us, err);
    part->fence_failed = rc != HVD_OK;
    return rc;
}

static int sub_job_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                       struct hvd_error *err)
{
    struct sub_job *part = state;
    if (rank < 0 || rank >= part->size)
        return error_set(err, HVD_ERR_INVALID, "there is no rank %d in a part of %d ranks", rank, part->size);
    return part->launcher.ops->get(part->launcher.state, part->launcher_ranks[rank], key, deadline_us, blob,
                                   err);
}

static void sub_job_close(void *state)
{
    struct sub_job *part = state;
    wireup_close(&part->launcher);
    free(part->launcher_ranks);
    free(part);
}

/* Opened by sub_job_open, which has what this one would have to find out. */
static const struct wireup_ops sub_job_ops = {
    .name = "part", .put = sub_job_put, .fence = sub_job_fence, .get = sub_job_get, .close = sub_job_close};

/* Where this process is in the list. */
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
    struct sub_job *part = calloc(1, sizeof(*part));
    if (part == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "hvd_init_with: no memory for the part");
    *part = (struct sub_job){.launcher = *wireup, .fences_left = fence_count};
    wireup->ops = &sub_job_ops;
    wireup->state = part;
    wireup->module = NULL;
    int rc = find_own_rank(list, job, &own_rank, err);
    if (rc != HVD_OK)
        return rc; /* cppcheck-suppress memleak ; the part is the wire-up's */
    part->launcher_ranks = copy_list(list);
    int *callers = copy_list(list);
    if (part->launcher_ranks == NULL || callers == NULL) {
        free(callers);
        return error_set(err, HVD_ERR_NO_MEMORY, "hvd_init_with: no memory for a list of %d ranks",
                         list->count);
    }
    part->size = list->count;
    job->rank = own_rank;
    job->launcher_size = job->size;
    job->launcher_ranks = callers;
    job->size = list->count;
    job->local_rank = job->local_size = -1; /* the launcher counts others too; control finds out by itself */
    *launcher_ranksp = callers;
    return HVD_OK;
}

int sub_job_fence_remaining(struct wireup *wireup, int64_t deadline_us, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (wireup->ops != &sub_job_ops)
        return HVD_OK;
    struct sub_job *part = wireup->state;
    while (rc == HVD_OK && part->fences_left > 0 && !part->fence_failed)
        rc = sub_job_fence(part, deadline_us, err);
    return rc;
}
