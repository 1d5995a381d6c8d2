/* task_report.c: what a task of a Slurm step itself tells srun. */
#include "api/task_report.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/secret.h"
#include "options/parse.h"

static int64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text == NULL ? -1 : parse_count_or(text, -1);
}

bool task_report_fill(struct failure_report *report)
{
    failure_report_name_node(report->node);
    report->rank = (int)number_of("SLURM_PROCID");
    report->size = (int)number_of("SLURM_STEP_NUM_TASKS");
    report->pid = getpid();
    return slurm_launches_job(NULL) && report->rank >= 0 && report->size > report->rank;
}

bool task_report_send(const char *listener, const struct failure_report *report)
{
    char token[FAILURE_TOKEN_BYTES];
    const char *host = getenv("SLURM_SRUN_COMM_HOST");
    int port = 0;
    return host != NULL && failure_report_parse_variable(listener, &port, token) &&
           failure_report_send(host, port, token, report, NULL);
}
