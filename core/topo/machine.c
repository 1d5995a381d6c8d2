/* machine.c: look-ups in a loaded machine. */
#include "topo/machine.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void machine_destroy(struct machine *machine)
{
    if (machine == NULL)
        return;
    for (int kind = 0; kind < DOMAIN_KINDS; kind++)
        free(machine->domains[kind]);
    free(machine->cores);
    free(machine);
}

/* Write "00000000:4E:00.0" or "4e:00.0" as "0000:4e:00.0" into [id]. Returns false if [text] is no PCI id. */
static bool read_pci_id(const char *text, char id[PCI_ID_BYTES])
{
    unsigned int domain = 0, bus, device, function;
    int length = 0;
    char small[PCI_ID_BYTES] = "";
    if (strlen(text) >= sizeof(small))
        return false;
    for (size_t i = 0; text[i] != 0; i++)
        small[i] = (char)tolower((unsigned char)text[i]);
    if (sscanf(small, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &length) != 4) {
        domain = 0;
        if (sscanf(small, "%2x:%2x.%1x%n", &bus, &device, &function, &length) != 3)
            return false;
    }
    if (small[length] != 0)
        return false;
    snprintf(id, PCI_ID_BYTES, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return true;
}

int machine_find_gpu(const struct machine *machine, const char *pci_id)
{
    char id[PCI_ID_BYTES];
    if (!read_pci_id(pci_id, id))
        return -1;
    for (int i = 0; i < machine->gpu_count; i++)
        if (strcmp(machine->gpus[i].pci.id, id) == 0)
            return i;
    return -1;
}

void machine_sort_levels(const struct machine *machine, enum domain_kind levels[DOMAIN_KINDS])
{
    const int *counts = machine->domain_count;
    for (int kind = 0; kind < DOMAIN_KINDS; kind++) {
        int at = kind;
        while (at > 0 && counts[levels[at - 1]] > counts[kind]) {
            levels[at] = levels[at - 1];
            at--;
        }
        levels[at] = (enum domain_kind)kind;
    }
}

struct bitmap machine_mems_of(const struct machine *machine, const struct bitmap *cpus)
{
    struct bitmap mems = {{0}};
    for (int i = 0; i < machine->domain_count[DOMAIN_NUMA]; i++) {
        const struct machine_domain *domain = &machine->domains[DOMAIN_NUMA][i];
        if (bitmap_intersects(&domain->cpus, cpus))
            bitmap_or(&mems, &domain->mems);
    }
    return mems;
}
