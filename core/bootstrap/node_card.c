/* node_card.c: what a node's leader publishes about its node, for the leaders of the other nodes; its
 * encoding, and the exchange of all cards. */
#include "bootstrap/node_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "bootstrap/peer_exchange.h"

#define NODE_CARD_MAGIC UINT32_C(0x6e647668) /* "hvdn" */
#define HEAD_BYTES      8                    /* the magic number, and how long the leader's peer info is */

_Static_assert(HEAD_BYTES + PEER_INFO_BYTES <= WIREUP_BLOB_BYTES, "the longest peer info fits in a card");

/* ---- Encoding ---- */

size_t node_card_encode(const struct node_card *card, unsigned char bytes[WIREUP_BLOB_BYTES])
{
    unsigned char report[START_REPORT_BYTES];
    size_t info_length = peer_info_encode(card->info, bytes + HEAD_BYTES);
    size_t report_length = start_report_encode(&card->report, report);
    struct encoder encoder = {bytes, WIREUP_BLOB_BYTES, false};
    encode_number(&encoder, NODE_CARD_MAGIC, 4);
    encode_number(&encoder, info_length, 4);
    encoder.at += info_length;
    encoder.left -= info_length;
    encode_number(&encoder, report_length, 4);
    encode_raw(&encoder, report, report_length);
    encode_number(&encoder, card->warnings, 8);
    encode_number(&encoder, (uint32_t)card->member_count, 4);
    for (int i = 0; i < card->member_count; i++) {
        encode_number(&encoder, (uint32_t)card->members[i].rank, 4);
        encode_number(&encoder, (uint32_t)card->members[i].pid, 4);
        encode_number(&encoder, card->members[i].port, 2);
    }
    return encoder.failed ? 0 : WIREUP_BLOB_BYTES - encoder.left;
}

/* The members ascend from the leader. */
static void decode_members(struct decoder *decoder, struct node_card *card, int leader, int size)
{
    for (int i = 0; i < card->member_count; i++) {
        struct node_card_member *member = &card->members[i];
        member->rank = (int32_t)decode_at_most(decoder, 4, (uint64_t)size - 1);
        member->pid = (int32_t)decode_at_most(decoder, 4, INT32_MAX);
        member->port = (uint16_t)decode_number(decoder, 2);
        decode_check(decoder, i == 0 ? member->rank == leader : member->rank > card->members[i - 1].rank);
        decode_check(decoder, member->pid > 0 && member->port > 0);
    }
}

int node_card_decode(struct node_card *card, int leader, int size, const unsigned char *bytes, size_t length,
                     struct hvd_error *err)
{
    struct decoder decoder = {bytes, length, false};
    struct node_card read = {.info = NULL, .members = NULL};
    bool known = decode_number(&decoder, 4) == NODE_CARD_MAGIC;
    size_t info_length = (size_t)decode_at_most(&decoder, 4, PEER_INFO_BYTES);
    const unsigned char *info = decode_view(&decoder, info_length);
    size_t report_length = (size_t)decode_at_most(&decoder, 4, START_REPORT_BYTES);
    const unsigned char *report = decode_view(&decoder, report_length);
    read.warnings = decode_number(&decoder, 8);
    read.member_count = (int)decode_at_most(&decoder, 4, (uint64_t)size);
    if (!known)
        return error_set(err, HVD_ERR_INVALID, "is not one of hvd");
    if (decoder.failed || read.member_count < 1)
        return error_set(err, HVD_ERR_INVALID, "is cut short or damaged");
    read.info = malloc(sizeof(*read.info));
    read.members = calloc((size_t)read.member_count, sizeof(*read.members));
    int rc = HVD_OK;
    if (read.info == NULL || read.members == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "has %d ranks, too many for this process's memory",
                       read.member_count);
    if (rc == HVD_OK)
        rc = peer_info_decode(read.info, info, info_length, err);
    if (rc == HVD_OK) {
        decode_members(&decoder, &read, leader, size);
        if (decoder.failed || decoder.left > 0 ||
            start_report_decode(&read.report, report, report_length) != HVD_OK)
            rc = error_set(err, HVD_ERR_INVALID, "is cut short or damaged");
    }
    if (rc == HVD_OK)
        *card = read;
    else
        node_card_free(&read);
    return rc;
}

void node_card_free(struct node_card *card)
{
    free(card->info);
    free(card->members);
    card->info = NULL;
    card->members = NULL;
    card->member_count = 0;
}

/* ---- Exchange ---- */

/* One leader's exchange under way. */
struct card_exchange {
    struct peer_table *peer_table;
    struct leader_list *leaders;
    const struct wireup *wireup;
    bool *known; /* [size]: the rank is on a node whose card was read */
    int64_t deadline_us;
};

