/* nic_offer.c: what a node publishes about its network interfaces and about its probe, and the encoding of
 * both. */
#include "net/nic_offer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/codec.h"
#include "net/address.h"

#define NIC_OFFER_MAGIC    UINT32_C(0x6e647668) /* "hvdn" */
#define PROBE_RESULT_MAGIC UINT32_C(0x70647668) /* "hvdp" */

#define NIC_BYTES                                                                       \
    (2 + NIC_NAME_BYTES + 2 + NIC_VERBS_BYTES + 2 + NETWORK_WHY_BYTES + 1 + 1 + 8 + 1 + \
     17 * NETWORK_MAX_ADDRESSES)

_Static_assert(32 + NETWORK_MAX_NICS * NIC_BYTES + NIC_ENV_COUNT * (2 + NIC_ENV_BYTES) <= NIC_OFFER_BYTES,
               "the most that a node says fits");
_Static_assert(16 + NETWORK_MAX_RAILS * (2 + NETWORK_WHY_BYTES) <= PROBE_RESULT_BYTES,
               "the longest result fits");

/* ---- The interfaces of this node ---- */

static void copy_addresses(struct network_nic *to, const struct nic *from)
{
    for (int i = 0; i < from->address_count && to->address_count < NETWORK_MAX_ADDRESSES; i++) {
        struct network_address *address = &to->addresses[to->address_count];
        struct in_addr ipv4;
        if (nic_is_link_local(&from->addresses[i]))
            continue;
        memcpy(&ipv4, from->addresses[i].bytes, sizeof(ipv4));
        memcpy(&address->address, from->addresses[i].bytes, sizeof(address->address));
        address->prefix_bits = from->addresses[i].prefix;
        if (from->addresses[i].family == AF_INET) {
            address_map_ipv4(&ipv4, &address->address);
            address->prefix_bits += 96;
        }
        to->address_count += address->prefix_bits > 0;
    }
}

/* Names come from the kernel. Bytes that could not be shown in a sentence become '?'. */
static void copy_words(char *to, const char *from, size_t bytes)
{
    snprintf(to, bytes, "%s", from);
    for (char *at = to; *at != 0; at++)
        if (!is_printable_byte((unsigned char)*at))
            *at = '?';
}

static void copy_nic(struct network_nic *to, const struct nic *from)
{
    memset(to, 0, sizeof(*to));
    copy_words(to->name, from->netdev, sizeof(to->name));
    copy_words(to->verbs, from->verbs, sizeof(to->verbs));
    to->port = from->port > 0 && from->port < 256 ? from->port : 0;
    to->use = from->exclusion == NIC_NOT_EXCLUDED ? NETWORK_KEPT
              : from->exclusion == NIC_SLOW       ? NETWORK_SLOW
                                                  : NETWORK_DROPPED;
    copy_words(to->why, from->why, sizeof(to->why));
    to->mbps = nic_mbps(from);
    copy_addresses(to, from);
}

static const char *key_of(const struct network_nic *nic)
{
    return nic->verbs[0] != 0 ? nic->verbs : nic->name;
}

static int compare_nics(const void *a, const void *b)
{
    const struct network_nic *left = a, *right = b;
    if (left->use != right->use)
        return left->use < right->use ? -1 : 1;
    if (left->mbps != right->mbps)
        return left->mbps > right->mbps ? -1 : 1;
    int order = strcmp(key_of(left), key_of(right));
    return order != 0 ? order : left->port - right->port;
}

int nic_offer_of_nics(struct network_node *node, const struct nic *nics, int count)
{
    *node = (struct network_node){.nics = calloc((size_t)count + 1, sizeof(*node->nics))};
    if (node->nics == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < count; i++)
        copy_nic(&node->nics[i], &nics[i]);
    qsort(node->nics, (size_t)count, sizeof(*node->nics), compare_nics);
    node->nic_count = count < NETWORK_MAX_NICS ? count : NETWORK_MAX_NICS;
    node->left_out = count - node->nic_count;
    return HVD_OK;
}

static bool is_plain(const char *value)
{
    for (const char *at = value; *at != 0; at++)
        if (!is_printable_byte((unsigned char)*at))
            return false;
    return strlen(value) < NIC_ENV_BYTES;
}

/* A value that is too long or not printable cannot be published, so it is not checked. */
static int read_settings(struct network_node *node)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        const char *value = getenv(nic_env_names[id]);
        if (value == NULL || !is_plain(value))
            continue;
        node->settings[id] = strdup(value);
        if (node->settings[id] == NULL)
            return HVD_ERR_NO_MEMORY;
    }
    return HVD_OK;
}

int nic_offer_read(struct network_node *node, const char *filter, struct hvd_error *err)
{
    struct nic *nics = calloc(NIC_MAX, sizeof(*nics));
    int count = 0, rc = HVD_OK;
    if (nics == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of network interfaces");
    rc = nics_read_node(nics, NIC_MAX, "/sys", &count, err);
    if (rc == HVD_OK)
        rc = nics_select(nics, count, filter, err);
    if (rc == HVD_OK) {
        rc = nic_offer_of_nics(node, nics, count);
        if (rc == HVD_OK)
            rc = read_settings(node);
        if (rc != HVD_OK) {
            nic_offer_free(node);
            error_set(err, rc, "no memory for a list of %d network interfaces", count);
        }
    }
    free(nics);
    return rc;
}

void nic_offer_free(struct network_node *node)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        free(node->settings[id]);
    free(node->nics);
    *node = (struct network_node){.host = node->host};
}

