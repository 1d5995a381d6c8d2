/* machine_devices.c: translate the GPUs and network cards of an hwloc topology. */
#include "topo/machine_hwloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VENDOR_NVIDIA 0x10de

/* Graphics chips of server consoles, made by the company that AMD bought: ES1000, Radeon 7000, Rage XL. Not
 * GPUs for us. */
static const uint16_t amd_screens[] = {0x515e, 0x515f, 0x5969, 0x5159, 0x4752, 0x4753, 0x474d};

static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    bool display = pci->class_id == 0x0300 || pci->class_id == 0x0302 || pci->class_id == 0x0380;
    if (!display && pci->class_id != 0x1200)
        return false;
    for (size_t i = 0; i < sizeof(amd_screens) / sizeof(amd_screens[0]); i++)
        if (pci->vendor_id == MACHINE_VENDOR_AMD && pci->device_id == amd_screens[i])
            return false;
    return pci->vendor_id == VENDOR_NVIDIA || pci->vendor_id == MACHINE_VENDOR_AMD;
}

static bool is_network(const struct hwloc_pcidev_attr_s *pci)
{
    return pci->class_id >> 8 == 0x02 || pci->class_id == 0x0c06;
}

/* Set the bridges above a device, and the CPUs and memory near it. */
static void set_locality(struct pci_device *pci, const struct machine *machine, hwloc_obj_t object)
{
    int above[64];
    int count = 0;
    hwloc_obj_t up = object->parent;
    for (; up != NULL && hwloc_obj_type_is_io(up->type); up = up->parent)
        if (up->type == HWLOC_OBJ_BRIDGE && count < 64)
            above[count++] = (int)up->logical_index;
    while (count > 0 && pci->bridge_count < PCI_MAX_BRIDGES)
        pci->bridges[pci->bridge_count++] = above[--count];
    if (up == NULL || bitmap_from_hwloc(up->cpuset, &pci->cpus) < 0 || bitmap_is_empty(&pci->cpus))
        pci->cpus = machine->cpus;
    bitmap_and(&pci->cpus, &machine->cpus);
    pci->mems = machine_mems_of(machine, &pci->cpus);
}

/* [object] is a PCI device. */
static void translate_pci(struct pci_device *pci, const struct machine *machine, hwloc_obj_t object)
{
    const struct hwloc_pcidev_attr_s *from = &object->attr->pcidev;
    *pci =
        (struct pci_device){.class_id = from->class_id, .vendor = from->vendor_id, .device = from->device_id};
    snprintf(pci->id, sizeof(pci->id), "%04x:%02x:%02x.%x", (unsigned int)from->domain, from->bus, from->dev,
             from->func);
    if (from->linkspeed > 0 && from->linkspeed < 10000)
        pci->mbps = (int64_t)((double)from->linkspeed * 8000);
    set_locality(pci, machine, object);
}

/* ---- GPUs ---- */

static int add_gpu(struct machine *machine, hwloc_obj_t object, struct hvd_error *err)
{
    if (machine->gpu_count == MACHINE_MAX_GPUS)
        return error_set(err, HVD_ERR_INVALID, "the topology has more than %d GPUs; that is not supported",
                         MACHINE_MAX_GPUS);
    struct machine_gpu *gpu = &machine->gpus[machine->gpu_count++];
    translate_pci(&gpu->pci, machine, object);
    copy_printable(gpu->name, sizeof(gpu->name), object_info(object, "PCIDevice"));
    for (hwloc_obj_t i = object->io_first_child; i != NULL; i = i->next_sibling) {
        const char *nvidia = object_info(i, "NVIDIAUUID");
        const char *uuid = nvidia[0] != 0 ? nvidia : object_info(i, "AMDUUID");
        if (uuid[0] != 0)
            copy_printable(gpu->uuid, sizeof(gpu->uuid), uuid);
    }
    return HVD_OK;
}

/* ---- Network cards ---- */

static bool is_osdev(hwloc_obj_t object, hwloc_obj_osdev_type_t type)
{
    return object->type == HWLOC_OBJ_OS_DEVICE && object->attr->osdev.type == type;
}

/* The [nth] OS device of that type below a PCI device, or NULL. */
static hwloc_obj_t nth_osdev(hwloc_obj_t object, hwloc_obj_osdev_type_t type, int nth)
{
    hwloc_obj_t i = object->io_first_child;
    while (i != NULL && (!is_osdev(i, type) || nth-- > 0))
        i = i->next_sibling;
    return i;
}

