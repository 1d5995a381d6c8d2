/* peer_exchange.h: exchanges peer infos and the job's key by wire-up, as far as each rank needs them to find
 * the ranks of its node. */
#ifndef BOOTSTRAP_PEER_EXCHANGE_H
#define BOOTSTRAP_PEER_EXCHANGE_H

#include "bootstrap/node_card.h"
#include "bootstrap/peer_info.h"
#include "bootstrap/wireup.h"

/* The ranks that may share memory with this one. The lowest of them is to lead them. */
struct node_group {
    int member_count;
    struct node_card_member *members; /* ascending. On the leader all of them; on others the leader only, of
                                         which just the rank is known */
    struct start_report report;       /* on the leader: whether these ranks and rank 0 were started alike; on
                                         others: whether they can read what the leader has published */
};

/* Put this rank's [peer_info], and on rank 0 a new job key; fence; then find out, into [group] (zeroed),
 * which ranks may share memory with this one, and get the key. Where the launcher says who is on this node,
 * only the leader reads the infos of the others; else every rank reads those of all, fills [peer_table] with
 * them, and gets HVD_ERR_MISMATCH if a job-wide option differs anywhere. Collective. */
int peer_exchange(struct peer_table *peer_table, const struct wireup *wireup,
                  const struct peer_info *peer_info, int64_t deadline_us, struct node_group *group,
                  struct hvd_error *err);

/* A zeroed group is fine. */
void node_group_free(struct node_group *group);

/* Two ranks gave hvd_init_with different lists: writes the sentence, and returns HVD_ERR_MISMATCH. */
int peer_exchange_list_mismatch(const struct peer_info *peer_info, const struct peer_info *first,
                                struct hvd_error *err);

/* Let the ranks with [node_key] be reached by loopback, which needs no network interface. */
void peer_exchange_use_loopback(struct peer_table *peer_table, uint64_t node_key);

#endif
