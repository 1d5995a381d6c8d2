/* sub_job.h: a sub-job, a job of some processes of the launcher's job: its wire-up, carried by the
 * launcher's. */
#ifndef BOOTSTRAP_SUB_JOB_H
#define BOOTSTRAP_SUB_JOB_H

#include "bootstrap/wireup.h"

/* Make of [wireup], with which the launcher's [job] was opened, the wire-up of the sub-job [list]: the
 * processes of the launcher's job that are in it, by their ranks there. Ranks, [job] included, count in the
 * list's order from then on. *launcher_ranksp: a copy of the list, which the caller frees. HVD_ERR_INVALID
 * where the list is none of this process's: then [wireup] may only be given to sub_job_fence_remaining and
 * wireup_close.
 *
 * Fences stay collective over the launcher's job: all its processes open a sub-job, and all sub-jobs fence
 * equally often, [fence_count] times: sub_job_fence_remaining sees to that. */
int sub_job_open(struct wireup *wireup, const struct hvd_ranks *list, int fence_count, struct hvd_job *job,
                 int **launcher_ranksp, struct hvd_error *err);

/* Do the fences that are left, before wireup_close, also if this sub-job failed: the others must not wait.
 * Does nothing on a wire-up that is not of a sub-job. */
int sub_job_fence_remaining(struct wireup *wireup, int64_t deadline_us, struct hvd_error *err);

#endif
