/* peer_info.c: what a rank publishes about itself at the job's start, and its encoding. */
#include "bootstrap/peer_info.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/hash.h"
#include "base/identity.h"
#include "net/address.h"
#include "auth/handshake.h"

#define PEER_INFO_MAGIC   UINT32_C(0x72647668) /* "hvdr" */
#define OPTION_NAME_BYTES 64

_Static_assert(sizeof(struct peer) + sizeof(struct peer_info_start) + 64 <= PEER_INFO_BRIEF_BYTES,
               "the longest brief peer info fits");
_Static_assert(sizeof(struct peer) + sizeof(struct peer_info_start) +
                       OPTION_MAX * (sizeof(struct peer_info_option) + OPTION_NAME_BYTES) + 64 <=
                   PEER_INFO_BYTES,
               "the longest peer info fits");

void peer_info_fill(struct peer_info *peer_info, const char *host, uint16_t port,
                    const struct hvd_config *config)
{
    memset(peer_info, 0, sizeof(*peer_info));
    snprintf(peer_info->peer.host, sizeof(peer_info->peer.host), "%s", host);
    peer_info->peer.pid = getpid();
    peer_info->peer.port = port;
    peer_info->peer.address_count =
        (uint8_t)address_advertised(peer_info->peer.addresses, PEER_MAX_ADDRESSES);
    peer_info->peer.node_key = identity_of_node();
    peer_info->peer.net_key = identity_of_network();
    for (int i = 0; i < option_count; i++) {
        struct peer_info_option *option = &peer_info->options[i];
        if (!option_table[i].job_wide)
            continue;
        config_value(config, &option_table[i], option->value, sizeof(option->value));
        config_source_text(config, &option_table[i], option->source, sizeof(option->source));
    }
}

int peer_info_fill_start(struct peer_info *peer_info, const int *launcher_ranks, int size, int rank,
                         int set_count)
{
    size_t bytes = (size_t)size * sizeof(int);
    int *ranks = malloc(bytes);
    if (ranks == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < size; i++)
        ranks[i] = launcher_ranks == NULL ? i : launcher_ranks[i];
    peer_info->start = (struct peer_info_start){.launcher_rank = ranks[rank],
                                                .rank_count = size,
                                                .ranks_hash = hash_bytes(ranks, bytes),
                                                .set_count = set_count};
    rank_list_text(ranks, size, peer_info->start.ranks, sizeof(peer_info->start.ranks));
    free(ranks);
    return HVD_OK;
}

static void encode_start(struct encoder *encoder, const struct peer_info_start *start)
{
    encode_number(encoder, (uint32_t)start->launcher_rank, 4);
    encode_number(encoder, (uint32_t)start->rank_count, 4);
    encode_number(encoder, start->ranks_hash, 8);
    encode_text(encoder, start->ranks, sizeof(start->ranks));
    encode_number(encoder, (uint32_t)start->set_count, 4);
}

static void encode_brief(struct encoder *encoder, const struct peer_info *peer_info)
{
    const struct peer *peer = &peer_info->peer;
    encode_number(encoder, PEER_INFO_MAGIC, 4);
    encode_number(encoder, HANDSHAKE_VERSION, 2);
    encode_text(encoder, peer->host, sizeof(peer->host));
    encode_number(encoder, (uint32_t)peer->pid, 4);
    encode_number(encoder, peer->port, 2);
    encode_number(encoder, peer->message_port, 2);
    encode_number(encoder, peer->node_key, 8);
    encode_number(encoder, peer->net_key, 8);
    encode_number(encoder, peer->address_count, 1);
    for (int i = 0; i < peer->address_count; i++)
        encode_raw(encoder, &peer->addresses[i], sizeof(peer->addresses[i]));
    encode_start(encoder, &peer_info->start);
    encode_number(encoder, peer_info->key_guard, 1);
}

size_t peer_info_encode_brief(const struct peer_info *peer_info, unsigned char bytes[PEER_INFO_BRIEF_BYTES])
{
    struct encoder encoder = {bytes, PEER_INFO_BRIEF_BYTES, false};
    encode_brief(&encoder, peer_info);
    return PEER_INFO_BRIEF_BYTES - encoder.left;
}

size_t peer_info_encode(const struct peer_info *peer_info, unsigned char bytes[PEER_INFO_BYTES])
{
    struct encoder encoder = {bytes, PEER_INFO_BYTES, false};
    encode_brief(&encoder, peer_info);
    for (int i = 0; i < option_count; i++) {
        if (!option_table[i].job_wide)
            continue;
        encode_text(&encoder, option_table[i].name, OPTION_NAME_BYTES);
        encode_text(&encoder, peer_info->options[i].value, sizeof(peer_info->options[i].value));
        encode_text(&encoder, peer_info->options[i].source, sizeof(peer_info->options[i].source));
    }
    return PEER_INFO_BYTES - encoder.left;
}

