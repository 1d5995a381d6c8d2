/* apply.h: apply a placement to a task: bind its CPUs and memory, and set its variables. Needs no hwloc. */
#ifndef TOPO_APPLY_H
#define TOPO_APPLY_H

#include <sys/types.h>

#include "base/env.h"
#include "options/token.h"
#include "topo/plan/plan.h"

/* Set in each task that a launcher has placed: the launcher and the variables that it wrote, separated by
 * commas: "srun,OMP_NUM_THREADS". A task with this variable is not placed again, and the listed variables
 * count as the launcher's, not the user's. */
#define PLACED_VARIABLE "HVD_PLACED"

/* Get or set the CPUs that thread [tid] (0: the calling one) may run on. HVD_OK or HVD_ERR_SYSTEM. */
int apply_read_cpus(pid_t tid, struct bitmap *cpus, struct hvd_error *err);
int apply_cpus(pid_t tid, const struct bitmap *cpus, struct hvd_error *err);

/* Let the calling thread, and processes that it starts, prefer memory of the nodes [mems] and use other nodes
 * when these are full. Does nothing on a kernel without that policy. */
void apply_mems(const struct bitmap *mems);

/* Return to the kernel's default policy. */
void apply_default_mems(void);

/* Has the calling thread a memory policy already, for example from numactl? */
bool apply_mems_are_set(void);

/* A task that its launcher is about to start, and the launcher's decisions. */
struct launched_task {
    const struct plan_task *task;
    const char *launcher; /* "srun", "hvdrun": for PLACED_VARIABLE */
    enum gpu_visible gpu_visible;
    bool kept; /* it keeps the CPUs that it had and not the planned ones; OMP variables are not set */
    char *const *environment; /* the environment that it starts with; NULL: this process's own */
};

#define APPLY_MAX         8
#define APPLY_VALUE_BYTES 1536 /* MACHINE_MAX_GPUS ids with commas */

struct env_variable {
    const char *name;
    char value[APPLY_VALUE_BYTES];
};

/* Write the variables to set for the task into [variables] of APPLY_MAX and return their number; the last is
 * PLACED_VARIABLE. A variable that is already set is the user's and is left out, except those that hide GPUs
 * for GPU_VISIBLE_ONE.
 *   HVD_GPU_PCI          PCI ids of its GPUs, separated by commas: "0000:17:00.0"
 *   HVD_LOCAL_DEVICE     the device number of the first of them in its program
 *   CUDA_DEVICE_ORDER    PCI_BUS_ID, so that this number is right
 *   CUDA_VISIBLE_DEVICES (AMD: ROCR_VISIBLE_DEVICES) only for GPU_VISIBLE_ONE
 *   OMP_NUM_THREADS, OMP_PLACES
 * Returns HVD_ERR_INVALID if the list of the task's visible GPUs cannot be written. */
int apply_variables(const struct launched_task *launched, struct env_variable *variables,
                    struct hvd_error *err);

/* Take the next listed variable into *namep. *atp is at first the value of PLACED_VARIABLE, or NULL if it is
 * not set. Returns false after the last. */
bool placed_next_variable(const char **atp, struct token *namep);

/* Is [name] among the variables that follow the launcher in [placed], the value of PLACED_VARIABLE (NULL: not
 * set)? */
bool placed_has_variable(const char *placed, const char *name);

#endif
