/* mpi_opening.h: MPI is started, and a communicator made, in a thread of their own: MPI_Init,
 * MPI_Comm_dup and MPI_Comm_create_group return when all ranks have called them, or never, and control is
 * watched meanwhile.
 *
 * MPI exists once in a process, and so does an opening, which the backends mpi and hier-mpi share. The thread
 * is the only one that calls MPI while it runs; afterwards only the progress driver does. */
#ifndef BACKEND_MPI_MPI_OPENING_H
#define BACKEND_MPI_MPI_OPENING_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/job.h"
#include "base/status.h"

struct mpi_opening;

/* Begin, or share what the other backend began, which all ranks do in the same order. The test fails
 * after [deadline_us]. *userp: which backend this is. */
int mpi_opening_begin(struct mpi_opening **openingp, int *userp, const struct hvd_job *job,
                      int64_t deadline_us, struct hvd_error *err);

/* HVD_IN_PROGRESS; or HVD_OK, with this user's own communicator of the job in *comm; or why MPI cannot be
 * used. */
int mpi_opening_test(const struct mpi_opening *opening, int user, MPI_Comm *comm, struct hvd_error *err);

/* This user is done with it and its communicator, which are freed unless a rank was lost. One that is in
 * progress is left to its thread, and MPI is not used in this process again. */
void mpi_opening_end(struct mpi_opening *opening);

/* A rank was lost or messages are left over: do not call MPI_Finalize, which would wait for them. */
void mpi_process_break(void);

bool mpi_is_finalized(void);

/* What MPI says about [rc], which [what] returned. */
int mpi_error(int rc, const char *what, struct hvd_error *err);

#endif
