/* nic_filter.h: the values of --hvd-nics: names of network interfaces and RDMA devices, and subnets. Needs no
 * hwloc. */
#ifndef OPTIONS_NIC_FILTER_H
#define OPTIONS_NIC_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#define NIC_FILTER_MAX        32 /* entries in a value */
#define NIC_FILTER_NAME_BYTES 64

/* One entry: a name ("eth0", "mlx5_0"), or a subnet ("10.1.0.0/16", "fd00::/8"). */
struct nic_filter {
    char name[NIC_FILTER_NAME_BYTES]; /* as the user gave it */
    int family;                       /* of a subnet: AF_INET or AF_INET6; 0: it is a name */
    unsigned char bytes[16];
    int prefix;
};

extern const char nic_filter_expected[];

/* Read "a,b,10.0.0.0/8" into [entries] of NIC_FILTER_MAX; *countp is 0 for "auto". Returns 0; or -1 with
 * *countp unchanged and *whyp a phrase. */
int nic_filter_parse(const char *text, struct nic_filter *entries, int *countp, const char **whyp);

/* Does the name belong to an interface of containers or virtual machines: "docker0", "virbr0", "br-1a2b",
 * "veth3", ...? Many nodes have the same one, and it reaches none of them. */
bool nic_filter_is_virtual(const char *name);

/* Check a value as nic_filter_parse does, without storing it. */
int nic_filter_check(const char *text, const char **whyp);

#endif
