/* node_card.h: what a node's leader publishes about its node, for the leaders of the other nodes; and its
 * encoding. */
#ifndef BOOTSTRAP_NODE_CARD_H
#define BOOTSTRAP_NODE_CARD_H

#include "bootstrap/leader_exchange.h"
#include "bootstrap/peer_info.h"
#include "bootstrap/start_report.h"
#include "net/nic_offer.h"

/* One rank of the node, as far as it differs from the leader. */
struct node_card_member {
    int32_t rank, pid;
    uint16_t port, message_port;
};

struct node_card {
    int leader;             /* the rank that leads the node. Other ranks put a card that says just this */
    struct peer_info *info; /* of the leader, without options; NULL: nothing follows */
    struct start_report report;
    uint64_t warnings; /* hvd_config.warnings of the leader */
    int member_count;
    struct node_card_member *members; /* the ranks that share memory, ascending, the leader first */
    const unsigned char *nics;        /* what nic_offer.h encodes; decoded: in the bytes */
    size_t nics_length;
};

/* Returns the length, or 0 if the card is longer than WIREUP_BLOB_BYTES. Pure. */
size_t node_card_encode(const struct node_card *card, unsigned char bytes[WIREUP_BLOB_BYTES]);

/* For tests: decode what [rank] has put in a job of [size] ranks, which allocates the info and the members,
 * for node_card_free: HVD_ERR_MISMATCH, HVD_ERR_INVALID or HVD_ERR_NO_MEMORY with a phrase such as "is cut
 * short" in [err]. Pure. */
int node_card_decode(struct node_card *card, int rank, int size, const unsigned char *bytes, size_t length,
                     struct hvd_error *err);

/* Decode an entry of a list of cards, with a sentence on failure. */
int node_card_of_entry(struct node_card *card, int size, const struct blob_entry *entry,
                       struct hvd_error *err);

/* A zeroed card is fine. */
void node_card_free(struct node_card *card);

#endif
