/* nic_discovery.h: the network part of a job's start: tell the interfaces of each node, try them, and choose.
 */
#ifndef BOOTSTRAP_NIC_DISCOVERY_H
#define BOOTSTRAP_NIC_DISCOVERY_H

#include "net/probe.h"
#include "bootstrap/wireup.h"

/* A nic_discovery under way. Between its steps all ranks fence. */
struct nic_discovery {
    int node_count;    /* that have network interfaces of their own; 1: there is nothing to do */
    int node;          /* ours */
    int *node_of_rank; /* [size] */
    int *first_ranks;  /* [node_count], the rank that acts for each */
    struct network_node *nodes;
    struct network_plan plan;
    struct probe probe;
    struct network_probe_result *probe_results;
    struct network_choice choice;
};

/* Who shares interfaces with whom, by the cards of all ranks. HVD_OK or HVD_ERR_NO_MEMORY. */
int nic_discovery_open(struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                       struct hvd_error *err);

/* 1. The first rank of each node puts what it has. */
int nic_discovery_publish(const struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                          const struct wireup *wireup, const char *nic_filter, struct hvd_error *err);

/* 2. All read that and plan alike; the first ranks try the rails, and put what came of it. */
int nic_discovery_probe(struct nic_discovery *nic_discovery, struct endpoint *endpoint,
                        const struct peer_table *peer_table, const struct wireup *wireup, int64_t deadline_us,
                        struct hvd_error *err);

/* 3. All read that and choose alike: ranks of other nodes are reached by the addresses of the rails chosen,
 * in their order. HVD_ERR_TIMEOUT where nothing joins the nodes; rank 0 writes the table. */
int nic_discovery_choose(struct nic_discovery *nic_discovery, struct peer_table *peer_table,
                         const struct wireup *wireup, int64_t deadline_us, struct hvd_error *err);

/* A zeroed one is fine. */
void nic_discovery_close(struct nic_discovery *nic_discovery);

#endif
