/* nic_offer.c: what a node tells the others of its interfaces and of how it fared, and its bytes. */
#include "net/nic_offer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/codec.h"
#include "net/address.h"

#define CANDIDATES_MAGIC UINT32_C(0x6e647668) /* "hvdn" */
#define PROOF_MAGIC      UINT32_C(0x70647668) /* "hvdp" */

#define NIC_BYTES                                                                       \
    (2 + NIC_NAME_BYTES + 2 + NIC_VERBS_BYTES + 2 + NETWORK_WHY_BYTES + 1 + 1 + 8 + 1 + \
     17 * NETWORK_MAX_ADDRESSES)

_Static_assert(32 + NETWORK_MAX_NICS * NIC_BYTES + SETTING_COUNT * (2 + SETTING_BYTES) <= CANDIDATES_BYTES,
               "the most that a node says fits");
_Static_assert(16 + NETWORK_MAX_RAILS * (2 + NETWORK_WHY_BYTES) <= PROOF_BYTES, "the longest proof fits");

/* ---- Of this node ---- */

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
            address_map(&ipv4, &address->address);
            address->prefix_bits += 96;
        }
        to->address_count += address->prefix_bits > 0;
    }
}

/* Names are the kernel's; what cannot be shown in a sentence is not told as it is. */
static void copy_words(char *to, const char *from, size_t bytes)
{
    snprintf(to, bytes, "%s", from);
    for (char *at = to; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
}

static void copy_nic(struct network_nic *to, const struct nic *from)
{
    memset(to, 0, sizeof(*to));
    copy_words(to->name, from->netdev, sizeof(to->name));
    copy_words(to->verbs, from->verbs, sizeof(to->verbs));
    to->port = from->port > 0 && from->port < 256 ? from->port : 0;
    to->verdict = from->drop == NIC_KEPT   ? NETWORK_KEPT
                  : from->drop == NIC_SLOW ? NETWORK_SLOW
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
    if (left->verdict != right->verdict)
        return left->verdict < right->verdict ? -1 : 1;
    if (left->mbps != right->mbps)
        return left->mbps > right->mbps ? -1 : 1;
    int order = strcmp(key_of(left), key_of(right));
    return order != 0 ? order : left->port - right->port;
}

int candidates_of_nics(struct network_node *node, const struct nic *nics, int count)
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
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return false;
    return strlen(value) < SETTING_BYTES;
}

/* Values that cannot be told to others are not looked into. */
static int read_settings(struct network_node *node)
{
    for (int id = 0; id < SETTING_COUNT; id++) {
        const char *value = getenv(setting_variables[id]);
        if (value == NULL || !is_plain(value))
            continue;
        node->settings[id] = strdup(value);
        if (node->settings[id] == NULL)
            return HVD_ERR_NO_MEMORY;
    }
    return HVD_OK;
}

