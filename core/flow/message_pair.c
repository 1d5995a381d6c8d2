/* message_pair.c: how NCCL connects two ranks for messages from GPU to GPU. */
#include "flow/message_pair.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(P2P_CARD_BYTES == NCCL_CARD_WORDS * sizeof(int64_t), "a card has another length");

struct message_pair *message_pair_find(const struct message_direct *direct, int rank, bool sends)
{
    struct message_pair *pair = LIST_FIRST(&direct->pairs);
    while (pair != NULL && (pair->rank != rank || pair->sends != sends))
        pair = LIST_NEXT(pair, link);
    return pair;
}

int message_pair_need(struct message_direct *direct, int rank, bool sends, struct message_pair **pairp,
                      struct hvd_error *err)
{
    int own = direct->env->job->rank;
    struct message_pair *pair = message_pair_find(direct, rank, sends);
    *pairp = pair;
    if (pair != NULL)
        return HVD_OK;
    pair = calloc(1, sizeof(*pair));
    if (pair == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for messages with rank %d", rank);
    pair->rank = rank;
    pair->sends = sends;
    pair->ranks[0] = own < rank ? own : rank;
    pair->ranks[1] = own < rank ? rank : own;
    TAILQ_INIT(&pair->waiting);
    const struct team members = {.set = NCCL_PAIR, .rank = own > rank, .size = 2, .ranks = pair->ranks};
    int rc = nccl_team_create(gpu_nccl(direct->gpu), gpu_device(direct->gpu), &members,
                              direct->env->peer_table->node_of_rank[own], &pair->team, err);
    if (rc != HVD_OK) {
        free(pair);
        return rc;
    }
    LIST_INSERT_HEAD(&direct->pairs, pair, link);
    *pairp = pair;
    return HVD_OK;
}

int message_pair_hear(struct message_pair *pair, const char card[P2P_CARD_BYTES], struct hvd_error *err)
{
    if (pair->heard)
        return error_set(err, HVD_ERR_SYSTEM, "a second card");
    memcpy(pair->cards[pair->rank == pair->ranks[1]], card, P2P_CARD_BYTES);
    pair->heard = true;
    return HVD_OK;
}

static int tell_card(struct message_direct *direct, struct message_pair *pair, struct hvd_error *err)
{
    int64_t *card = pair->cards[pair->rank == pair->ranks[0]];
    int rc = nccl_team_write_card(pair->team, card, err);
    if (rc == HVD_OK)
        rc = p2p_send_card(direct->p2p, pair->rank, pair->sends, (const char *)card, err);
    pair->told = rc == HVD_OK;
    return rc;
}

/* Both ends see the same cards, and find the same. */
static int begin_to_connect(struct message_direct *direct, struct message_pair *pair, struct hvd_error *err)
{
    struct hvd_error why;
    int rc = nccl_team_connect(pair->team, pair->cards[0], &why);
    pair->stage = rc == HVD_OK ? PAIR_CONNECTS : PAIR_REFUSED;
    if (rc == HVD_ERR_UNSUPPORTED)
        log_write(direct->env->log, LOG_INFO, "messages",
                  "those of ranks %d and %d go through host memory: %s", pair->ranks[0], pair->ranks[1],
                  why.text);
    return rc == HVD_OK || rc == HVD_ERR_UNSUPPORTED ? HVD_OK : error_set(err, rc, "%s", why.text);
}

static int meet(struct message_direct *direct, struct message_pair *pair, bool *movedp, struct hvd_error *err)
{
    int rc = pair->told ? HVD_OK : tell_card(direct, pair, err);
    if (rc == HVD_OK && pair->heard) {
        *movedp = true;
        rc = begin_to_connect(direct, pair, err);
    }
    return rc;
}

int message_pair_connect(struct message_direct *direct, struct message_pair *pair, bool *movedp,
                         struct hvd_error *err)
{
    int rc = pair->stage == PAIR_MEETS ? meet(direct, pair, movedp, err) : HVD_OK;
    if (rc == HVD_OK && pair->stage == PAIR_CONNECTS) {
        rc = nccl_team_test(pair->team, err);
        if (rc == HVD_OK)
            pair->stage = PAIR_CONNECTED;
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

void message_pair_destroy(struct message_pair *pair)
{
    nccl_team_abort(pair->team);
    nccl_team_destroy(pair->team);
    free(pair);
}
