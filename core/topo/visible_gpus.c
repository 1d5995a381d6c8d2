/* visible_gpus.c: which GPU a program means by "device 0". */
#include "topo/visible_gpus.h"

#include <stdio.h>
#include <string.h>

#include "options/token.h"

/* Are all GPUs of one model? If so, the driver's order, fastest first, is the PCI order. */
static bool same_model(const struct machine *machine, const struct visible_gpus *visible)
{
    for (int i = 1; i < visible->count; i++) {
        const struct pci_device *first = &machine->gpus[visible->gpus[0]].pci,
                                *pci = &machine->gpus[visible->gpus[i]].pci;
        if (pci->vendor != first->vendor || pci->device != first->device)
            return false;
    }
    return true;
}

/* The GPU that an entry names, by a number within [from] or by the beginning of its name; -1: none. */
static int find_entry(const struct machine *machine, const struct visible_gpus *from, struct token entry)
{
    int number = -1, found = -1;
    const char *why;
    if (token_parse_number(entry, 0, MACHINE_MAX_GPUS - 1, &number, &why) == 0)
        return number < from->count ? from->gpus[number] : -1;
    for (int i = 0; i < from->count; i++) {
        const char *uuid = machine->gpus[from->gpus[i]].uuid;
        if (entry.length <= 4 || strncmp(uuid, entry.text, entry.length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = from->gpus[i];
    }
    return found;
}

static bool has_gpu(const struct visible_gpus *visible, int gpu)
{
    return visible_gpus_device(visible, gpu) >= 0;
}

/* Keep the GPUs of [visible] that a variable lists, in the variable's order. The list ends at the first entry
 * that names none, or one that is already there. */
static void select_listed(const struct machine *machine, struct visible_gpus *visible, const char *list)
{
    struct visible_gpus from = *visible;
    struct token entry;
    visible->count = 0;
    for (const char *at = list; at != NULL;) {
        at = token_next(at, ',', &entry);
        while (entry.length > 0 && *entry.text == ' ')
            entry = (struct token){entry.text + 1, entry.length - 1};
        if (entry.length >= 4 && strncmp(entry.text, "MIG-", 4) == 0) {
            visible->mig = true;
            return;
        }
        if (entry.length >= 4 && strncmp(entry.text, "GPU-", 4) != 0)
            return;
        int gpu = find_entry(machine, &from, entry);
        if (entry.length >= 4 && gpu < 0)
            visible->certain = false;
        if (gpu < 0 || has_gpu(visible, gpu))
            return;
        visible->gpus[visible->count++] = gpu;
    }
}

static bool has_numbers(const char *list)
{
    return list == NULL || (strncmp(list, "GPU-", 4) != 0 && strncmp(list, "MIG-", 4) != 0);
}

static void advise(struct visible_gpus *visible, const struct visible_gpus_env *env, int granted)
{
    const char *words = "";
    if (visible->mig)
        words = "slices of GPUs (MIG) are granted: a rank can use one of them, and NCCL cannot join slices "
                "of one GPU; "
                "turn MIG off, or run one rank a GPU";
    else if (!visible->certain && has_numbers(env->devices))
        words = "GPUs of several models are here, which the driver orders by speed: set "
                "CUDA_DEVICE_ORDER=PCI_BUS_ID";
    else if (!visible->certain)
        words =
            "CUDA_VISIBLE_DEVICES names a GPU that this node does not tell the name of: use numbers there";
    else if (visible->count == 0 && granted > 0 && env->devices != NULL)
        words = "the variable that selects GPUs names none of those that are granted: unset it";
    snprintf(visible->advice, sizeof(visible->advice), "%s", words);
}

void visible_gpus_map(const struct machine *machine, const int *granted, int granted_count,
                      const struct visible_gpus_env *env, struct visible_gpus *visible)
{
    *visible = (struct visible_gpus){.certain = true};
    for (int i = 0; i < (granted_count < 0 ? machine->gpu_count : granted_count) && i < MACHINE_MAX_GPUS; i++)
        visible->gpus[visible->count++] = granted_count < 0 ? i : granted[i];
    int all = visible->count;
    bool by_pci = env->order != NULL && strcmp(env->order, "PCI_BUS_ID") == 0;
    if (!by_pci && has_numbers(env->devices) && !same_model(machine, visible))
        visible->certain = false;
    if (env->devices != NULL)
        select_listed(machine, visible, env->devices);
    if (env->within != NULL && !visible->mig)
        select_listed(machine, visible, env->within);
    if (visible->mig)
        visible->count = 0;
    advise(visible, env, all);
}

const char *visible_gpus_hidden_advice(int seen, int step, int tasks)
{
    if (tasks < 2 || seen >= step)
        return NULL;
    return "each task sees only its own GPUs and cannot reach those of the others directly: give "
           "--gpus-per-node in place of "
           "--gpus-per-task and --gpu-bind, or since Slurm 24.05 --gres-flags=allow-task-sharing";
}

int visible_gpus_device(const struct visible_gpus *visible, int gpu)
{
    for (int i = 0; i < visible->count; i++)
        if (visible->gpus[i] == gpu)
            return i;
    return -1;
}
