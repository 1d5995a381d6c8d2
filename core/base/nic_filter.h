/* nic_filter.h: the values of --hvd-nics: names of network interfaces and RDMA devices, and subnets. Needs no
 * hwloc. */
#ifndef BASE_NIC_FILTER_H
#define BASE_NIC_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#define NICS_MAX        32 /* entries of a value */
#define NICS_NAME_BYTES 64

/* One entry: a name ("eth0", "mlx5_0"), or a subnet ("10.1.0.0/16", "fd00::/8"). */
struct nics_entry {
    char name[NICS_NAME_BYTES]; /* as it was given */
    int family;                 /* AF_INET or AF_INET6 of a subnet; 0: it is a name */
    unsigned char bytes[16];
    int prefix;
};

extern const char nics_expected[];

/* Read "a,b,10.0.0.0/8" into [entries] of NICS_MAX; *countp is 0 for "auto". Returns 0; or -1 with *countp
 * unchanged and *whyp a phrase. */
int nics_parse(const char *text, struct nics_entry *entries, int *countp, const char **whyp);

/* Is it an interface of containers or virtual machines by its name: "docker0", "virbr0", "br-1a2b",
 * "veth3"...? The same on many nodes, and reaches none of them. */
bool nics_of_containers(const char *name);

/* nics_parse, checked only. */
int nics_check(const char *text, const char **whyp);

#endif
