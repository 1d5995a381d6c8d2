/* machine_live.c: complete a loaded machine: sort its devices, and read the links and names of devices from
 * /sys and /proc. */
#include "topo/machine_hwloc.h"
#include "topo/sys_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_gpus(const void *a, const void *b)
{
    return strcmp(((const struct machine_gpu *)a)->pci.id, ((const struct machine_gpu *)b)->pci.id);
}

/* Sort by PCI id. NICs that are not on PCI come last, sorted by name. */
static int compare_nics(const void *a, const void *b)
{
    const struct nic *left = a, *right = b;
    int order = (left->pci.id[0] == 0) - (right->pci.id[0] == 0);
    if (order == 0)
        order = strcmp(left->pci.id, right->pci.id);
    if (order == 0)
        order = strcmp(left->netdev, right->netdev);
    return order != 0 ? order : strcmp(left->verbs, right->verbs);
}

/* As sys_file_read_line, but copies printable text only. */
static void read_printable_line(const char *path, const char *key, char *text, size_t text_bytes)
{
    char line[256] = "";
    sys_file_read_line(path, key, line, sizeof(line));
    if (line[0] != 0)
        copy_printable(text, text_bytes, line);
}

/* The device file of an AMD GPU is its DRI render node. */
static void find_render_file(struct machine_gpu *gpu, const char *root)
{
    char path[SYS_PATH_BYTES];
    snprintf(path, sizeof(path), "%.400s/sys/bus/pci/devices/%s/drm", root, gpu->pci.id);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, "renderD", 7) == 0 && strlen(entry->d_name) < 16)
            snprintf(gpu->file, sizeof(gpu->file), "%.64s/dev/dri/%.16s", root, entry->d_name);
    if (folder != NULL)
        closedir(folder);
}

/* Read what the drivers call the GPUs, which users write in CUDA_VISIBLE_DEVICES, and the files that programs
 * open. */
static void read_drivers(struct machine *machine, const char *root)
{
    for (int i = 0; i < machine->gpu_count; i++) {
        struct machine_gpu *gpu = &machine->gpus[i];
        char path[SYS_PATH_BYTES];
        char amd[sizeof(gpu->uuid) - 4] = "";
        char minor[8] = "";
        snprintf(path, sizeof(path), "%.400s/proc/driver/nvidia/gpus/%s/information", root, gpu->pci.id);
        read_printable_line(path, "GPU UUID:", gpu->uuid, sizeof(gpu->uuid));
        read_printable_line(path, "Device Minor:", minor, sizeof(minor));
        if (minor[0] != 0)
            snprintf(gpu->file, sizeof(gpu->file), "%.64s/dev/nvidia%s", root, minor);
        snprintf(path, sizeof(path), "%.400s/sys/bus/pci/devices/%s/unique_id", root, gpu->pci.id);
        read_printable_line(path, "", amd, sizeof(amd));
        if (amd[0] != 0)
            snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%s", amd);
        if (gpu->pci.vendor == MACHINE_VENDOR_AMD)
            find_render_file(gpu, root);
    }
}

/* Of this process's network namespace, as hvd_init and hvdinfo nics see them, unless [root] is a test's.
 * Where the kernel does not answer, they are as /sys has them. */
static void read_interfaces(struct machine *machine, const char *root)
{
    char sys[SYS_PATH_BYTES];
    snprintf(sys, sizeof(sys), "%.400s/sys", root);
    if (root[0] != 0 || nics_read_own(machine->nics, NIC_MAX, sys, &machine->nic_count, NULL) != HVD_OK)
        machine->nic_count = nics_read_sys(machine->nics, machine->nic_count, NIC_MAX, sys);
    for (int i = 0; i < machine->nic_count; i++)
        if (machine->nics[i].pci.id[0] == 0 && bitmap_is_empty(&machine->nics[i].pci.cpus))
            machine->nics[i].pci.cpus = machine->cpus;
}

void machine_finish(struct machine *machine, const struct machine_source *source)
{
    const char *root = source->root != NULL ? source->root : "";
    if (source->live && !source->cores_only) {
        read_interfaces(machine, root);
        read_drivers(machine, root);
    }
    qsort(machine->gpus, (size_t)machine->gpu_count, sizeof(machine->gpus[0]), compare_gpus);
    qsort(machine->nics, (size_t)machine->nic_count, sizeof(machine->nics[0]), compare_nics);
    nics_select(machine->nics, machine->nic_count, NULL, NULL);
}
