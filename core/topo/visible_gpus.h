/* visible_gpus.h: which GPU a program means by "device 0": CUDA_VISIBLE_DEVICES and its like against the
 * order of PCI. Pure. */
#ifndef TOPO_VISIBLE_GPUS_H
#define TOPO_VISIBLE_GPUS_H

#include "topo/machine.h"

/* The variables of one task; NULL: not set. */
struct visible_gpus_env {
    const char *devices; /* CUDA_VISIBLE_DEVICES; of AMD, ROCR_VISIBLE_DEVICES */
    const char *within;  /* HIP_VISIBLE_DEVICES, which counts among those; NULL for NVIDIA */
    const char *order;   /* CUDA_DEVICE_ORDER */
};

struct visible_gpus {
    int count;
    int gpus[MACHINE_MAX_GPUS]; /* index of machine->gpus that the program calls device i */
    bool mig;                   /* slices of GPUs (MIG) are named, not GPUs */
    bool certain;               /* false: the order depends on what only the driver knows */
    char advice[256];           /* a sentence that says how to correct it; "": nothing is wrong */
};

/* [granted] are the GPUs whose devices the task may open, as indexes of machine->gpus, by PCI id
 * ([granted_count] -1: all). Numbers in the variables count among those. An entry that names none ends the
 * list, as the driver has it. */
void visible_gpus_map(const struct machine *machine, const int *granted, int granted_count,
                      const struct visible_gpus_env *env, struct visible_gpus *visible);

/* Advice for a task that sees fewer GPUs than its step has on this node: [seen] of [step], [tasks] tasks
 * here. Peers on hidden GPUs cannot be reached directly. Returns a sentence, or NULL where nothing is hidden.
 */
const char *visible_gpus_hidden_advice(int seen, int step, int tasks);

/* Inverse: the device number by which the program must call machine->gpus[gpu], or -1 where it cannot see it.
 */
int visible_gpus_device(const struct visible_gpus *visible, int gpu);

#endif
