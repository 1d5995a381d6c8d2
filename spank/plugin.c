/* plugin.c: what Slurm calls: asks which process this is and forwards. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
/* cppcheck-suppress unknownMacro */
SPANK_PLUGIN(hvd, 1)
#pragma GCC visibility pop

#include "spank/task_network.h"
#include "options.h"
#include "site.h"
#include "srun.h"
#include "stepd.h"

static void log_to_slurmd(const char *sentence)
{
    slurm_error("hvd: %s; it is ignored", sentence);
}

/* Who runs srun can do nothing about plugstack.conf: there it shows with -v only. */
static void log_to_srun(const char *sentence)
{
    slurm_verbose("hvd: %s; it is ignored", sentence);
}

/* Nothing here fails: on a node that would drain it, and in srun it would end commands that do not use hvd.
 */
int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    switch (spank_context()) {
    case S_CTX_LOCAL:
        options_register(spank);
        site_read(&site, argc, argv, NULL);
        if (!site.keep_mpi)
            srun_prefer_pmix();
        break;
    case S_CTX_ALLOCATOR:
        options_register(spank);
        break;
    case S_CTX_REMOTE:
        options_register(spank);
        site_read(&site, argc, argv, log_to_slurmd);
        break;
    case S_CTX_SLURMD:
        site_read(&site, argc, argv, log_to_slurmd);
        break;
    case S_CTX_JOB_SCRIPT:
    case S_CTX_ERROR:
        break;
    }
    return 0;
}

/* In sbatch and salloc, and below in srun: the first call after -v is in force. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[])
{
    struct site site;
    (void)spank;
    if (spank_context() == S_CTX_ALLOCATOR)
        site_read(&site, argc, argv, log_to_srun);
    return 0;
}

int slurm_spank_local_user_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    (void)spank;
    if (spank_context() == S_CTX_LOCAL)
        site_read(&site, argc, argv, log_to_srun);
    return 0;
}

int slurm_spank_user_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    site_read(&site, argc, argv, NULL);
    stepd_user_init(spank, &site);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    site_read(&site, argc, argv, NULL);
    int rc = stepd_task_init(spank, &site);
    if (rc == 0)
        task_network_init(spank, &site);
    return rc;
}

int slurm_spank_task_exit(spank_t spank, int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    if (spank_context() == S_CTX_REMOTE)
        stepd_task_exit(spank);
    return 0;
}
