/* agent_steps.h: the steps of a Slurm job in which hvdrun's agents run: an srun for each, which starts an
 * agent on each of its hosts. */
#ifndef TOOLS_HVDRUN_AGENT_AGENT_STEPS_H
#define TOOLS_HVDRUN_AGENT_AGENT_STEPS_H

#include <limits.h>
#include <sys/types.h>

#include "tools/hvdrun/job_signals.h"
#include "tools/hvdrun/launcher/line.h"

struct agent_step {
    pid_t pid; /* of srun */
    int fd;    /* readable when it has ended */
    struct host_list hosts;
};

/* What all agents of a job get. */
struct agent_launch {
    char *const *argv;  /* of hvdrun */
    const char *run_id; /* which hvdrun may have drawn */
    const char *secret;
    const struct job_signals *signals;
};

/* All zero: none. */
struct agent_steps {
    struct agent_launch launch;
    char program[PATH_MAX];   /* hvdrun's own file, by the name that it had when the job began */
    struct agent_step *steps; /* those that run */
    int count;
};

/* What [launch] points to must stay valid. */
void agent_steps_begin(struct agent_steps *steps, const struct agent_launch *launch);

/* Write the command line that starts [program], which is hvdrun's own file, as agents on these hosts. Pure.
 */
void agent_steps_line(struct words *words, const struct agent_launch *launch, const struct host_list *hosts,
                      const char *program, const char *port);

/* Start agents on these hosts, which are taken over, to connect at [port] of this machine. Returns the
 * descriptor that is readable when the step has ended, -1 with the reason. */
int agent_steps_start(struct agent_steps *steps, struct host_list *hosts, uint16_t port,
                      struct hvd_error *err);

/* True with the hosts of a step that has ended, which the caller frees, and how it has ended. */
bool agent_steps_ended(struct agent_steps *steps, struct host_list *hosts, char *why, size_t why_bytes);

/* Wait a moment for the steps to end, as their agents do, then end them. */
void agent_steps_end(struct agent_steps *steps);

#endif
