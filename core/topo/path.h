/* path.h: distances of PCI devices from each other and from cores, in NCCL's classes. Pure. */
#ifndef TOPO_PATH_H
#define TOPO_PATH_H

#include "topo/machine.h"

/* Nearest first. */
enum path_type {
    PATH_PIX, /* at most one PCI switch between them */
    PATH_PXB, /* several PCI switches between them */
    PATH_PHB, /* through the processor, inside one NUMA node */
    PATH_SYS  /* across NUMA nodes */
};

/* In words, such as "behind the same PCI switch". */
const char *path_description(enum path_type type);

enum path_type path_between(const struct pci_device *a, const struct pci_device *b);

/* The bandwidth of the slowest link on the path from [gpu] to the network through [nic], in Mb/s: PCI links,
 * the link of [nic], and the link between NUMA nodes. */
int64_t path_mbps(const struct machine *machine, const struct machine_gpu *gpu, const struct nic *nic);

/* The distance from a device to cores: 0 in the same NUMA node (or the device does not say), 1 in the same
 * package, 2 in neither. */
int path_to_cpus(const struct machine *machine, const struct pci_device *pci, const struct bitmap *cpus);

#endif
