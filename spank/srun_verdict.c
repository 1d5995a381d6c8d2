/* srun_verdict.c: name in srun the rank that failed first, as the last thing that a step prints. */
#include "config.h"
#include "spank/srun_verdict.h"

#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "spank/srun_port.h"
#include "spank/step_reports.h"

/* How long srun waits for late reports. */
#define READ_US INT64_C(300000)

/* Global, because SPANK passes no data of a plug-in from one call to the next. */
static struct {
    int fd; /* -1: srun does not listen */
    char token[FAILURE_TOKEN_BYTES];
} listener = {.fd = -1};

void srun_verdict_listen(void)
{
    char variable[FAILURE_VARIABLE_BYTES];
    int port = 0;
    unsetenv(FAILURE_REPORT_VARIABLE); /* of an outer step */
    if (random_hex_draw(listener.token) < 0)
        return;
    listener.fd = srun_port_listen(&port);
    if (listener.fd < 0)
        return;
    snprintf(variable, sizeof(variable), "%d:%s", port, listener.token);
    setenv(FAILURE_REPORT_VARIABLE, variable, 1);
}

int srun_verdict_fd(void)
{
    return listener.fd;
}

static void print(const char *line)
{
    slurm_spank_log("%s", line);
}

void srun_verdict_print(void)
{
    struct step_reports reports = {.size = 0};
    if (listener.fd < 0)
        return;
    step_reports_take(&reports, listener.fd, listener.token, clock_us() + READ_US);
    step_reports_judge(&reports, &(struct step_judge){.print = print});
    step_reports_free(&reports);
    descriptors_close(&listener.fd);
}
