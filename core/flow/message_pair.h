/* message_pair.h: this rank, and one to which it sends messages from GPU to GPU, or from which it receives
 * them: how NCCL connects the two. */
#ifndef FLOW_MESSAGE_PAIR_H
#define FLOW_MESSAGE_PAIR_H

#include "flow/message_direct.h"

enum pair_stage { PAIR_MEETS, PAIR_CONNECTS, PAIR_CONNECTED, PAIR_REFUSED };

struct message_pair {
    LIST_ENTRY(message_pair) link;
    int rank; /* the other one */
    bool sends;
    int ranks[2];
    struct nccl_team *team;
    int64_t cards[2][NCCL_CARD_WORDS]; /* of the members */
    bool told, heard;                  /* own card, and the other's */
    enum pair_stage stage;
    struct message_list waiting; /* receives that are matched, or sends that are taken */
    struct message *moving;      /* the one that has been taken and has not ended */
};

/* NULL: there is none yet. */
struct message_pair *message_pair_find(const struct message_direct *direct, int rank, bool sends);

int message_pair_need(struct message_direct *direct, int rank, bool sends, struct message_pair **pairp,
                      struct hvd_error *err);

/* The other one has sent its card. HVD_ERR_SYSTEM with a phrase. */
int message_pair_hear(struct message_pair *pair, const char card[P2P_CARD_BYTES], struct hvd_error *err);

/* Go on until it is connected, or NCCL has refused that. */
int message_pair_connect(struct message_direct *direct, struct message_pair *pair, bool *movedp,
                         struct hvd_error *err);

/* Does not wait for the other one, which does not need this one any more. */
void message_pair_destroy(struct message_pair *pair);

#endif
