/* node_placement.h: place the tasks of a node. Load the machine, find the CPUs that are granted and the GPUs
 * that are visible, and plan. Shared by the plug-in, hvdrun, the library and hvdinfo. */
#ifndef TOPO_NODE_PLACEMENT_H
#define TOPO_NODE_PLACEMENT_H

#include "topo/plan/plan.h"
#include "topo/visible_gpus.h"

/* The input. All but the number of tasks may be zero. */
struct node_placement {
    const char *topology;      /* an XML file of this node, which saves looking; NULL: look */
    bool elsewhere;            /* it is of another node: nothing here is asked about it */
    bool cores_only;           /* do not look for GPUs and network cards: those take most of the time */
    const char *root;          /* where /sys, /proc and /dev are, for tests; NULL: "" */
    int task_count;            /* on this node */
    const struct bitmap *cpus; /* granted; NULL: what this process may run on */
    const struct request_task *tasks; /* what is settled for each; NULL: nothing */
    struct bind_options bind;
    const struct rs_options *rs; /* NULL: no resource sets */
    const char *nics;            /* --hvd-nics; NULL: auto */
    char *const *environment;    /* of the tasks: which GPUs they see; NULL: this process's own */
};

/* May this node have GPUs that programs can use? A quick look at the drivers' files in [root]. */
bool node_has_gpus(const char *root);

/* Must GPUs and network cards be read? GPUs decide placement, cards are only shown. From an XML file they
 * cost nothing. */
bool node_placement_needs_devices(const struct node_placement *placement);

/* Load the machine of [placement] into *machinep, for machine_destroy, and run nics_select on its cards. Sets
 * HWLOC_PLUGINS_PATH in the environment of this process for the time of the call: no other thread may use the
 * environment. Errors as machine_load, and HVD_ERR_INVALID for nics that are not there. */
int node_placement_load_machine(const struct node_placement *placement, struct machine **machinep,
                                struct hvd_error *err);

/* The GPUs that tasks may open, in the order in which their programs count them. Where the machine is this
 * node: whose device files this process may open, and that the environment does not hide. */
void node_placement_find_gpus(const struct node_placement *placement, const struct machine *machine,
                              struct visible_gpus *visible);

/* node_placement_find_gpus and plan_create. */
int node_placement_plan(const struct node_placement *placement, const struct machine *machine,
                        struct plan **planp, struct hvd_error *err);

/* node_placement_load_machine and node_placement_plan. */
int node_placement_run(const struct node_placement *placement, struct plan **planp, struct hvd_error *err);

#endif
