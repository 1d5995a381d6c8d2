/* nic_discovery.h: NIC discovery at a job's start: nodes publish their interfaces, probe them, and choose. */
#ifndef BOOTSTRAP_NIC_DISCOVERY_H
#define BOOTSTRAP_NIC_DISCOVERY_H

#include "net/probe.h"
#include "bootstrap/leader_exchange.h"
#include "net/nic_offer.h"

#define NIC_DISCOVERY_STEP "probed" /* of the reports that have the results */

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
    unsigned char result[PROBE_RESULT_BYTES]; /* of this node's probe, encoded */
    size_t result_length;                     /* 0: another rank acts for this node */
    struct network_probe_result *probe_results;
    struct network_choice choice;
};

/* 1. What this node offers, for its card: its length is in *lengthp. */
int nic_discovery_offer(const char *nic_filter, unsigned char bytes[NIC_OFFER_BYTES], size_t *lengthp,
                        struct hvd_error *err);

/* 2. All cards are known: find out from the peer table which ranks share interfaces, and read from [cards]
 * what the nodes offer. All leaders make the same plan of it. HVD_OK, HVD_ERR_INVALID or HVD_ERR_NO_MEMORY.
 */
int nic_discovery_open(struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                       const struct blob_list *cards, struct hvd_error *err);

/* 3. The first rank of each node probes the rails. All leaders report their result. */
int nic_discovery_probe(struct nic_discovery *nic_discovery, struct endpoint *endpoint,
                        const struct peer_table *peer_table, int64_t deadline_us, struct hvd_error *err);

/* 4. All leaders read the results from [reports], and make the same choice: ranks of other nodes are then
 * reached by the addresses of the chosen rails, in their order. HVD_ERR_TIMEOUT if no network joins the
 * nodes; rank 0 logs the table. */
int nic_discovery_choose(struct nic_discovery *nic_discovery, struct peer_table *peer_table,
                         const struct blob_list *reports, struct hvd_error *err);

/* A zeroed discovery is fine. */
void nic_discovery_close(struct nic_discovery *nic_discovery);

#endif
