/* srun_epochs.h: in srun, for an elastic step, which --hvd-min makes: start the driver of its epochs, the
 * program hvdepochs, and end with its verdict. The driver proves ranks with libsodium, which must come into
 * neither srun nor slurmstepd, so it is a program of its own. */
#ifndef SPANK_SRUN_EPOCHS_H
#define SPANK_SRUN_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* How srun tells slurmstepd the port of the driver: Slurm hands variables with this prefix on even if the
 * user wants none (--export=NONE). Tasks do not get it. */
#define EPOCHS_PORT_VARIABLE "SLURM_HVD_EPOCHS"

/* The driver's descriptors: the sockets where ranks and reports come. Its standard input ends with the step.
 */
#define EPOCHS_LISTENER_FD 3
#define EPOCHS_REPORTS_FD  4

/* The driver's exit status is that of the step, or this: reports are missing, and srun knows better. */
#define EPOCHS_UNKNOWN 254

/* A step of [slots] tasks, of which [spares] wait. [program] is that of the driver, [reports] the socket of
 * srun_verdict_fd. */
struct elastic_step {
    uint32_t job, number; /* Slurm's of the step */
    int slots, fewest, spares;
    const char *program;
    int reports;
};

/* Start the driver, and tell slurmstepd where. */
int srun_epochs_start(const struct elastic_step *step, struct hvd_error *err);

/* For an earlier component of the step? */
bool srun_epochs_has_started(void);

/* When the step has ended: end the driver, which prints the verdict. Returns the step's exit status; -1 if
 * the step is not elastic, or if the driver does not know. */
int srun_epochs_end(void);

#endif
