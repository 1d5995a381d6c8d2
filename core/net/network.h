/* network.h: which interfaces join the nodes of a job: from what each node has, the one list of rails that
 * all ranks try, and from what came of it, the one choice. Pure. A node here is a network namespace: what
 * shares its interfaces. */
#ifndef NET_NETWORK_H
#define NET_NETWORK_H

#include <netinet/in.h>

#include "base/status.h"
#include "base/tree_shape.h"
#include "net/network_env.h"
#include "topo/nic.h"

#define NETWORK_MAX_NICS      32 /* that a node tells others of */
#define NETWORK_MAX_ADDRESSES 4  /* of one of them */
#define NETWORK_MAX_RAILS     8  /* that are tried */
#define NETWORK_WHY_BYTES     160

enum network_verdict { NETWORK_KEPT, NETWORK_SLOW, NETWORK_DROPPED };

struct network_address {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d, prefix + 96; never link-local */
    int prefix_bits;
};

/* An interface, RDMA device, or port of one, as its node tells it. */
struct network_nic {
    char name[NIC_NAME_BYTES];   /* of the interface; "": none */
    char verbs[NIC_VERBS_BYTES]; /* of the RDMA device; "": none */
    int port;                    /* of the RDMA device, from 1; 0: unknown */
    enum network_verdict verdict;
    char why[NETWORK_WHY_BYTES]; /* of the verdict */
    int64_t mbps;
    int address_count;
    struct network_address addresses[NETWORK_MAX_ADDRESSES];
};

struct network_node {
    const char *host; /* borrowed */
    int nic_count;    /* best first */
    struct network_nic *nics;
    int left_out;                  /* dropped ones that it does not tell of */
    char *settings[NIC_ENV_COUNT]; /* what the user gave; NULL: nothing */
};

/* A rail: an interface on each node, that are to reach each other. */
struct network_rail {
    struct network_address net; /* the subnet that they share; prefix_bits 0: none, by routers */
    int64_t mbps;               /* of its slowest interface */
    bool slow;                  /* a node has something better */
};

/* Where a node is on a rail. */
struct network_rail_nic {
    int nic;     /* index into its nics */
    int address; /* and into the addresses of that */
};

struct network_plan {
    int node_count;
    int rail_count;
    struct network_rail rails[NETWORK_MAX_RAILS]; /* fastest first */
    struct network_rail_nic *rail_nics;           /* [node * NETWORK_MAX_RAILS + rail] */
};

/* The rails to try: the subnets that all nodes have, where no two nodes have the same address; where there is
 * none, the nodes' first, second, ... interfaces, for routers may join them. HVD_OK or HVD_ERR_NO_MEMORY. */
int network_plan(const struct network_node *nodes, int node_count, struct network_plan *plan);
void network_plan_close(struct network_plan *plan); /* a zeroed one is fine */

const struct network_rail_nic *network_rail_nic(const struct network_plan *plan, int node, int rail);

/* Is [address] one that [node] may send from on that rail? */
bool network_owns_address(const struct network_plan *plan, const struct network_node *nodes, int node,
                          int rail, const struct in6_addr *address);

/* Whom [node] tries on each rail: the next node, the node before, its parent and children in the control
 * tree, none twice in one direction. Returns how many, at most NETWORK_MAX_EDGES; or HVD_ERR_NO_MEMORY. */
#define NETWORK_MAX_EDGES (2 + TREE_MAX_LINKS)
struct network_edge {
    int node;
    bool connect; /* we connect to it; else it connects to us */
    bool ring;    /* else along the tree */
};
int network_probe_edges(int node, int node_count, struct network_edge edges[NETWORK_MAX_EDGES]);

/* What a node says of each rail after it has tried. */
struct network_probe_result {
    char why[NETWORK_MAX_RAILS][NETWORK_WHY_BYTES]; /* it did not work there; "": it did */
};

/* The rails that worked everywhere, fastest first; of slow ones only where nothing else did. */
struct network_choice {
    int rail_count; /* 0: nothing joins the nodes */
    int rails[NETWORK_MAX_RAILS];
};
void network_choose(const struct network_plan *plan, const struct network_probe_result *probe_results,
                    struct network_choice *choice);

/* Where nothing joins the nodes: the nodes, their interfaces, and why each does not serve, as lines to
 * [line]; first those that were tried. At most NETWORK_TABLE_LINES, the last of which says how many more
 * there are. */
#define NETWORK_TABLE_LINES 50
void network_table(const struct network_node *nodes, const struct network_plan *plan,
                   const struct network_probe_result *probe_results,
                   void (*line)(void *arg, const char *text), void *arg);

/* "10.0.0.0/24" */
#define NETWORK_SUBNET_BYTES 64
const char *network_subnet_text(const struct network_address *net, char text[NETWORK_SUBNET_BYTES]);

#endif
