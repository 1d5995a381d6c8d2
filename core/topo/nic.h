/* nic.h: the network cards and interfaces of a node: which of them a job may use, and why not the others. */
#ifndef TOPO_NIC_H
#define TOPO_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/bitmap.h"
#include "base/status.h"

#define PCI_ID_BYTES      20 /* "0000:17:00.0"; a domain may have eight digits */
#define PCI_MAX_BRIDGES   16
#define NIC_NAME_BYTES    16 /* interface names, IFNAMSIZ */
#define NIC_VERBS_BYTES   64 /* names of RDMA devices */
#define NIC_MAX           512
#define NIC_MAX_ADDRESSES 8

/* A device on PCI. */
struct pci_device {
    char id[PCI_ID_BYTES]; /* "0000:17:00.0" in small letters; "": not a PCI device */
    uint16_t class_id;     /* 0x0302 */
    uint16_t vendor, device;
    int64_t mbps;                 /* bandwidth of its link to the bridge above; 0: unknown */
    int bridge_count;             /* bridges above it, */
    int bridges[PCI_MAX_BRIDGES]; /* the outermost, the host bridge, first: a number for each bridge, the same
                                     in all devices */
    struct bitmap cpus;           /* the CPUs near it; all CPUs if the device does not say */
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
    NIC_CONTAINER,   /* docker*, virbr*, br-*, veth*, cni*, podman*: leads only to containers of this node */
    NIC_NO_DEVICE,   /* a card for which no driver has created a device */
    NIC_DOWN,        /* its link is down */
    NIC_BOND_MEMBER, /* part of a bond, which is used instead */
    NIC_LINK_LOCAL,  /* has no address but link-local ones */
    NIC_SLOW, /* less than half as fast as the fastest, but good enough if nothing else joins the nodes */
    NIC_NOT_LISTED /* --hvd-nics names others */
};

/* One interface, RDMA device, or port of one. */
struct nic {
    struct pci_device pci;
    char netdev[NIC_NAME_BYTES]; /* "eth0", "ib0"; "": none */
    char verbs[NIC_VERBS_BYTES]; /* "mlx5_0", "hfi1_0"; "": none */
    int port;                    /* port of the RDMA device, from 1; 0: unknown */
    enum nic_fabric fabric;
    enum nic_link link;
    int64_t mbps; /* bandwidth of its link to the network; 0: unknown */
    bool loopback;
    char master[NIC_NAME_BYTES]; /* the bond of which it is a part; "": none */
    bool addresses_known;        /* false: not read; true with a count of 0: it has no address */
    int address_count;
    struct nic_address addresses[NIC_MAX_ADDRESSES];
    enum nic_exclusion exclusion; /* set by nics_select */
    char why[160];                /* the reason in words, also for those that are used */
};

/* The name to print: "mlx5_0", otherwise "eth0", otherwise its PCI id. */
const char *nic_name(const struct nic *nic);

/* Its bandwidth in Mb/s: the lesser of its link to the network and three quarters of its PCI link, as NCCL
 * computes it. 10000, as in NCCL, if neither is known. */
int64_t nic_mbps(const struct nic *nic);

bool nic_is_link_local(const struct nic_address *address);

/* Is it an interface with an address that is not link-local? */
bool nic_has_address(const struct nic *nic);

/* Is [own] an address of [nic], and [other] in the subnet of [own]? */
bool nic_shares_subnet(const struct nic *nic, const struct nic_address *own, const struct nic_address *other);

/* Decide for each of [nics] whether the job may use it: set its exclusion and why. [asked] is a value of
 * --hvd-nics, names and CIDRs separated by commas; NULL and "auto" mean all. A card that [asked] names is
 * used unless it is down. Returns HVD_ERR_INVALID if an entry matches no card, or only cards that are down,
 * with a sentence that lists the cards; the decisions are then those of "auto". */
int nics_select(struct nic *nics, int count, const char *asked, struct hvd_error *err);

/* The NIC with the interface [name] ("eth0"), or NULL. */
struct nic *nics_find_netdev(struct nic *nics, int count, const char *name);

/* Add what /sys (at [sys], "/sys") knows of the node's interfaces and RDMA devices to [nics], which holds
 * [count] of at most [max]. NICs on PCI are completed; others (bonds, bridges, virtual ones) are added.
 * Returns the new count. A file that cannot be read leaves its field unknown. */
int nics_read_sys(struct nic *nics, int count, int max, const char *sys);

/* Read the addresses in this process's network namespace into [nics]. Returns HVD_OK or HVD_ERR_SYSTEM. */
int nics_read_addresses(struct nic *nics, int count, struct hvd_error *err);

/* The same, but of the interfaces only those that this process's network namespace has, with their addresses:
 * /sys may show those of another. [nics] holds *countp, with NIC_MAX as the greatest [max]. Returns HVD_OK,
 * or HVD_ERR_SYSTEM with what was read so far. */
int nics_read_own(struct nic *nics, int max, const char *sys, int *countp, struct hvd_error *err);

/* Read the interfaces and RDMA devices of this node, as this process's network namespace has them and with
 * their addresses, into [nics] of [max], from /sys (at [sys]) and the kernel. nics_select has not run on
 * them. *countp: their number. Returns HVD_OK or HVD_ERR_SYSTEM. */
int nics_read_node(struct nic *nics, int max, const char *sys, int *countp, struct hvd_error *err);

#endif