static int put_card(const struct peer_table *peer_table, const struct wireup *wireup,
                    const struct node_card *mine, struct hvd_error *err)
{
    char name[64];
    unsigned char *bytes = malloc(WIREUP_BLOB_BYTES);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the card of a node of %d ranks",
                         mine->member_count);
    size_t length = node_card_encode(mine, bytes);
    job_key_blob_name(peer_table, "node", name);
    int rc = length == 0 ? error_set(err, HVD_ERR_UNSUPPORTED,
                                     "%d ranks of one node are more than fit in a card of %d bytes",
                                     mine->member_count, WIREUP_BLOB_BYTES)
                         : wireup->ops->put(wireup->state, name, bytes, length, err);
    free(bytes);
    return rc;
}

static int get_card(const struct card_exchange *exchange, int leader, struct node_card *card,
                    struct hvd_error *err)
{
    const struct peer_table *peer_table = exchange->peer_table;
    const struct wireup *wireup = exchange->wireup;
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error why = {""};
    job_key_blob_name(peer_table, "node", name);
    int rc = wireup->ops->get(wireup->state, leader, name, exchange->deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    rc = node_card_decode(card, leader, peer_table->size, blob.bytes, blob.length, &why);
    free(blob.bytes);
    if (rc != HVD_OK)
        error_set(err, rc, "the card of the node that rank %d leads %s", leader, why.text);
    return rc;
}

/* Enter the ranks of a card. HVD_ERR_INVALID if another node has one of them already. */
static int enter_card(const struct card_exchange *exchange, int leader, const struct node_card *card,
                      struct hvd_error *err)
{
    struct peer_table *peer_table = exchange->peer_table;
    bool *known = exchange->known;
    for (int i = 0; i < card->member_count; i++) {
        const struct node_card_member *member = &card->members[i];
        if (known[member->rank])
            return error_set(err, HVD_ERR_INVALID,
                             "rank %d and another rank both say that they lead the node of rank %d", leader,
                             member->rank);
        struct peer *peer = &peer_table->peers[member->rank];
        known[member->rank] = true;
        *peer = card->info->peer;
        peer->pid = member->pid;
        peer->port = member->port;
        peer->leader = peer_table->node_of_rank[member->rank] = leader;
    }
    return HVD_OK;
}

/* Read the cards of all nodes. A node's leader is its lowest rank: so the lowest rank that is on no known
 * node leads the next one. All cards are read before one of them ends the start, so that every leader names
 * the same rank. */
static int read_cards(const struct card_exchange *exchange, const struct peer_info *own,
                      struct hvd_error *err)
{
    struct peer_table *peer_table = exchange->peer_table;
    struct leader_list *leaders = exchange->leaders;
    int rc = HVD_OK, result = HVD_OK;
    for (int rank = 0; rc == HVD_OK && rank < peer_table->size; rank++) {
        struct node_card card = {.info = NULL, .members = NULL};
        if (exchange->known[rank])
            continue;
        rc = get_card(exchange, rank, &card, result == HVD_OK ? err : NULL);
        if (rc != HVD_OK && result != HVD_OK)
            return result; /* which is also why that rank has put none */
        if (rc == HVD_OK && !peer_info_same_ranks(own, card.info))
            rc = rank == 0 ? peer_exchange_list_mismatch(own, card.info, err)
                           : peer_exchange_list_mismatch(card.info, own, err);
        if (rc == HVD_OK)
            rc = enter_card(exchange, rank, &card, err);
        if (rc == HVD_OK) {
            if (leaders->count == 0)
                leaders->warnings = card.warnings;
            leaders->ranks[leaders->count++] = rank;
            if (result == HVD_OK)
                result = start_report_result(peer_table, rank, &card.report, err);
        }
        node_card_free(&card);
    }
    return rc == HVD_OK ? result : rc;
}

int node_card_exchange(struct peer_table *peer_table, struct leader_list *leaders,
                       const struct wireup *wireup, const struct node_card *mine, int64_t deadline_us,
                       struct hvd_error *err)
{
    size_t size = (size_t)peer_table->size;
    const struct card_exchange exchange = {.peer_table = peer_table,
                                           .leaders = leaders,
                                           .wireup = wireup,
                                           .known = calloc(size, sizeof(*exchange.known)),
                                           .deadline_us = deadline_us};
    leaders->ranks = calloc(size, sizeof(*leaders->ranks));
    int rc = exchange.known == NULL || leaders->ranks == NULL
                 ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %zu ranks", size)
                 : put_card(peer_table, wireup, mine, err);
    if (rc == HVD_OK)
        rc = wireup->ops->fence(wireup->state, deadline_us, err);
    if (rc == HVD_OK)
        rc = read_cards(&exchange, mine->info, err);
    if (rc == HVD_OK)
        peer_exchange_use_loopback(peer_table, mine->info->peer.node_key);
    free(exchange.known);
    return rc;
}
