/* job.h: this process's place in the job, as the launcher describes it. */
#ifndef BASE_JOB_H
#define BASE_JOB_H

#include <stdint.h>

struct hvd_job {
    int rank, size;
    int local_rank, local_size; /* as the launcher says, -1 if it does not; the start finds out which ranks
                                   really share memory */
    int launcher_size;          /* ranks in the launcher's job, of which this job may be a sub-job */
    const int *launcher_ranks;  /* [size] entries: each rank's number in the launcher's job; NULL if the
                                   numbers are equal. Not owned */
    uint32_t epoch;       /* the number of this start of the job; messages of an earlier start are dropped */
    char host[256];       /* this node's name as the launcher spells it, otherwise from gethostname */
    const char *provider; /* "pmix", "env" or "singleton" */
};

#endif
