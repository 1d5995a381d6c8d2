/* plugin_check.c: does this rank lack what the plug-in gives each task of a step that uses hvd? */
#include "api/plugin_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/process_stat.h"
#include "base/secret.h"
#include "api/task_report.h"

/* How long this process has run. */
static int64_t find_age_us(void)
{
    struct process_stat stat;
    struct timespec now = {0, 0};
    int64_t ticks = sysconf(_SC_CLK_TCK);
    if (ticks <= 0 || !process_stat_read(getpid(), &stat) || clock_gettime(CLOCK_BOOTTIME, &now) < 0)
        return 0;
    int64_t age_us =
        (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (int64_t)stat.start * 1000000 / ticks;
    return age_us > 0 ? age_us : 0;
}

int plugin_check(struct hvd_error *err)
{
    struct failure_report report = {.end.wait_status = EXIT_FAILURE << 8, .failed_count = 1};
    const char *listener = getenv(FAILURE_REPORT_VARIABLE); /* which the plug-in takes away */
    if (listener == NULL || !slurm_launches_job(NULL))
        return HVD_OK;
    bool known = task_report_fill(&report);
    report.after_us = find_age_us();
    int rc = error_set(
        err, HVD_ERR_INVALID,
        "hvd's plug-in has not run on %s, as it has in srun: see whether plugstack.conf there names "
        "spank_hvd.so, and the file is there and not older (hvdinfo doctor --node)",
        report.node);
    snprintf(report.facts.error, sizeof(report.facts.error), "%.*s", (int)sizeof(report.facts.error) - 1,
             err->text);
    /* As slurmstepd does for tasks that fail; the program may yet end with another status than 1. */
    if (known)
        task_report_send(listener, &report);
    return rc;
}
