/* nic.h: the network cards and interfaces of a node: which of them a job may use, and why not the others. */
#ifndef TOPO_NIC_H
#define TOPO_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bitmap.h"
#include "base/status.h"

#define PCI_ID_BYTES      20 /* "0000:17:00.0"; a domain may have eight digits */
#define PCI_MAX_BRIDGES   16
#define NIC_NAME_BYTES    16 /* of an interface, IFNAMSIZ */
#define NIC_VERBS_BYTES   64 /* of an RDMA device */
#define NIC_MAX           512
#define NIC_MAX_ADDRESSES 8

/* A device on PCI. */
struct pci_device {
    char id[PCI_ID_BYTES]; /* "0000:17:00.0" in small letters; "": not a PCI device */
    uint16_t class_id;     /* 0x0302 */
    uint16_t vendor, device;
    int64_t mbps;                 /* of its link to the bridge above; 0: unknown */
    int bridge_count;             /* bridges above it, */
    int bridges[PCI_MAX_BRIDGES]; /* outermost, the host bridge, first: numbers that are equal for the same
                                     bridge */
    struct bitmap cpus;           /* the CPUs near it; all where it tells none */
    struct bitmap mems;           /* the memory nodes near it */
};

enum nic_link { NIC_LINK_UNKNOWN, NIC_LINK_UP, NIC_LINK_DOWN };

enum nic_fabric { NIC_ETHERNET, NIC_INFINIBAND, NIC_OMNIPATH, NIC_OTHER };

struct nic_address {
    int family;              /* AF_INET or AF_INET6 */
    unsigned char bytes[16]; /* in network order */
    int prefix;              /* bits of the subnet */
};

/* Why an interface is not used. */
enum nic_exclusion {
    NIC_NOT_EXCLUDED,
    NIC_LOOPBACK,
    NIC_CONTAINER,   /* docker*, virbr*, br-*, veth*, cni*, podman*: leads to containers of this node only */
    NIC_NO_DEVICE,   /* a card for which no driver has made a device */
    NIC_DOWN,        /* its link is down */
    NIC_BOND_MEMBER, /* part of a bond, which is to be used instead */
    NIC_LINK_LOCAL,  /* has no address but link-local ones */
    NIC_SLOW,      /* less than half as fast as the fastest; good enough where nothing else joins the nodes */
    NIC_NOT_LISTED /* --hvd-nics names others */
};

/* One interface, RDMA device, or port of one. */
struct nic {
    struct pci_device pci;
    char netdev[NIC_NAME_BYTES]; /* "eth0", "ib0"; "": none */
    char verbs[NIC_VERBS_BYTES]; /* "mlx5_0", "hfi1_0"; "": none */
    int port;                    /* of the RDMA device, from 1; 0: unknown */
    enum nic_fabric fabric;
    enum nic_link link;
    int64_t mbps; /* of its link to the network; 0: unknown */
    bool loopback;
    char master[NIC_NAME_BYTES]; /* the bond it is part of; "": none */
    bool addresses_known;        /* false: nobody asked; true with a count of 0: it has none */
    int address_count;
    struct nic_address addresses[NIC_MAX_ADDRESSES];
    enum nic_exclusion exclusion; /* by nics_select */
    char why[160];                /* the same in words, of kept ones too */
};

/* What it is called: "mlx5_0", otherwise "eth0", otherwise its PCI id. */
const char *nic_name(const struct nic *nic);

/* What it carries, in Mb/s: by its link to the network and three quarters of its PCI link, as NCCL reckons;
 * 10000, as there, where neither is known. */
int64_t nic_mbps(const struct nic *nic);

bool nic_is_link_local(const struct nic_address *address);

/* Is it an interface with an address that is not link-local? */
bool nic_has_address(const struct nic *nic);

/* Is [own] an address of [nic], and [other] in the subnet of that? */
bool nic_shares_subnet(const struct nic *nic, const struct nic_address *own, const struct nic_address *other);

/* Decide for each of [nics] whether the job may use it: set its exclusion and why. [asked] is a value of
 * --hvd-nics, names and CIDRs separated by commas; NULL and "auto" mean all. A card that [asked] names is
 * kept unless it is down. Returns HVD_ERR_INVALID where an entry matches no card, with a sentence that lists
 * the cards; the decisions are then those of "auto". */
int nics_select(struct nic *nics, int count, const char *asked, struct hvd_error *err);

/* The one of [nics] with the interface [name] ("eth0"), or NULL. */
struct nic *nics_find_netdev(struct nic *nics, int count, const char *name);

/* Add to [nics], [count] of [max], what the node's /sys (at [sys], "/sys") knows of its interfaces and RDMA
 * devices: those on PCI are completed, others (bonds, bridges, virtual ones) are added. Returns the new
 * count. Files that cannot be read leave a thing unknown. */
int nics_read_sys(struct nic *nics, int count, int max, const char *sys);

/* The addresses of this process's network namespace, into [nics]. HVD_OK or HVD_ERR_SYSTEM. */
int nics_read_addresses(struct nic *nics, int count, struct hvd_error *err);

/* The interfaces and RDMA devices of this node as this process's network namespace has them, with addresses,
 * into [nics] of [max], by /sys (at [sys]) and the kernel; not judged. *countp: how many. HVD_OK or
 * HVD_ERR_SYSTEM. */
int nics_read_node(struct nic *nics, int max, const char *sys, int *countp, struct hvd_error *err);

#endif