static struct nic *new_nic(struct machine *machine, struct hvd_error *err)
{
    if (machine->nic_count == NIC_MAX) {
        error_set(err, HVD_ERR_INVALID,
                  "the topology has more than %d network devices; that is not supported", NIC_MAX);
        return NULL;
    }
    return &machine->nics[machine->nic_count++];
}

/* An RDMA device reports the state of its port; 4 is active. */
static void add_verbs(struct nic *nic, hwloc_obj_t verbs)
{
    char key[32];
    copy_printable(nic->verbs, sizeof(nic->verbs), verbs->name != NULL ? verbs->name : "");
    if (strncmp(nic->verbs, "hfi", 3) == 0)
        nic->fabric = NIC_OMNIPATH;
    snprintf(key, sizeof(key), "Port%dState", nic->port > 0 ? nic->port : 1);
    const char *state = object_info(verbs, key);
    if (state[0] != 0)
        nic->link = strcmp(state, "4") == 0 ? NIC_LINK_UP : NIC_LINK_DOWN;
}

static enum nic_fabric fabric_of(const struct hwloc_pcidev_attr_s *pci)
{
    switch (pci->class_id) {
    case 0x0200:
        return NIC_ETHERNET;
    case 0x0207:
    case 0x0c06:
        return NIC_INFINIBAND;
    case 0x0208:
        return NIC_OMNIPATH;
    default:
        return NIC_OTHER;
    }
}

/* Add as many NICs as the card has interfaces or RDMA devices, whichever are more. The first interface goes
 * with the first RDMA device, and so on. A card with one RDMA device of several ports has that device in each
 * NIC. */
static int add_nics(struct machine *machine, hwloc_obj_t object, struct hvd_error *err)
{
    for (int nth = 0;; nth++) {
        hwloc_obj_t netdev = nth_osdev(object, HWLOC_OBJ_OSDEV_NETWORK, nth);
        hwloc_obj_t verbs = nth_osdev(object, HWLOC_OBJ_OSDEV_OPENFABRICS, nth);
        if (netdev == NULL && verbs == NULL && nth > 0)
            return HVD_OK;
        if (netdev == NULL && verbs == NULL && !is_network(&object->attr->pcidev))
            return HVD_OK;
        struct nic *nic = new_nic(machine, err);
        if (nic == NULL)
            return HVD_ERR_INVALID;
        translate_pci(&nic->pci, machine, object);
        nic->fabric = fabric_of(&object->attr->pcidev);
        if (netdev != NULL) {
            copy_printable(nic->netdev, sizeof(nic->netdev), netdev->name != NULL ? netdev->name : "");
            nic->port = (int)strtol(object_info(netdev, "Port"), NULL, 10);
        }
        if (verbs == NULL && nth > 0)
            verbs = nth_osdev(object, HWLOC_OBJ_OSDEV_OPENFABRICS, 0);
        if (verbs != NULL)
            add_verbs(nic, verbs);
    }
}

/* Add an interface that is not on PCI, such as one of a virtual machine. */
static int add_other_nic(struct machine *machine, hwloc_obj_t object, struct hvd_error *err)
{
    struct nic *nic = new_nic(machine, err);
    if (nic == NULL)
        return HVD_ERR_INVALID;
    *nic = (struct nic){.fabric = NIC_OTHER};
    copy_printable(nic->netdev, sizeof(nic->netdev), object->name != NULL ? object->name : "");
    set_locality(&nic->pci, machine, object);
    return HVD_OK;
}

int machine_add_devices(struct machine *machine, hwloc_topology_t topology, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (hwloc_obj_t i = hwloc_get_next_pcidev(topology, NULL); rc == HVD_OK && i != NULL;
         i = hwloc_get_next_pcidev(topology, i))
        rc = is_gpu(&i->attr->pcidev) ? add_gpu(machine, i, err) : add_nics(machine, i, err);
    for (hwloc_obj_t i = hwloc_get_next_osdev(topology, NULL); rc == HVD_OK && i != NULL;
         i = hwloc_get_next_osdev(topology, i))
        if (is_osdev(i, HWLOC_OBJ_OSDEV_NETWORK) && i->parent->type != HWLOC_OBJ_PCI_DEVICE)
            rc = add_other_nic(machine, i, err);
    return rc;
}
