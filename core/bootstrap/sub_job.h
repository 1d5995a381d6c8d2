/* sub_job.h: a sub-job, a job of some processes of the launcher's job: its wire-up, by way of the
 * launcher's. */
#ifndef BOOTSTRAP_SUB_JOB_H
#define BOOTSTRAP_SUB_JOB_H

#include "bootstrap/wireup.h"

/* Turn [wireup], with which the launcher's [job] was opened, into the wire-up of the sub-job [list]: the
 * processes of the launcher's job that are in it, by their ranks there. From then on ranks, those in [job]
 * included, are numbered in the order of the list. *launcher_ranksp is a copy of the list, which the
 * caller frees. HVD_ERR_INVALID if the list is not valid for this process: then [wireup] may only be
 * passed to sub_job_fence_remaining and wireup_close.
 *
 * Fences stay collective over the launcher's job: all its processes open a sub-job, and all sub-jobs fence
 * equally often, [fence_count] times. sub_job_fence_remaining makes sure of that. */
int sub_job_open(struct wireup *wireup, const struct hvd_ranks *list, int fence_count, struct hvd_job *job,
                 int **launcher_ranksp, struct hvd_error *err);

/* Do the fences that are left, before wireup_close, even if this sub-job failed: the other sub-jobs must
 * not wait for them. Does nothing on a wire-up that is not of a sub-job. */
int sub_job_fence_remaining(struct wireup *wireup, int64_t deadline_us, struct hvd_error *err);

#endif
