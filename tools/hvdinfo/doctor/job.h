/* job.h: what the ranks of a job are like together. Pure. */
#ifndef TOOLS_HVDINFO_DOCTOR_JOB_H
#define TOOLS_HVDINFO_DOCTOR_JOB_H

#include "tools/hvdinfo/doctor/doctor.h"

#define CLOCK_ROUNDS  5
#define VERSION_BYTES 40

/* What each rank tells the others. It travels as it is: all ranks run the same hvdinfo, which the first check
 * proves. */
struct facts {
    char version[16];         /* of hvd */
    char pmix[VERSION_BYTES]; /* of PMIx */
    char nccl[VERSION_BYTES]; /* of NCCL, or why there is none */
    char host[64];
    char gpus[120];                 /* the PCI ids of its GPUs; "": none, or not placed */
    uint64_t plugin;                /* what is in the plug-in's file, as a number; 0: there is none */
    int64_t clock_us[CLOCK_ROUNDS]; /* when it left each of these barriers */
    int64_t claimed; /* how many tasks the launcher says that it has started; 0: it does not say */
};

struct job_check {
    const char *name;
    void (*run)(const struct facts *facts, int ranks, struct finding *finding);
};

extern const struct job_check job_checks[];
extern const int job_check_count;

/* How many tasks the launcher says that it has started; 0: it does not say. */
int64_t job_claimed(char *const *environment);

#endif
