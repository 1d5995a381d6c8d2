/* launch_variables.h: the variables by which programs that know torchrun or horovodrun find their place in
 * the job, such as RANK and HOROVOD_LOCAL_SIZE. hvd's launchers set them; libhvd asks PMIx where there is
 * one, and reads them only to foresee that a job is too large. */
#ifndef BASE_LAUNCH_VARIABLES_H
#define BASE_LAUNCH_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/* The place of one rank. */
struct launch_place {
    int rank, size;
    int local_rank, local_size; /* among the ranks of its node */
    int node, node_count;
};

#define LAUNCH_VARIABLES      12
#define LAUNCH_VARIABLE_BYTES 48 /* of "NAME=value", with the final 0 */

/* Where torch.distributed's ranks meet: a name or address of rank 0's node, and a free port there. */
#define MASTER_ADDR_VARIABLE "MASTER_ADDR"
#define MASTER_PORT_VARIABLE "MASTER_PORT"

/* "ADDR PORT", as Slurm's plug-in has set them: a step inside the step replaces these, and keeps the user's.
 */
#define MASTER_SET_VARIABLE "HVD_MASTER_SET"

/* How often hvdrun has started the job again, with --max-restarts; in an elastic job, the rank. */
#define RESTART_VARIABLE "HVD_RESTART"

/* In an elastic job of hvdrun: where a process asks for its place in the next epoch, and which it is. It ends
 * with EPOCHS_NEWCOMER if the process takes the place of one that has ended. */
#define EPOCHS_VARIABLE "HVD_EPOCHS"
#define EPOCHS_NEWCOMER " newcomer"

/* Ports for MASTER_PORT: below those that Linux gives to outgoing connections, so that none of these takes
 * the port before rank 0 listens. */
#define MASTER_PORT_FIRST 20000
#define MASTER_PORT_COUNT 12000

/* The name of variable [i], from 0 to LAUNCH_VARIABLES - 1, its value for a rank, and where a place holds it.
 */
const char *launch_variable_name(int i);
int launch_variable_value(int i, const struct launch_place *place);
int *launch_variable_of(int i, struct launch_place *place);

/* Does [environment] describe a newcomer of an elastic job? (NULL: that of this process.) */
bool launch_is_newcomer(char *const *environment);

#endif
