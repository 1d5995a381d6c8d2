/* srun.c: does this node reach the port where srun listens for the nodes of its step? */
#include <netinet/in.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/env.h"
#include "base/launch_variables.h"
#include "options/slurm_step.h"
#include "tools/hvdinfo/doctor/checks.h"
#include "verdict/failure_report.h"

/* In an elastic step the ranks know the port of hvdepochs, which stands beside srun, and in others srun's. */
static bool find_port(char *const *environment, char host[INET6_ADDRSTRLEN], int *portp)
{
    char token[FAILURE_TOKEN_BYTES];
    const char *epochs = environment_value(environment, EPOCHS_VARIABLE);
    const char *listener = environment_value(environment, FAILURE_TASK_VARIABLE);
    const char *srun = environment_value(environment, "SLURM_SRUN_COMM_HOST");
    if (!slurm_step_is_users(environment))
        return false;
    if (epochs != NULL)
        return sscanf(epochs, "%45s %d", host, portp) == 2;
    if (listener == NULL || srun == NULL)
        return false;
    snprintf(host, INET6_ADDRSTRLEN, "%s", srun);
    return failure_report_parse_variable(listener, portp, token);
}

void check_srun_port(const struct patient *patient, struct finding *finding)
{
    char host[INET6_ADDRSTRLEN];
    int port = 0;
    struct hvd_error err = {""};
    if (!find_port(patient->environment, host, &port)) {
        find(finding, CHECK_OK, NULL,
             "no srun listens for this node: it is in no step that uses the plug-in");
        return;
    }
    int fd = failure_report_connect(host, port, clock_us() + FAILURE_SEND_US, &err);
    if (fd < 0)
        find(finding,
             environment_value(patient->environment, EPOCHS_VARIABLE) != NULL ? CHECK_FAIL : CHECK_WARN,
             "let SrunPortRange of slurm.conf through the firewall between this node and the one of srun",
             "%.190s", err.text);
    else
        find(finding, CHECK_OK, NULL, "reached");
    descriptors_close(&fd);
}
