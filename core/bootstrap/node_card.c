/* node_card.c: what a node's leader publishes about its node, for the leaders of the other nodes. */
#include "bootstrap/node_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

#define NODE_CARD_MAGIC UINT32_C(0x6e647668) /* "hvdn" */

_Static_assert(4 * sizeof(uint64_t) + PEER_INFO_BRIEF_BYTES + START_REPORT_BYTES + NIC_OFFER_BYTES <=
                   WIREUP_BLOB_BYTES / 2,
               "half of a card is left for the ranks of the node");

static void encode_part(struct encoder *encoder, const void *bytes, size_t length)
{
    encode_number(encoder, length, 4);
    encode_raw(encoder, bytes, length);
}

size_t node_card_encode(const struct node_card *card, unsigned char bytes[WIREUP_BLOB_BYTES])
{
    unsigned char info[PEER_INFO_BRIEF_BYTES], report[START_REPORT_BYTES];
    struct encoder encoder = {bytes, WIREUP_BLOB_BYTES, false};
    encode_number(&encoder, NODE_CARD_MAGIC, 4);
    encode_number(&encoder, (uint32_t)card->leader, 4);
    if (card->info == NULL)
        return WIREUP_BLOB_BYTES - encoder.left;
    encode_part(&encoder, info, peer_info_encode_brief(card->info, info));
    encode_part(&encoder, report, start_report_encode(&card->report, report));
    encode_part(&encoder, card->nics, card->nics_length);
    encode_number(&encoder, card->warnings, 8);
    encode_number(&encoder, (uint32_t)card->member_count, 4);
    for (int i = 0; i < card->member_count; i++) {
        encode_number(&encoder, (uint32_t)card->members[i].rank, 4);
        encode_number(&encoder, (uint32_t)card->members[i].pid, 4);
        encode_number(&encoder, card->members[i].port, 2);
        encode_number(&encoder, card->members[i].message_port, 2);
    }
    return encoder.failed ? 0 : WIREUP_BLOB_BYTES - encoder.left;
}

/* A part of a card: bytes that another module decodes. */
struct part {
    const unsigned char *bytes;
    size_t length;
};

static struct part decode_part(struct decoder *decoder, size_t most)
{
    size_t length = (size_t)decode_at_most(decoder, 4, most);
    return (struct part){decode_view(decoder, length), length};
}

/* The members ascend from the leader. */
static void decode_members(struct decoder *decoder, struct node_card *card, int size)
{
    for (int i = 0; i < card->member_count; i++) {
        struct node_card_member *member = &card->members[i];
        member->rank = (int32_t)decode_at_most(decoder, 4, (uint64_t)size - 1);
        member->pid = (int32_t)decode_at_most(decoder, 4, INT32_MAX);
        member->port = (uint16_t)decode_number(decoder, 2);
        member->message_port = (uint16_t)decode_number(decoder, 2);
        decode_check(decoder,
                     i == 0 ? member->rank == card->leader : member->rank > card->members[i - 1].rank);
        decode_check(decoder, member->pid > 0 && member->port > 0 && member->message_port > 0);
    }
}

static int fail_damaged(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_INVALID, "is cut short or damaged");
}

/* Decode what follows the number of a leader in its own card. */
static int decode_node(struct decoder *decoder, struct node_card *card, int size, struct hvd_error *err)
{
    struct part info = decode_part(decoder, PEER_INFO_BRIEF_BYTES);
    struct part report = decode_part(decoder, START_REPORT_BYTES);
    struct part nics = decode_part(decoder, NIC_OFFER_BYTES);
    card->nics = nics.bytes;
    card->nics_length = nics.length;
    card->warnings = decode_number(decoder, 8);
    card->member_count = (int)decode_at_most(decoder, 4, (uint64_t)size);
    if (decoder->failed || card->member_count < 1)
        return fail_damaged(err);
    card->info = malloc(sizeof(*card->info));
    card->members = calloc((size_t)card->member_count, sizeof(*card->members));
    if (card->info == NULL || card->members == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "has %d ranks, too many for this process's memory",
                         card->member_count);
    int rc = peer_info_decode_brief(card->info, info.bytes, info.length, err);
    if (rc != HVD_OK)
        return rc;
    decode_members(decoder, card, size);
    if (decoder->failed || start_report_decode(&card->report, report.bytes, report.length) != HVD_OK)
        return fail_damaged(err);
    return HVD_OK;
}

int node_card_decode(struct node_card *card, int rank, int size, const unsigned char *bytes, size_t length,
                     struct hvd_error *err)
{
    struct decoder decoder = {bytes, length, false};
    struct node_card read = {.info = NULL, .members = NULL};
    bool known = decode_number(&decoder, 4) == NODE_CARD_MAGIC;
    read.leader = (int)decode_at_most(&decoder, 4, (uint64_t)rank);
    if (!known)
        return error_set(err, HVD_ERR_INVALID, "is not one of hvd");
    int rc = decoder.failed        ? fail_damaged(err)
             : read.leader == rank ? decode_node(&decoder, &read, size, err)
                                   : HVD_OK;
    if (rc == HVD_OK && decoder.left > 0)
        rc = fail_damaged(err);
    if (rc == HVD_OK)
        *card = read;
    else
        node_card_free(&read);
    return rc;
}

int node_card_of_entry(struct node_card *card, int size, const struct blob_entry *entry,
                       struct hvd_error *err)
{
    struct hvd_error why = {""};
    int rc = node_card_decode(card, entry->rank, size, entry->bytes, entry->length, &why);
    return rc == HVD_OK
               ? HVD_OK
               : error_set(err, rc, "the card that rank %d has put of its node %s", entry->rank, why.text);
}

void node_card_free(struct node_card *card)
{
    free(card->info);
    free(card->members);
    card->info = NULL;
    card->members = NULL;
    card->member_count = 0;
}
