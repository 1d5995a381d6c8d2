/* peer_info.c: what a rank tells all others of itself at the job's start, and its bytes. */
#include "bootstrap/peer_info.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/hash.h"
#include "net/endpoint.h"
#include "auth/auth_message.h"

#define CARD_MAGIC UINT32_C(0x72647668) /* "hvdr" */

_Static_assert(sizeof(struct roster_peer) + sizeof(struct card_start) +
                       OPT_COUNT * (sizeof(struct card_option) + 64) + 64 <=
                   CARD_BYTES,
               "the longest card fits");

/* Read a file of /proc, or a link there, into [text]; empty where it cannot be read. */
static void read_identity(const char *path, char *text, size_t text_bytes)
{
    ssize_t length = readlink(path, text, text_bytes - 1);
    if (length < 0) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            length = read(fd, text, text_bytes - 1);
            close(fd);
        }
    }
    text[length > 0 ? length : 0] = 0;
}

/* Equal on ranks that see the same kernel, network, processes and user; random where that cannot be told. */
static uint64_t node_key(void)
{
    static const char *const paths[] = {"/proc/sys/kernel/random/boot_id", "/proc/self/ns/net",
                                        "/proc/self/ns/pid"};
    char text[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        read_identity(paths[i], text + used, 100);
        if (text[used] == 0) {
            uint64_t alone = 0;
            randombytes_buf(&alone, sizeof(alone));
            return alone;
        }
        used += strlen(text + used);
    }
    snprintf(text + used, sizeof(text) - used, "%ld", (long)geteuid());
    return hash_bytes(text, strlen(text));
}

/* Equal on ranks that have the same network interfaces; 0 where that cannot be told. */
static uint64_t net_key(void)
{
    char text[200] = "";
    read_identity("/proc/sys/kernel/random/boot_id", text, 100);
    size_t used = strlen(text);
    read_identity("/proc/self/ns/net", text + used, 100);
    return used == 0 || text[used] == 0 ? 0 : hash_bytes(text, strlen(text));
}

void card_fill(struct card *card, const char *host, uint16_t port, const struct hvd_config *config)
{
    memset(card, 0, sizeof(*card));
    snprintf(card->peer.host, sizeof(card->peer.host), "%s", host);
    card->peer.pid = getpid();
    card->peer.port = port;
    card->peer.address_count = (uint8_t)endpoint_addresses(card->peer.addresses);
    card->peer.node_key = node_key();
    card->peer.net_key = net_key();
    for (int i = 0; i < OPT_COUNT; i++) {
        struct card_option *option = &card->options[i];
        if (!option_table[i].job_wide)
            continue;
        config_value(config, (enum option_id)i, option->value, sizeof(option->value));
        config_source_text(config, (enum option_id)i, option->source, sizeof(option->source));
    }
}

int card_fill_start(struct card *card, const int *launcher_ranks, int size, int rank, int set_count)
{
    size_t bytes = (size_t)size * sizeof(int);
    int *ranks = malloc(bytes);
    if (ranks == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < size; i++)
        ranks[i] = launcher_ranks == NULL ? i : launcher_ranks[i];
    card->start = (struct card_start){.launcher_rank = ranks[rank],
                                      .rank_count = size,
                                      .ranks_hash = hash_bytes(ranks, bytes),
                                      .set_count = set_count};
    ranks_text(ranks, size, card->start.ranks, sizeof(card->start.ranks));
    free(ranks);
    return HVD_OK;
}

static void write_start(struct writer *writer, const struct card_start *start)
{
    write_number(writer, (uint32_t)start->launcher_rank, 4);
    write_number(writer, (uint32_t)start->rank_count, 4);
    write_number(writer, start->ranks_hash, 8);
    write_text(writer, start->ranks);
    write_number(writer, (uint32_t)start->set_count, 4);
}

