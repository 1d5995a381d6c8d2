/* provider.h: which provider of wire-up a process uses, decided from its environment.
 *
 * The folder pmix_shim promises two things. To libhvd it gives wire-up (bootstrap/wireup.h): rank, size,
 * and blobs exchanged among all ranks, by the provider that provider.c chooses. pmix.c asks the launcher's
 * PMIx server in the first start of a process, and is a module of its own; reunion.c serves its later starts,
 * and epochs.c those of an elastic job, with epoch_server.c at the launcher's end;
 * pmi.c, with pmi_client.c and pmi_text.c, speaks PMI-1; env.c serves jobs that only the environment
 * describes; fence_wireup.c, with env_fence_*.c and secure_channel.c, is what reunion.c and env.c share;
 * singleton.c serves a job of one rank. nested.c tells launchers inside one another apart. To hvdrun it gives
 * a PMIx server for the ranks that it starts (server.h); that runs in a process of its own. */
#ifndef PMIX_SHIM_PROVIDER_H
#define PMIX_SHIM_PROVIDER_H

#include "bootstrap/wireup.h"

enum provider { PROVIDER_PMIX, PROVIDER_PMI, PROVIDER_ENV, PROVIDER_SINGLETON };

/* For tests: which provider [environment] ("NAME=value" strings, NULL-terminated) asks for; not one of
 * [outer], as nested_outer returns them. PROVIDER_SINGLETON only if nothing says that the job has more ranks.
 * Pure; HVD_OK, or HVD_ERR_INVALID with *providerp unchanged. */
int provider_choose(char *const *environment, unsigned outer, enum provider *providerp,
                    struct hvd_error *err);

/* For tests: called when [provider] found a job of one rank. HVD_ERR_INVALID, with the cause and what to do,
 * if [environment] says that the job has more. Pure. */
int provider_check_single(char *const *environment, enum provider provider, struct hvd_error *err);

/* For tests: called when PROVIDER_SINGLETON was chosen. Has somebody forgotten srun or jsrun: does this
 * process run in the script or shell of a Slurm job that has several tasks, or of an LSF job that has several
 * hosts? Then *warningp is a sentence; or, where the job was given options of hvd, the result is
 * HVD_ERR_INVALID. Otherwise *warningp is "". Pure. */
int provider_check_launcher(char *const *environment, struct hvd_error *warningp, struct hvd_error *err);

/* For tests: the HVD_EPOCH of [environment], else torchrun's count of restarts, else 0. Pure. */
int provider_read_epoch(char *const *environment, uint32_t *epochp, struct hvd_error *err);

#define LAUNCH_MOST_RANKS 1000000

/* PMIx has served the first start of this process. Is the next one that of an epoch, in an elastic job? So is
 * the first one of a newcomer, which has no PMIx. */
void epochs_begin(void);
bool epochs_follow(enum provider provider);
/* Close the sockets of this process: where the other ranks of an epoch come, and where its news come from. */
void epochs_close_sockets(void);

/* Has the first start planned where its ranks, *sizep of them, meet again? */
bool reunion_is_planned(int *sizep);

/* A variable of this process in which a launcher writes a number, and the numbers that are right. */
struct launch_number {
    const char *name;
    int64_t min, max;
    const char *reason; /* why it must be set, for messages; NULL: it need not, and is -1 then */
    const char *mend;   /* what to do if it is not */
};

/* HVD_OK, or HVD_ERR_INVALID with *numberp unchanged. */
int launch_number_read(const struct launch_number *number, int *numberp, struct hvd_error *err);

/* The providers. When open is called, job->epoch and job->host are set; it fills in the rest, and replaces
 * the host if it knows it better. */
extern const struct wireup_ops wireup_pmi_ops; /* PMI_FD, PMI_RANK and PMI_SIZE */
extern const struct wireup_ops
    wireup_env_ops; /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and HVD_JOB_KEY; of jsrun's tasks
                       JSM_NAMESPACE_RANK and JSM_NAMESPACE_SIZE in place of the first two */
extern const struct wireup_ops wireup_reunion_ops; /* where PMIx served the first start of the process */
extern const struct wireup_ops wireup_epochs_ops;  /* the same, in an elastic job, and of newcomers */
extern const struct wireup_ops
    wireup_singleton_ops; /* a job of one rank; the shortest example of a provider */

#endif
