/* node_placement.c: place the tasks of a node. */
#include "config.h"
#include "topo/node_placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/apply.h"

/* hwloc opens libraries of GPU vendors and X11 unless this variable is set and empty. There is no other way
 * to stop it. */
static const char hwloc_plugins[] = "HWLOC_PLUGINS_PATH";

static int load_machine(const struct machine_source *source, struct machine **machinep, struct hvd_error *err)
{
    const char *before = getenv(hwloc_plugins);
    char *kept = before == NULL ? NULL : strdup(before);
    if ((before != NULL && kept == NULL) || setenv(hwloc_plugins, "", 1) < 0) {
        free(kept);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to look at this node");
    }
    int rc = machine_load(source, machinep, err);
    if (kept == NULL)
        unsetenv(hwloc_plugins);
    else
        setenv(hwloc_plugins, kept, 1);
    free(kept);
    return rc;
}

bool node_has_gpus(const char *root)
{
    static const char *const files[] = {"/proc/driver/nvidia", "/dev/nvidiactl", "/dev/kfd"};
    char path[512];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%.400s%s", root != NULL ? root : "", files[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

bool node_placement_needs_devices(const struct node_placement *placement)
{
    return placement->topology != NULL || placement->bind.verbose || placement->bind.policy == BIND_GPU ||
           (placement->rs != NULL && placement->rs->gpus != 0) || node_has_gpus(placement->root);
}

int node_placement_load_machine(const struct node_placement *placement, struct machine **machinep,
                                struct hvd_error *err)
{
    struct machine_source source = {.xml_path = placement->topology,
                                    .cores_only = placement->cores_only,
                                    .live = !placement->elsewhere,
                                    .root = placement->root};
    struct machine *machine = NULL;
    int rc = load_machine(&source, &machine, err);
    if (rc == HVD_OK)
        rc = nics_select(machine->nics, machine->nic_count, placement->nics, err);
    if (rc != HVD_OK) {
        machine_destroy(machine);
        return rc;
    }
    *machinep = machine;
    return HVD_OK;
}

/* Find the GPUs whose device file this process may open, or is unknown. access() fails also where a device
 * cgroup denies the GPU. */
static int openable_gpus(const struct machine *machine, int gpus[MACHINE_MAX_GPUS])
{
    int count = 0;
    for (int i = 0; i < machine->gpu_count; i++)
        if (machine->gpus[i].file[0] == 0 || access(machine->gpus[i].file, R_OK | W_OK) == 0)
            gpus[count++] = i;
    return count;
}

void node_placement_find_gpus(const struct node_placement *placement, const struct machine *machine,
                              struct visible_gpus *visible)
{
    bool amd = machine->gpu_count > 0 && machine->gpus[0].pci.vendor == MACHINE_VENDOR_AMD;
    char *const *environment = placement->environment;
    struct visible_gpus_env env = {NULL, NULL, NULL};
    int granted[MACHINE_MAX_GPUS];
    int count = -1;
    if (!placement->elsewhere) {
        env.devices = environment_value(environment, amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
        env.within = amd ? environment_value(environment, "HIP_VISIBLE_DEVICES") : NULL;
        env.order = environment_value(environment, "CUDA_DEVICE_ORDER");
        count = openable_gpus(machine, granted);
    }
    visible_gpus_map(machine, granted, count, &env, visible);
}

int node_placement_plan(const struct node_placement *placement, const struct machine *machine,
                        struct plan **planp, struct hvd_error *err)
{
    struct visible_gpus visible;
    node_placement_find_gpus(placement, machine, &visible);
    struct plan_request request = {.task_count = placement->task_count,
                                   .cpus = placement->cpus,
                                   .bind = placement->bind,
                                   .rs = placement->rs,
                                   .gpus = visible.gpus,
                                   .gpu_count = visible.count,
                                   .tasks = placement->tasks};
    return plan_create(machine, &request, planp, err);
}

int node_placement_run(const struct node_placement *placement, struct plan **planp, struct hvd_error *err)
{
    struct machine *machine = NULL;
    int rc = node_placement_load_machine(placement, &machine, err);
    if (rc == HVD_OK)
        rc = node_placement_plan(placement, machine, planp, err);
    machine_destroy(machine);
    return rc;
}
