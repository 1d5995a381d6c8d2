/* card_exchange.h: the exchange of the nodes' cards among their leaders.
 *
 * Nobody knows the leaders before it has their cards. But the lowest rank of a node leads it, so the lowest
 * rank that is in no known card leads the next node. Where there are many nodes, a block of ranks takes the
 * place of a group of leaders (leader_exchange.h): the lowest leader in it hands on the cards of all leaders
 * in it. */
#ifndef BOOTSTRAP_CARD_EXCHANGE_H
#define BOOTSTRAP_CARD_EXCHANGE_H

#include "bootstrap/node_card.h"

struct card_exchange {
    struct leader_exchange exchange;
    int block; /* how many ranks are a block; all of them: each leader reads each card */
};

/* 1. Put what this rank has to say, before a fence: a leader its card, and another rank who leads it. */
int card_exchange_put(const struct leader_exchange *exchange, const struct node_card *mine,
                      struct hvd_error *err);

/* 2. On a leader, after the fence: determine the blocks, and hand on the cards of one if this is the lowest
 * leader in it; on failure, those that it has got. If there are several blocks, a second fence follows. */
int card_exchange_hand_on(struct card_exchange *cards, struct hvd_error *err);
bool card_exchange_has_two_rounds(const struct card_exchange *cards);

/* 3. Read the cards of all nodes into [list] (zeroed), and fill [peer_table] and [leaders] (zeroed) from
 * them; the caller frees the list and the ranks of the leaders. [own] is this rank's info. If some nodes
 * cannot go on, every leader gets the status and the sentence of the lowest of them. */
int card_exchange_read(const struct card_exchange *cards, const struct peer_info *own,
                       struct peer_table *peer_table, struct leader_list *leaders, struct blob_list *list,
                       struct hvd_error *err);

#endif
