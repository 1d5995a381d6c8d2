/* node_card.h: what a node's leader publishes about its node, for the leaders of the other nodes; its
 * encoding, and the exchange of all cards. */
#ifndef BOOTSTRAP_NODE_CARD_H
#define BOOTSTRAP_NODE_CARD_H

#include "bootstrap/peer_info.h"
#include "bootstrap/start_report.h"

/* One rank of the node, as far as it differs from the leader. */
struct node_card_member {
    int32_t rank, pid;
    uint16_t port;
};

struct node_card {
    struct peer_info *info; /* of the leader */
    struct start_report report;
    uint64_t warnings; /* hvd_config.warnings of the leader */
    int member_count;
    struct node_card_member *members; /* the ranks that share memory, ascending, the leader first */
};

/* Encode: the length, or 0 if the card is longer than WIREUP_BLOB_BYTES. Decode a card of rank [leader] in a
 * job of [size] ranks, which allocates the info and the members, for node_card_free: HVD_ERR_MISMATCH,
 * HVD_ERR_INVALID or HVD_ERR_NO_MEMORY with a phrase such as "is cut short" in [err]. Pure. */
size_t node_card_encode(const struct node_card *card, unsigned char bytes[WIREUP_BLOB_BYTES]);
int node_card_decode(struct node_card *card, int leader, int size, const unsigned char *bytes, size_t length,
                     struct hvd_error *err);

/* A zeroed card is fine. */
void node_card_free(struct node_card *card);

/* Publish [mine], pass a fence, and read the cards of all nodes, from which [peer_table] is filled and
 * [leaders] (zeroed) made; the caller frees its ranks. If some nodes cannot go on, every leader gets the
 * status and the sentence of the lowest of them. Only leaders call it, and ranks that share memory with no
 * other. */
int node_card_exchange(struct peer_table *peer_table, struct leader_list *leaders,
                       const struct wireup *wireup, const struct node_card *mine, int64_t deadline_us,
                       struct hvd_error *err);

#endif
