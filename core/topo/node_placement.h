/* node_placement.h: place the tasks of a node. Load the machine, find the CPUs that are granted and the GPUs
 * that are visible, and plan. Shared by the plug-in, hvdrun, the library and hvdinfo. */
#ifndef TOPO_NODE_PLACEMENT_H
#define TOPO_NODE_PLACEMENT_H

#include "topo/plan/plan.h"
#include "topo/visible_gpus.h"

/* The input. All but the number of tasks may be zero. */
struct node_placement {
    const char *topology; /* an XML file of this node, so that hwloc need not look at the node; NULL: look */
    bool elsewhere;       /* the file is of another node: read nothing from this one */
    bool cores_only;      /* skip GPUs and network cards, which take most of the time */
    const char *root;     /* the folder with /sys, /proc and /dev, for tests; NULL: "" */
    int task_count;       /* on this node */
    const struct bitmap *cpus;        /* granted; NULL: those that this process may run on */
    const struct request_task *tasks; /* what is fixed for each; NULL: nothing */
    struct bind_options bind;
    const struct rs_options *rs; /* NULL: no resource sets */
    const char *nics;            /* --hvd-nics; NULL: auto */
    char *const *environment;    /* of the tasks, which says which GPUs they see; NULL: this process's own */
};

/* Might this node have GPUs that programs can use? A quick look at the drivers' files in [root]. */
bool node_has_gpus(const char *root);

/* Must GPUs and network cards be read? GPUs decide placement; cards are only printed. From an XML file they
 * cost nothing. */
bool node_placement_needs_devices(const struct node_placement *placement);

/* Load the machine of [placement] into *machinep and run nics_select on its NICs. Free it with
 * machine_destroy. During the call HWLOC_PLUGINS_PATH is set in the environment of this process: no other
 * thread may use the environment. Returns the errors of machine_load, and HVD_ERR_INVALID if --hvd-nics names
 * one that does not exist. */
int node_placement_load_machine(const struct node_placement *placement, struct machine **machinep,
                                struct hvd_error *err);

/* Find the GPUs that tasks may open, in the order in which their programs count them. If the machine is this
 * node, these are the GPUs whose device files this process may open and that the environment does not hide.
 */
void node_placement_find_gpus(const struct node_placement *placement, const struct machine *machine,
                              struct visible_gpus *visible);

/* Call node_placement_find_gpus, then plan_create. */
int node_placement_plan(const struct node_placement *placement, const struct machine *machine,
                        struct plan **planp, struct hvd_error *err);

/* Call node_placement_load_machine, then node_placement_plan. */
int node_placement_run(const struct node_placement *placement, struct plan **planp, struct hvd_error *err);

#endif
