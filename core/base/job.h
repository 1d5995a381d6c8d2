/* job.h: this process's place in the job, as the launcher describes it. */
#ifndef BASE_JOB_H
#define BASE_JOB_H

#include <stdint.h>

struct hvd_job {
    int rank, size;
    int local_rank, local_size; /* the launcher's view, -1 if it has none: which ranks share memory is found
                                   out at the start */
    int launcher_size;          /* ranks of the launcher's job, of which this job may be a sub-job */
    const int *launcher_ranks;  /* [size]: each rank's number in the launcher's job, NULL if they are equal.
                                   Not owned */
    uint32_t epoch;             /* counts the starts of this job; messages of an earlier one are dropped */
    char host[256];             /* this node's name as the launcher spells it, else from gethostname */
    const char *provider;       /* "pmix", "env" or "solo" */
};

#endif
