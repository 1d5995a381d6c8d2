/* path.c: distances of PCI devices from each other and from cores. */
#include "topo/path.h"

const char *path_description(enum path_type type)
{
    static const char *const words[] = {[PATH_PIX] = "behind the same PCI switch",
                                        [PATH_PXB] = "behind several PCI switches",
                                        [PATH_PHB] = "of the same NUMA node",
                                        [PATH_SYS] = "of another NUMA node"};
    return words[type];
}

/* hwloc shows a switch as two bridges: its upstream port, and the downstream port that leads to the device.
 * Above the first is the root port, and above that the host bridge. */
enum path_type path_between(const struct pci_device *a, const struct pci_device *b)
{
    int common = 0;
    while (common < a->bridge_count && common < b->bridge_count && a->bridges[common] == b->bridges[common])
        common++;
    if (common > 1)
        return a->bridge_count - common <= 1 && b->bridge_count - common <= 1 ? PATH_PIX : PATH_PXB;
    return bitmap_intersects(&a->cpus, &b->cpus) ? PATH_PHB : PATH_SYS;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return b > 0 && b < a ? b : a;
}

int64_t path_mbps(const struct machine *machine, const struct machine_gpu *gpu, const struct nic *nic)
{
    int64_t mbps = lesser(nic_mbps(nic), gpu->pci.mbps / 4 * 3);
    return path_between(&gpu->pci, &nic->pci) == PATH_SYS ? lesser(mbps, machine->numa_mbps) : mbps;
}

int path_to_cpus(const struct machine *machine, const struct pci_device *pci, const struct bitmap *cpus)
{
    if (bitmap_intersects(&pci->cpus, cpus))
        return 0;
    for (int i = 0; i < machine->domain_count[DOMAIN_PACKAGE]; i++) {
        const struct bitmap *package = &machine->domains[DOMAIN_PACKAGE][i].cpus;
        if (bitmap_intersects(package, &pci->cpus) && bitmap_intersects(package, cpus))
            return 1;
    }
    return 2;
}