int candidates_read(struct network_node *node, const char *asked, struct hvd_error *err)
{
    struct nic *nics = calloc(NIC_MAX, sizeof(*nics));
    int count = 0, rc = HVD_OK;
    if (nics == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of network interfaces");
    rc = nics_read_node(nics, NIC_MAX, "/sys", &count, err);
    if (rc == HVD_OK)
        rc = nics_judge(nics, count, asked, err);
    if (rc == HVD_OK) {
        rc = candidates_of_nics(node, nics, count);
        if (rc == HVD_OK)
            rc = read_settings(node);
        if (rc != HVD_OK) {
            candidates_free(node);
            error_set(err, rc, "no memory for a list of %d network interfaces", count);
        }
    }
    free(nics);
    return rc;
}

void candidates_free(struct network_node *node)
{
    for (int id = 0; id < SETTING_COUNT; id++)
        free(node->settings[id]);
    free(node->nics);
    *node = (struct network_node){.host = node->host};
}

/* ---- To bytes and back ---- */

static void write_nic(struct writer *writer, const struct network_nic *nic)
{
    write_text(writer, nic->name);
    write_text(writer, nic->verbs);
    write_number(writer, (uint64_t)nic->port, 1);
    write_number(writer, nic->verdict, 1);
    write_text(writer, nic->why);
    write_number(writer, (uint64_t)nic->mbps, 8);
    write_number(writer, (uint64_t)nic->address_count, 1);
    for (int i = 0; i < nic->address_count; i++) {
        write_raw(writer, &nic->addresses[i].address, sizeof(nic->addresses[i].address));
        write_number(writer, (uint64_t)nic->addresses[i].prefix_bits, 1);
    }
}

size_t candidates_encode(const struct network_node *node, unsigned char bytes[CANDIDATES_BYTES])
{
    struct writer writer = {bytes, CANDIDATES_BYTES, false};
    write_number(&writer, CANDIDATES_MAGIC, 4);
    write_number(&writer, (uint64_t)node->nic_count, 1);
    for (int i = 0; i < node->nic_count; i++)
        write_nic(&writer, &node->nics[i]);
    write_number(&writer, (uint64_t)node->left_out, 4);
    for (int id = 0; id < SETTING_COUNT; id++)
        write_text(&writer, node->settings[id] == NULL ? "" : node->settings[id]);
    return CANDIDATES_BYTES - writer.left;
}

/* A text that can be shown in a sentence. */
static void read_words(struct reader *reader, char *text, size_t text_bytes)
{
    read_text(reader, text, text_bytes);
    for (const char *at = text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            reader->failed = true;
}

static void read_address(struct reader *reader, struct network_address *address)
{
    read_raw(reader, &address->address, sizeof(address->address));
    address->prefix_bits = (int)read_number(reader, 1);
    int least = IN6_IS_ADDR_V4MAPPED(&address->address) ? 96 : 1;
    if (address->prefix_bits < least || address->prefix_bits > 128)
        reader->failed = true;
}

static void read_nic(struct reader *reader, struct network_nic *nic)
{
    read_words(reader, nic->name, sizeof(nic->name));
    read_words(reader, nic->verbs, sizeof(nic->verbs));
    nic->port = (int)read_number(reader, 1);
    uint64_t verdict = read_number(reader, 1);
    nic->verdict = verdict <= NETWORK_DROPPED ? (enum network_verdict)verdict : NETWORK_DROPPED;
    read_words(reader, nic->why, sizeof(nic->why));
    nic->mbps = (int64_t)read_number(reader, 8);
    uint64_t address_count = read_number(reader, 1);
    if (verdict > NETWORK_DROPPED || nic->mbps < 0 || nic->mbps > INT64_MAX / 2 ||
        address_count > NETWORK_MAX_ADDRESSES) {
        reader->failed = true;
        return;
    }
    nic->address_count = (int)address_count;
    for (int i = 0; i < nic->address_count; i++)
        read_address(reader, &nic->addresses[i]);
}

static int read_node(struct reader *reader, struct network_node *node)
{
    char value[SETTING_BYTES];
    uint64_t magic = read_number(reader, 4), count = read_number(reader, 1);
    if (reader->failed || magic != CANDIDATES_MAGIC || count > NETWORK_MAX_NICS)
        return HVD_ERR_INVALID;
    node->nics = calloc((size_t)count + 1, sizeof(*node->nics));
    if (node->nics == NULL)
        return HVD_ERR_NO_MEMORY;
    node->nic_count = (int)count;
    for (int i = 0; i < node->nic_count; i++)
        read_nic(reader, &node->nics[i]);
    uint64_t left_out = read_number(reader, 4);
    node->left_out = left_out <= NIC_MAX ? (int)left_out : 0;
    for (int id = 0; id < SETTING_COUNT; id++) {
        read_words(reader, value, sizeof(value));
        if (value[0] == 0)
            continue;
        node->settings[id] = strdup(value);
        if (node->settings[id] == NULL)
            return HVD_ERR_NO_MEMORY;
    }
    return reader->failed || reader->left > 0 || left_out > NIC_MAX ? HVD_ERR_INVALID : HVD_OK;
}

int candidates_decode(struct network_node *node, const unsigned char *bytes, size_t length)
{
    struct reader reader = {bytes, length, false};
    struct network_node read = {.host = node->host};
    int rc = read_node(&reader, &read);
    if (rc != HVD_OK)
        candidates_free(&read);
    else
        *node = read;
    return rc;
}

size_t proof_encode(const struct network_proof *proof, int rail_count, unsigned char bytes[PROOF_BYTES])
{
    struct writer writer = {bytes, PROOF_BYTES, false};
    write_number(&writer, PROOF_MAGIC, 4);
    write_number(&writer, (uint64_t)rail_count, 1);
    for (int rail = 0; rail < rail_count; rail++)
        write_text(&writer, proof->why[rail]);
    return PROOF_BYTES - writer.left;
}

int proof_decode(struct network_proof *proof, int rail_count, const unsigned char *bytes, size_t length)
{
    struct reader reader = {bytes, length, false};
    struct network_proof read = {.why = {""}};
    bool ours = read_number(&reader, 4) == PROOF_MAGIC && read_number(&reader, 1) == (uint64_t)rail_count;
    for (int rail = 0; ours && rail < rail_count; rail++)
        read_words(&reader, read.why[rail], sizeof(read.why[rail]));
    if (!ours || reader.failed || reader.left > 0)
        return HVD_ERR_INVALID;
    *proof = read;
    return HVD_OK;
}