size_t card_encode(const struct card *card, unsigned char bytes[CARD_BYTES])
{
    const struct roster_peer *peer = &card->peer;
    struct writer writer = {bytes, CARD_BYTES, false};
    write_number(&writer, CARD_MAGIC, 4);
    write_number(&writer, HANDSHAKE_VERSION, 2);
    write_text(&writer, peer->host);
    write_number(&writer, (uint32_t)peer->pid, 4);
    write_number(&writer, peer->port, 2);
    write_number(&writer, peer->node_key, 8);
    write_number(&writer, peer->net_key, 8);
    write_number(&writer, peer->address_count, 1);
    for (int i = 0; i < peer->address_count; i++)
        write_raw(&writer, &peer->addresses[i], sizeof(peer->addresses[i]));
    for (int i = 0; i < OPT_COUNT; i++) {
        if (!option_table[i].job_wide)
            continue;
        write_text(&writer, option_table[i].name);
        write_text(&writer, card->options[i].value);
        write_text(&writer, card->options[i].source);
    }
    write_start(&writer, &card->start);
    return CARD_BYTES - writer.left;
}

/* A text that can be shown in a sentence. */
static void read_words(struct reader *reader, char *text, size_t text_bytes)
{
    read_text(reader, text, text_bytes);
    for (const char *at = text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            reader->failed = true;
}

static void read_peer(struct reader *reader, struct roster_peer *peer)
{
    read_words(reader, peer->host, sizeof(peer->host));
    peer->pid = (int32_t)read_number(reader, 4);
    peer->port = (uint16_t)read_number(reader, 2);
    peer->node_key = read_number(reader, 8);
    peer->net_key = read_number(reader, 8);
    peer->address_count = (uint8_t)read_number(reader, 1);
    if (peer->address_count < 1 || peer->address_count > ROSTER_MAX_ADDRESSES || peer->pid < 1 ||
        peer->port == 0) {
        reader->failed = true;
        return;
    }
    for (int i = 0; i < peer->address_count; i++)
        read_raw(reader, &peer->addresses[i], sizeof(peer->addresses[i]));
}

/* True where the options of the card are those of our table. */
static bool read_options(struct reader *reader, struct card_option *options)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        char name[64];
        if (!option_table[i].job_wide)
            continue;
        read_words(reader, name, sizeof(name));
        if (!reader->failed && strcmp(name, option_table[i].name) != 0)
            return false;
        read_words(reader, options[i].value, sizeof(options[i].value));
        read_words(reader, options[i].source, sizeof(options[i].source));
    }
    return true;
}

static void read_start(struct reader *reader, struct card_start *start)
{
    start->launcher_rank = (int32_t)read_number(reader, 4);
    start->rank_count = (int32_t)read_number(reader, 4);
    start->ranks_hash = read_number(reader, 8);
    read_words(reader, start->ranks, sizeof(start->ranks));
    start->set_count = (int32_t)read_number(reader, 4);
    if (start->launcher_rank < 0 || start->rank_count < 1 || start->set_count < 0)
        reader->failed = true;
}

int card_decode(struct card *card, const unsigned char *bytes, size_t length, struct hvd_error *err)
{
    struct reader reader = {bytes, length, false};
    memset(card, 0, sizeof(*card));
    if (read_number(&reader, 4) != CARD_MAGIC)
        return error_set(err, HVD_ERR_INVALID, "is not one of hvd");
    if (read_number(&reader, 2) != HANDSHAKE_VERSION)
        return error_set(err, HVD_ERR_MISMATCH, "is of another version of hvd; use the same on all nodes");
    read_peer(&reader, &card->peer);
    if (reader.failed)
        return error_set(err, HVD_ERR_INVALID, "is cut short or damaged");
    if (!read_options(&reader, card->options))
        return error_set(err, HVD_ERR_MISMATCH,
                         "is of a hvd with other options; use the same version on all nodes");
    read_start(&reader, &card->start);
    if (reader.failed || reader.left > 0)
        return error_set(err, HVD_ERR_INVALID, "is cut short or damaged");
    return HVD_OK;
}

bool card_same_ranks(const struct card *a, const struct card *b)
{
    return a->start.rank_count == b->start.rank_count && a->start.ranks_hash == b->start.ranks_hash &&
           strcmp(a->start.ranks, b->start.ranks) == 0;
}

enum option_id card_difference(const struct card *a, const struct card *b)
{
    int i = 0;
    while (i < OPT_COUNT &&
           (!option_table[i].job_wide || strcmp(a->options[i].value, b->options[i].value) == 0))
        i++;
    return (enum option_id)i;
}
