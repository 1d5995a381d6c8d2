/* srun_record.c: write into the comment of the job which options of hvd its step was given.
 *
 * srun asks the controller, as any program of the user may. AdminComment is for operators only. */
#include "config.h"
#include "spank/srun_record.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <string.h>

#include "spank/options.h"

#define RECORD_START "hvd " /* of the comments that are ours */

/* Slurm's library is in srun. The plug-in is not linked with it, as slurmstepd may lack these. */
struct slurm_calls {
    int (*load_job)(job_info_msg_t **found, uint32_t job, uint16_t flags);
    void (*free_jobs)(job_info_msg_t *jobs);
    void (*init_update)(job_desc_msg_t *update);
    int (*update_job)(job_desc_msg_t *update);
};

static bool find_calls(struct slurm_calls *calls)
{
    calls->load_job = (int (*)(job_info_msg_t **, uint32_t, uint16_t))dlsym(RTLD_DEFAULT, "slurm_load_job");
    calls->free_jobs = (void (*)(job_info_msg_t *))dlsym(RTLD_DEFAULT, "slurm_free_job_info_msg");
    calls->init_update = (void (*)(job_desc_msg_t *))dlsym(RTLD_DEFAULT, "slurm_init_job_desc_msg");
    calls->update_job = (int (*)(job_desc_msg_t *))dlsym(RTLD_DEFAULT, "slurm_update_job");
    return calls->load_job != NULL && calls->free_jobs != NULL && calls->init_update != NULL &&
           calls->update_job != NULL;
}

/* May the job's comment become [record]? Not if it is the user's, nor if it is the same already. */
static bool may_replace(const char *comment, const char *record)
{
    return comment == NULL || comment[0] == 0 ||
           (strncmp(comment, RECORD_START, strlen(RECORD_START)) == 0 && strcmp(comment, record) != 0);
}

static void write_comment(const struct slurm_calls *calls, uint32_t job, char *record)
{
    job_info_msg_t *jobs = NULL;
    job_desc_msg_t update;
    if (calls->load_job(&jobs, job, 0) != SLURM_SUCCESS)
        return;
    bool replace = jobs->record_count > 0 && may_replace(jobs->job_array[0].comment, record);
    calls->free_jobs(jobs);
    if (!replace)
        return;
    calls->init_update(&update);
    update.job_id = job;
    update.comment = record;
    if (calls->update_job(&update) != SLURM_SUCCESS)
        slurm_verbose("hvd: the comment of job %u cannot be written", job);
}

void srun_record(spank_t spank)
{
    struct slurm_calls calls;
    char list[CONFIG_LIST_BYTES + 1] = "";
    char record[sizeof(list) + 64];
    struct hvd_error err = {""};
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS || options_list(list, &err) != HVD_OK)
        return;
    snprintf(record, sizeof(record), RECORD_START "%s%s%s", PACKAGE_VERSION, list[0] != 0 ? ": " : "", list);
    if (find_calls(&calls))
        write_comment(&calls, job, record);
    else
        slurm_verbose("hvd: the comment of job %u cannot be written by this Slurm's srun", job);
}
