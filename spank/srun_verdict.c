/* srun_verdict.c: name in srun the rank that failed first, as the last thing that a step prints. */
#include "config.h"
#include "spank/srun_verdict.h"

#include <slurm/spank.h>

#include "spank/srun_watch.h"

static void print(const char *line)
{
    slurm_spank_log("%s", line);
}

void srun_verdict_print(void)
{
    const struct step_reports *reports = srun_watch_end();
    if (reports == NULL)
        return;
    step_reports_judge(reports, &(struct step_judge){.print = print});
    srun_watch_free();
}
