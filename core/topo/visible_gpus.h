/* visible_gpus.h: which GPU a program means by "device 0": CUDA_VISIBLE_DEVICES and similar variables applied
 * to the PCI order. Pure. */
#ifndef TOPO_VISIBLE_GPUS_H
#define TOPO_VISIBLE_GPUS_H

#include "topo/machine.h"

/* The variables of one task; NULL: not set. */
struct visible_gpus_env {
    const char *devices; /* CUDA_VISIBLE_DEVICES; for AMD, ROCR_VISIBLE_DEVICES */
    const char *within;  /* HIP_VISIBLE_DEVICES, whose numbers count within [devices]; NULL for NVIDIA */
    const char *order;   /* CUDA_DEVICE_ORDER */
};

struct visible_gpus {
    int count;
    int gpus[MACHINE_MAX_GPUS]; /* by device number in the program, the index in machine->gpus */
    bool mig;                   /* the variables name slices of GPUs (MIG), not GPUs */
    bool certain;               /* false: only the driver knows the order */
    char advice[256]; /* a sentence that says what is wrong and how to correct it; "": nothing is wrong */
};

/* Find the GPUs that a program sees. [granted] are the GPUs whose devices the task may open, as indexes in
 * machine->gpus, by PCI id ([granted_count] -1: all). Numbers in the variables count within those. As in the
 * driver, an entry that names no GPU ends the list. */
void visible_gpus_map(const struct machine *machine, const int *granted, int granted_count,
                      const struct visible_gpus_env *env, struct visible_gpus *visible);

/* Advice for a task that sees [seen] of the [step] GPUs that its step has on this node, where it has [tasks]
 * tasks. A task cannot reach peers' GPUs directly if they are hidden from it. Returns a sentence, or NULL if
 * none is hidden. */
const char *visible_gpus_hidden_advice(int seen, int step, int tasks);

/* The inverse: the number by which the program must call machine->gpus[gpu], or -1 if it cannot see that
 * GPU. */
int visible_gpus_device(const struct visible_gpus *visible, int gpu);

#endif
