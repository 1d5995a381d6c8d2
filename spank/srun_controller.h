/* srun_controller.h: in srun: what is asked of Slurm's controller, which may not answer for long. */
#ifndef SPANK_SRUN_CONTROLLER_H
#define SPANK_SRUN_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

/* A step, by Slurm's numbers; its components are those of the jobs from [job] on. */
struct controlled_step {
    uint32_t job, number;
    int components;
};

/* Each of these returns at once: a thread of its own waits for the controller, for Slurm's MessageTimeout if
 * need be, and the end of srun does not wait for that thread. */

/* End the step by SIGTERM, or by SIGKILL. */
void srun_controller_end_step(const struct controlled_step *step, bool kill);

/* Ask whether Slurm ends the job or the step, since it was cancelled or its time is over. Only once. */
void srun_controller_ask_ended(const struct controlled_step *step);

/* What is the answer, once? It is waited for until one second after the question. False: Slurm does not,
 * nobody has asked, or the controller does not say. */
bool srun_controller_has_ended(void);

#endif