static void decode_peer(struct decoder *decoder, struct peer *peer)
{
    decode_printable(decoder, peer->host, sizeof(peer->host));
    peer->pid = (int32_t)decode_at_most(decoder, 4, INT32_MAX);
    peer->port = (uint16_t)decode_number(decoder, 2);
    peer->message_port = (uint16_t)decode_number(decoder, 2);
    peer->node_key = decode_number(decoder, 8);
    peer->net_key = decode_number(decoder, 8);
    peer->address_count = (uint8_t)decode_at_most(decoder, 1, PEER_MAX_ADDRESSES);
    decode_check(decoder, peer->address_count > 0 && peer->pid > 0 && peer->port > 0);
    for (int i = 0; i < peer->address_count; i++)
        decode_raw(decoder, &peer->addresses[i], sizeof(peer->addresses[i]));
}

/* True if the options in the peer info are those of this rank's option table. */
static bool decode_options(struct decoder *decoder, struct peer_info_option *options)
{
    for (int i = 0; i < option_count; i++) {
        char name[OPTION_NAME_BYTES];
        if (!option_table[i].job_wide)
            continue;
        decode_printable(decoder, name, sizeof(name));
        if (!decoder->failed && strcmp(name, option_table[i].name) != 0)
            return false;
        decode_printable(decoder, options[i].value, sizeof(options[i].value));
        decode_printable(decoder, options[i].source, sizeof(options[i].source));
    }
    return true;
}

static void decode_start(struct decoder *decoder, struct peer_info_start *start)
{
    start->launcher_rank = (int32_t)decode_at_most(decoder, 4, INT32_MAX);
    start->rank_count = (int32_t)decode_at_most(decoder, 4, INT32_MAX);
    start->ranks_hash = decode_number(decoder, 8);
    decode_printable(decoder, start->ranks, sizeof(start->ranks));
    start->set_count = (int32_t)decode_at_most(decoder, 4, INT32_MAX);
    decode_check(decoder, start->rank_count > 0);
}

static int fail_damaged(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_INVALID, "is cut short or damaged");
}

static int decode_brief(struct decoder *decoder, struct peer_info *peer_info, struct hvd_error *err)
{
    memset(peer_info, 0, sizeof(*peer_info));
    if (decode_number(decoder, 4) != PEER_INFO_MAGIC)
        return error_set(err, HVD_ERR_INVALID, "is not one of hvd");
    if (decode_number(decoder, 2) != HANDSHAKE_VERSION)
        return error_set(err, HVD_ERR_MISMATCH, "is of another version of hvd; use the same on all nodes");
    decode_peer(decoder, &peer_info->peer);
    decode_start(decoder, &peer_info->start);
    peer_info->key_guard = (enum job_key_guard)decode_at_most(decoder, 1, JOB_KEY_GUARD_COUNT - 1);
    if (!decoder->failed)
        return HVD_OK;
    memset(peer_info, 0, sizeof(*peer_info));
    return fail_damaged(err);
}

int peer_info_decode_brief(struct peer_info *peer_info, const unsigned char *bytes, size_t length,
                           struct hvd_error *err)
{
    struct decoder decoder = {bytes, length, false};
    int rc = decode_brief(&decoder, peer_info, err);
    return rc == HVD_OK && decoder.left > 0 ? fail_damaged(err) : rc;
}

int peer_info_decode(struct peer_info *peer_info, const unsigned char *bytes, size_t length,
                     struct hvd_error *err)
{
    struct decoder decoder = {bytes, length, false};
    int rc = decode_brief(&decoder, peer_info, err);
    if (rc != HVD_OK)
        return rc;
    if (!decode_options(&decoder, peer_info->options))
        return error_set(err, HVD_ERR_MISMATCH,
                         "is of a hvd with other options; use the same version on all nodes");
    return decoder.failed || decoder.left > 0 ? fail_damaged(err) : HVD_OK;
}

bool peer_info_same_ranks(const struct peer_info *a, const struct peer_info *b)
{
    return a->start.rank_count == b->start.rank_count && a->start.ranks_hash == b->start.ranks_hash &&
           strcmp(a->start.ranks, b->start.ranks) == 0;
}

const struct hvd_option *peer_info_differing_option(const struct peer_info *a, const struct peer_info *b)
{
    for (int i = 0; i < option_count; i++)
        if (option_table[i].job_wide && strcmp(a->options[i].value, b->options[i].value) != 0)
            return &option_table[i];
    return NULL;
}
