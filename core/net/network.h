/* network.h: which interfaces join the nodes of a job. From what each node has it plans the rails, the
 * same on all ranks, and from the results of the probe it makes the choice, also the same. Pure. A node
 * here is a network namespace: its ranks share their interfaces.
 *
 * The folder net promises the others connections: sockets between any two ranks, both of which have proved
 * that they hold the job's key, over networks that were found to work. endpoint.h listens,
 * establishment.h connects; address.h orders addresses; peer_table.h says who the ranks are and where they
 * listen; frame.h cuts the streams of the control tree into frames. nic_offer.h, network.h and probe.h are
 * the stages that find the working networks: what a node has, what to try, and trying it. network_env.h and
 * env_export.h pass the choice to other libraries. Who calls them in which order is in bootstrap. */
#ifndef NET_NETWORK_H
#define NET_NETWORK_H

#include <netinet/in.h>

#include "base/status.h"
#include "base/tree_shape.h"
#include "net/network_env.h"
#include "topo/nic.h"

#define NETWORK_MAX_NICS      32 /* that a node publishes */
#define NETWORK_MAX_ADDRESSES 4  /* of one NIC */
#define NETWORK_MAX_RAILS     8  /* that the probe tries */
#define NETWORK_WHY_BYTES     160

enum network_use { NETWORK_KEPT, NETWORK_SLOW, NETWORK_DROPPED };

struct network_address {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d, prefix + 96; never link-local */
    int prefix_bits;
};

/* An interface, an RDMA device or one port of it, as its node publishes it. */
struct network_nic {
    char name[NIC_NAME_BYTES];   /* of the interface; "": none */
    char verbs[NIC_VERBS_BYTES]; /* of the RDMA device; "": none */
    int port;                    /* of the RDMA device, from 1; 0: unknown */
    enum network_use use;
    char why[NETWORK_WHY_BYTES]; /* the reason for [use] */
    int64_t mbps;
    int address_count;
    struct network_address addresses[NETWORK_MAX_ADDRESSES];
};

struct network_node {
    const char *host; /* must outlive this struct */
    int nic_count;    /* best first */
    struct network_nic *nics;
    int left_out;                  /* NICs that it does not publish: those after the best NETWORK_MAX_NICS */
    char *settings[NIC_ENV_COUNT]; /* what the user set; NULL: nothing */
};

/* A rail: one interface on each node; they should reach each other. */
struct network_rail {
    struct network_address
        net;      /* the subnet that they share; prefix_bits 0: none, but routers may join them */
    int64_t mbps; /* of its slowest interface */
    bool slow;    /* some node has a much faster NIC */
};

/* The interface and address of a node on a rail. */
struct network_rail_nic {
    int nic;     /* index into its nics */
    int address; /* index into the addresses of that NIC */
};

/* Two nodes that have the same address in a subnet of all nodes, which is no rail for that. */
struct network_clash {
    struct in6_addr address;
    int nodes[2]; /* equal: no such subnet was found */
    bool on_all;  /* all nodes have the address: of a bridge of their own, or there are only two nodes */
};

struct network_plan {
    int node_count;
    int rail_count;
    struct network_rail rails[NETWORK_MAX_RAILS]; /* fastest first */
    struct network_rail_nic *rail_nics;           /* [node * NETWORK_MAX_RAILS + rail] */
    struct network_clash clash;                   /* the first one; before it one that is not on all nodes */
};

/* Plan the rails to try: the subnets that all nodes have and in which no two nodes have the same address.
 * If there is none, the rails are the nodes' first, second, ... interfaces, as routers may join them.
 * HVD_OK or HVD_ERR_NO_MEMORY. */
int network_plan(const struct network_node *nodes, int node_count, struct network_plan *plan);
void network_plan_close(struct network_plan *plan); /* a zeroed plan is fine */

const struct network_rail_nic *network_rail_nic(const struct network_plan *plan, int node, int rail);

/* May [node] send from [address] on that rail? */
bool network_owns_address(const struct network_plan *plan, const struct network_node *nodes, int node,
                          int rail, const struct in6_addr *address);

/* The nodes with which [node] tries each rail: the next node, the node before, and its parent and children
 * in the control tree; none appears twice in one direction. Returns how many, at most NETWORK_MAX_EDGES;
 * or HVD_ERR_NO_MEMORY. */
#define NETWORK_MAX_EDGES (2 + TREE_MAX_LINKS)
struct network_edge {
    int node;
    bool connect; /* this node connects to it; else it connects to this node */
    bool ring;    /* a neighbour in the ring of nodes; else in the tree */
};
int network_probe_edges(int node, int node_count, struct network_edge edges[NETWORK_MAX_EDGES]);

/* What a node publishes about each rail after the probe. */
struct network_probe_result {
    char why[NETWORK_MAX_RAILS][NETWORK_WHY_BYTES]; /* why the rail did not work there; "": it worked */
};

/* The rails that worked on all nodes, fastest first. Slow rails are used only if no other worked. */
struct network_choice {
    int rail_count; /* 0: no network joins the nodes */
    int rails[NETWORK_MAX_RAILS];
};
void network_choose(const struct network_plan *plan, const struct network_probe_result *probe_results,
                    struct network_choice *choice);

/* When no network joins the nodes: pass a table of the nodes, their interfaces, and why each is not used
 * to [line], one line a call; interfaces that were tried come first. There are at most NETWORK_TABLE_LINES
 * lines, and the last one says how many interfaces were left out. */
#define NETWORK_TABLE_LINES 50
void network_table(const struct network_node *nodes, const struct network_plan *plan,
                   const struct network_probe_result *probe_results,
                   void (*line)(void *arg, const char *text), void *arg);

/* "10.0.0.0/24" */
#define NETWORK_SUBNET_BYTES 64
const char *network_subnet_text(const struct network_address *net, char text[NETWORK_SUBNET_BYTES]);

#endif
