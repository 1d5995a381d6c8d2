/* nic_discovery.h: NIC discovery at a job's start: nodes publish their interfaces, probe them, and choose. */
#ifndef BOOTSTRAP_NIC_DISCOVERY_H
#define BOOTSTRAP_NIC_DISCOVERY_H

#include "net/probe.h"
#include "bootstrap/wireup.h"

/* A discovery under way. The leaders of the ranks that share memory take part; all ranks fence between its
 * steps. */
struct nic_discovery {
    int node_count;    /* nodes, each with network interfaces of its own; 1: there is nothing to discover */
    int node;          /* this rank's node */
    int *node_of_rank; /* [size] */
    int *first_ranks;  /* [node_count]: the rank that acts for each node */
    struct network_node *nodes;
    struct network_plan plan;
    struct probe probe;
    struct network_probe_result *probe_results;
    struct network_choice choice;
};

/* Find out from the peer table which ranks share interfaces. HVD_OK or HVD_ERR_NO_MEMORY. */
int nic_discovery_open(struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                       struct hvd_error *err);

/* 1. Each leader publishes its node's interfaces. */
int nic_discovery_publish(const struct peer_table *peer_table, const struct wireup *wireup,
                          const char *nic_filter, struct hvd_error *err);

/* 2. All leaders read them and make the same plan; the first ranks probe the rails and publish the results.
 */
int nic_discovery_probe(struct nic_discovery *nic_discovery, struct endpoint *endpoint,
                        const struct peer_table *peer_table, const struct wireup *wireup, int64_t deadline_us,
                        struct hvd_error *err);

/* 3. All leaders read the results and make the same choice: ranks of other nodes are then reached by the
 * addresses of the chosen rails, in their order. HVD_ERR_TIMEOUT if no network joins the nodes; rank 0
 * logs the table. */
int nic_discovery_choose(struct nic_discovery *nic_discovery, struct peer_table *peer_table,
                         const struct wireup *wireup, int64_t deadline_us, struct hvd_error *err);

/* A zeroed discovery is fine. */
void nic_discovery_close(struct nic_discovery *nic_discovery);

#endif