/* ---- Encoding ---- */

static void write_nic(struct encoder *encoder, const struct network_nic *nic)
{
    encode_text(encoder, nic->name, sizeof(nic->name));
    encode_text(encoder, nic->verbs, sizeof(nic->verbs));
    encode_number(encoder, (uint64_t)nic->port, 1);
    encode_number(encoder, nic->use, 1);
    encode_text(encoder, nic->why, sizeof(nic->why));
    encode_number(encoder, (uint64_t)nic->mbps, 8);
    encode_number(encoder, (uint64_t)nic->address_count, 1);
    for (int i = 0; i < nic->address_count; i++) {
        encode_raw(encoder, &nic->addresses[i].address, sizeof(nic->addresses[i].address));
        encode_number(encoder, (uint64_t)nic->addresses[i].prefix_bits, 1);
    }
}

size_t nic_offer_encode(const struct network_node *node, unsigned char bytes[NIC_OFFER_BYTES])
{
    struct encoder encoder = {bytes, NIC_OFFER_BYTES, false};
    encode_number(&encoder, NIC_OFFER_MAGIC, 4);
    encode_number(&encoder, (uint64_t)node->nic_count, 1);
    for (int i = 0; i < node->nic_count; i++)
        write_nic(&encoder, &node->nics[i]);
    encode_number(&encoder, (uint64_t)node->left_out, 4);
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        encode_text(&encoder, node->settings[id] == NULL ? "" : node->settings[id], NIC_ENV_BYTES);
    return NIC_OFFER_BYTES - encoder.left;
}

static void read_address(struct decoder *decoder, struct network_address *address)
{
    decode_raw(decoder, &address->address, sizeof(address->address));
    address->prefix_bits = (int)decode_at_most(decoder, 1, 128);
    decode_check(decoder, address->prefix_bits >= (IN6_IS_ADDR_V4MAPPED(&address->address) ? 96 : 1));
}

static void read_nic(struct decoder *decoder, struct network_nic *nic)
{
    decode_printable(decoder, nic->name, sizeof(nic->name));
    decode_printable(decoder, nic->verbs, sizeof(nic->verbs));
    nic->port = (int)decode_number(decoder, 1);
    nic->use = (enum network_use)decode_at_most(decoder, 1, NETWORK_DROPPED);
    decode_printable(decoder, nic->why, sizeof(nic->why));
    nic->mbps = (int64_t)decode_at_most(decoder, 8, INT64_MAX / 2);
    nic->address_count = (int)decode_at_most(decoder, 1, NETWORK_MAX_ADDRESSES);
    for (int i = 0; i < nic->address_count; i++)
        read_address(decoder, &nic->addresses[i]);
}

static int read_node(struct decoder *decoder, struct network_node *node)
{
    char value[NIC_ENV_BYTES];
    decode_check(decoder, decode_number(decoder, 4) == NIC_OFFER_MAGIC);
    size_t count = (size_t)decode_at_most(decoder, 1, NETWORK_MAX_NICS);
    if (decoder->failed)
        return HVD_ERR_INVALID;
    node->nics = calloc(count + 1, sizeof(*node->nics));
    if (node->nics == NULL)
        return HVD_ERR_NO_MEMORY;
    node->nic_count = (int)count;
    for (int i = 0; i < node->nic_count; i++)
        read_nic(decoder, &node->nics[i]);
    node->left_out = (int)decode_at_most(decoder, 4, NIC_MAX);
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        decode_printable(decoder, value, sizeof(value));
        if (value[0] == 0)
            continue;
        node->settings[id] = strdup(value);
        if (node->settings[id] == NULL)
            return HVD_ERR_NO_MEMORY;
    }
    return decoder->failed || decoder->left > 0 ? HVD_ERR_INVALID : HVD_OK;
}

int nic_offer_decode(struct network_node *node, const unsigned char *bytes, size_t length)
{
    struct decoder decoder = {bytes, length, false};
    struct network_node read = {.host = node->host};
    int rc = read_node(&decoder, &read);
    if (rc != HVD_OK)
        nic_offer_free(&read);
    else
        *node = read;
    return rc;
}

size_t probe_result_encode(const struct network_probe_result *result, int rail_count,
                           unsigned char bytes[PROBE_RESULT_BYTES])
{
    struct encoder encoder = {bytes, PROBE_RESULT_BYTES, false};
    encode_number(&encoder, PROBE_RESULT_MAGIC, 4);
    encode_number(&encoder, (uint64_t)rail_count, 1);
    for (int rail = 0; rail < rail_count; rail++)
        encode_text(&encoder, result->why[rail], sizeof(result->why[rail]));
    return PROBE_RESULT_BYTES - encoder.left;
}

int probe_result_decode(struct network_probe_result *result, int rail_count, const unsigned char *bytes,
                        size_t length)
{
    struct decoder decoder = {bytes, length, false};
    struct network_probe_result read = {.why = {""}};
    decode_check(&decoder, decode_number(&decoder, 4) == PROBE_RESULT_MAGIC);
    decode_check(&decoder, decode_number(&decoder, 1) == (uint64_t)rail_count);
    for (int rail = 0; rail < rail_count; rail++)
        decode_printable(&decoder, read.why[rail], sizeof(read.why[rail]));
    if (decoder.failed || decoder.left > 0)
        return HVD_ERR_INVALID;
    *result = read;
    return HVD_OK;
}
