/* machine.h: a node as placement sees it: cores, the domains that they share, GPUs and network cards. Plain
 * data, so that the policies in plan/ are pure and need no hwloc.
 *
 * topo/ promises the rest of hvd: a machine (machine_load), a plan for its tasks (plan/plan.h,
 * node_placement.h), its application to a task (apply.h), explicit resource files (erf.h), and the choice of
 * network cards (nic.h). Only machine_load.c, machine_devices.c and machine_live.c know hwloc. */
#ifndef TOPO_MACHINE_H
#define TOPO_MACHINE_H

#include "topo/bitmap.h"
#include "base/status.h"
#include "topo/nic.h"

#define MACHINE_CORE_CPUS  8 /* hardware threads of a core */
#define MACHINE_MAX_GPUS   64
#define MACHINE_NAME_BYTES 64
#define MACHINE_XML_BYTES  (64 << 20) /* the longest XML */
#define MACHINE_VENDOR_AMD 0x1002     /* its PCI vendor id */

/* A domain is a group of cores that share something. Every core is in one domain of each kind. */
enum domain_kind {
    DOMAIN_PACKAGE,
    DOMAIN_NUMA, /* cores with the same local memory, be it one memory node or several kinds of memory */
    DOMAIN_L3,   /* the last level of cache; the NUMA domains again if the machine does not describe it */
    DOMAIN_KINDS
};

struct machine_domain {
    int os_index; /* of the package or the first memory node; a cache's position */
    struct bitmap cpus;
    struct bitmap mems; /* memory nodes of host memory near it */
    int64_t bytes;      /* memory or cache; 0: unknown */
};

struct machine_core {
    int os_index; /* unique only within its package */
    int domain[DOMAIN_KINDS];
    int cpu_count;
    int cpus[MACHINE_CORE_CPUS]; /* its hardware threads that are online, by the system's numbers */
};

struct machine_gpu {
    struct pci_device pci;
    char name[MACHINE_NAME_BYTES]; /* "GH100 [H100 SXM5 80GB]"; "": unknown */
    char uuid[48];                 /* "GPU-..."; "": unknown */
    char file[96];                 /* the file that programs open, "/dev/nvidia3"; "": unknown */
};

struct machine {
    char name[MACHINE_NAME_BYTES]; /* host name or product; "": unknown */
    struct bitmap cpus, mems;      /* all that are online; host memory only */
    struct bitmap
        allowed; /* the CPUs that this process may use, if loaded live; otherwise those that the XML allows */
    struct bitmap allowed_mems;
    int core_count; /* cores that are neighbours are next to each other */
    struct machine_core *cores;
    int domain_count[DOMAIN_KINDS]; /* domains of each kind, in the order of their cores */
    struct machine_domain *domains[DOMAIN_KINDS];
    bool has_l3;
    int gpu_count; /* GPUs, sorted by PCI id */
    struct machine_gpu gpus[MACHINE_MAX_GPUS];
    int nic_count; /* network cards by PCI id, then interfaces without one by name; nics_select has run on
                      them for --hvd-nics=auto */
    struct nic nics[NIC_MAX];
    int64_t numa_mbps; /* between NUMA nodes, by NCCL's table; 0: there is one node, or unknown */
};

/* Where to load a machine from. All zero: this node, its cores and PCI devices only. */
struct machine_source {
    const char *xml_path; /* a file that hwloc exported, */
    const char *xml;      /* or its text, [xml_bytes] long, valid during the call; */
    size_t xml_bytes;     /* both NULL: this node */
    bool cores_only;      /* leave out GPUs and network cards, which take most of the time */
    bool live;        /* the XML describes this very node: read from /sys and /proc the state of links, the
                         interfaces that are not on PCI, and the names of GPUs */
    const char *root; /* where [live] finds /sys and /proc, for tests; NULL: "" */
};

/* Load a machine by hwloc into *machinep. Free it with machine_destroy. HWLOC_PLUGINS_PATH must be set and
 * empty in the environment, otherwise hwloc may open libraries of GPU vendors and X11. Returns
 * HVD_ERR_INVALID for XML that is not a machine or exceeds the limits above, HVD_ERR_SYSTEM,
 * HVD_ERR_NO_MEMORY, or HVD_ERR_UNSUPPORTED if hwloc is not built in; *machinep is then unchanged. */
int machine_load(const struct machine_source *source, struct machine **machinep, struct hvd_error *err);

/* [machine] may be NULL. */
void machine_destroy(struct machine *machine);

/* The index of the GPU with that PCI id, or -1. Accepts capital letters, and a domain of eight or four digits
 * or none. */
int machine_find_gpu(const struct machine *machine, const char *pci_id);

/* Sort the kinds of domains from the outermost to the innermost: those with fewer domains enclose those with
 * more. Of kinds with equally many, packages come first and L3 caches last. */
void machine_sort_levels(const struct machine *machine, enum domain_kind levels[DOMAIN_KINDS]);

/* The memory nodes near [cpus]. */
struct bitmap machine_mems_of(const struct machine *machine, const struct bitmap *cpus);

#endif
