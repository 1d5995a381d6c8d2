/* apply.h: let a task run as it was placed: its CPUs, its memory, and what it is told in variables. Needs no
 * hwloc. */
#ifndef TOPO_APPLY_H
#define TOPO_APPLY_H

#include <sys/types.h>

#include "base/env.h"
#include "base/token.h"
#include "topo/plan/plan.h"

/* What a launcher has placed carries this: who placed it, and which variables were written for that, with
 * commas between: "srun,OMP_NUM_THREADS". Whoever finds it does not place the task again, and takes what is
 * listed for the launcher's word, not the user's. */
#define PLACED_VARIABLE "HVD_PLACED"

/* The CPUs that thread [tid] may run on (0: the calling one), or those it may not leave. HVD_OK or
 * HVD_ERR_SYSTEM. */
int apply_read_cpus(pid_t tid, struct bitmap *cpus, struct hvd_error *err);
int apply_cpus(pid_t tid, const struct bitmap *cpus, struct hvd_error *err);

/* From now on the calling thread, and what it starts, gets memory from [mems] first, from others when they
 * are full. Does nothing where the kernel cannot. */
void apply_mems(const struct bitmap *mems);

/* Take that back. */
void apply_default_mems(void);

/* Has somebody else chosen from where the calling thread gets memory, as numactl does? */
bool apply_mems_are_set(void);

/* A task that is about to be started, and what its launcher has decided. */
struct launched_task {
    const struct plan_task *task;
    const char *who; /* "srun", "hvdrun": for PLACED_VARIABLE */
    enum gpu_visible gpu_visible;
    bool kept;                /* its CPUs are as it was found, not as planned: nothing is said of threads */
    char *const *environment; /* that it starts with; NULL: this process's own */
};

#define APPLY_MAX         8
#define APPLY_VALUE_BYTES 1536 /* MACHINE_MAX_GPUS ids with commas */

struct env_variable {
    const char *name;
    char value[APPLY_VALUE_BYTES];
};

/* What the task is to find in its environment, into [variables] of APPLY_MAX; what is there already is the
 * user's and is left out, but for the GPUs of "one". Returns how many; the last is PLACED_VARIABLE.
 *   HVD_GPU_PCI          its GPUs, by PCI id: "0000:17:00.0"; several with commas
 *   HVD_LOCAL_DEVICE     the number by which its program has to call the first of them
 *   CUDA_DEVICE_ORDER    PCI_BUS_ID, so that this number is right
 *   CUDA_VISIBLE_DEVICES (AMD: ROCR_VISIBLE_DEVICES) only for GPU_VISIBLE_ONE
 *   OMP_NUM_THREADS, OMP_PLACES
 * HVD_ERR_INVALID where the visible GPUs of a task cannot be written. */
int apply_variables(const struct launched_task *applied, struct env_variable *variables,
                    struct hvd_error *err);

/* Take the next variable that is listed into *namep. *atp: at first the value of PLACED_VARIABLE, or NULL
 * where it is not set. False after the last. */
bool placed_next_variable(const char **atp, struct token *namep);

/* Is [name] listed in [placed], the value of PLACED_VARIABLE (NULL: it is not set), after who placed it? */
bool placed_has_variable(const char *placed, const char *name);

#endif
