/* plan.h: choose the cores, memory, GPUs and network cards of each task of a node, and say why. Pure: the
 * same machine and request give the same plan in every process and on every node of that kind.
 *
 * plan/ promises the rest of hvd this header only: plan_create, and checking and printing plans that other
 * processes made. Its stages, in this order: plan.c reads the request, plan_units.c makes units of cores,
 * plan_gpus.c assigns GPUs, plan_cores.c assigns cores (by plan_groups.c and plan_share.c) or plan_sets.c
 * does for resource sets, plan_nics.c assigns cards, and plan_reasons.c writes the reasons. plan_task.c
 * checks plans of other processes. */
#ifndef TOPO_PLAN_PLAN_H
#define TOPO_PLAN_PLAN_H

#include "options/bind.h"
#include "options/resource_set.h"
#include "topo/machine.h"

#define PLAN_MAX_TASKS  8192
#define PLAN_TASK_GPUS  MACHINE_MAX_GPUS
#define PLAN_TASK_NICS  16
#define PLAN_WHY_BYTES  256
#define PLAN_NOTE_BYTES 512

/* What is fixed for a task before hvd places it: by --cpu-bind or an affinity mask narrower than the step's
 * CPUs (the caller leaves these out if bind.force is set), or by an explicit resource file. */
struct request_task {
    const struct bitmap *cpus; /* NULL: plan_create chooses them */
    const int *gpus; /* indexes in machine->gpus; NULL: plan_create chooses them, or none if other tasks have
                        preset GPUs */
    int gpu_count;
    const char *why; /* "bound by --cpu-bind", with which its reason begins */
};

struct plan_request {
    int task_count;            /* on this node */
    const struct bitmap *cpus; /* granted; NULL: what the machine allows */
    const struct bitmap *mems; /* the same for memory nodes */
    struct bind_options bind;
    const struct rs_options *rs; /* NULL: no resource sets */
    const int *gpus; /* granted, as indexes in machine->gpus in the order in which programs count them */
    int gpu_count;   /* (visible_gpus_map); -1: all */
    const struct request_task *tasks; /* one for each task; NULL: nothing is preset */
};

/* The placement of one task. Flat, so that it can be sent through a pipe to a process without hwloc
 * (plan_task_valid). */
struct plan_task {
    struct bitmap cpus; /* never empty, and a subset of the granted CPUs */
    struct bitmap mems; /* memory nodes near [cpus], of those granted */
    bool bound;         /* false: [cpus] is all that is granted, so there is no mask to set */
    bool shared;        /* another task runs on some of the same CPUs */
    int core_count;     /* cores it has, whole or in part */
    int threads;        /* for OMP_NUM_THREADS */
    char
        places[8]; /* for OMP_PLACES: "threads"; "" (do not set) where the task is not bound or shares CPUs */
    int set;       /* its resource set on this node; -1: none */
    int gpu_count;
    int gpus[PLAN_TASK_GPUS];                   /* indexes in machine->gpus, the task's own first */
    char gpu_ids[PLAN_TASK_GPUS][PCI_ID_BYTES]; /* "0000:17:00.0" */
    int devices[PLAN_TASK_GPUS];                /* the position of each among the granted GPUs */
    bool gpu_amd;                               /* AMD's; otherwise NVIDIA's */
    int nic_count;
    int nics[PLAN_TASK_NICS];                        /* indexes in machine->nics, best first */
    char nic_names[PLAN_TASK_NICS][NIC_VERBS_BYTES]; /* nic_name of each */
    char why[PLAN_WHY_BYTES]; /* "nearest to GPU 0000:17:00.0, 7 of 28 cores of NUMA node 0" */
};

struct plan {
    int task_count;
    struct plan_task *tasks;
    enum bind_policy policy;    /* the policy; for auto, the one that auto chose */
    struct bitmap granted;      /* CPUs */
    struct bitmap reserved;     /* of those, reserved for the system */
    struct bitmap used;         /* of those, assigned to tasks; the rest is idle */
    char note[PLAN_NOTE_BYTES]; /* sentences about the whole plan: shared cores, idle ones, GPUs without a
                                   task; usually "" */
};

/* Place all tasks. Free *planp with plan_destroy. Returns HVD_ERR_INVALID with a sentence if the request
 * cannot be met (no granted CPU is on this machine, reserve takes all cores, smt exceeds the threads of a
 * core, gpu without GPUs, resource sets that do not fit), or HVD_ERR_NO_MEMORY; *planp is then unchanged. */
int plan_create(const struct machine *machine, const struct plan_request *request, struct plan **planp,
                struct hvd_error *err);

/* [plan] may be NULL. */
void plan_destroy(struct plan *plan);

/* Is a plan_task from another process valid: counts within their arrays, texts terminated and printable? */
bool plan_task_valid(const struct plan_task *task);

/* Is a text from another process terminated within its array, and printable? */
bool plan_text_valid(const char *text, size_t text_bytes);

/* Write "task 3: cpus 24-31,88-95, memory 0, GPU 0000:4e:00.0, NIC mlx5_3, 16 threads: nearest to ..." into
 * [text] and return [text]. */
const char *plan_task_text(const struct plan_task *task, int index, char *text, size_t text_bytes);

/* Append to a text of [text_bytes]. Text that does not fit is cut. */
void text_append(char *text, size_t text_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
