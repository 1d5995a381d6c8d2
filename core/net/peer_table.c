/* peer_table.c: who is in the job and where each rank can be reached. */
#include "net/peer_table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/peer_info.h"

int roster_open(struct roster *roster, const struct hvd_job *job, struct hvd_error *err)
{
    if (job->size < 1 || job->rank < 0 || job->rank >= job->size)
        return error_set(err, HVD_ERR_INVALID, "the launcher says that this is rank %d of %d ranks",
                         job->rank, job->size);
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised");
    struct roster fresh = {.rank = job->rank, .size = job->size, .epoch = job->epoch};
    fresh.peers = calloc((size_t)job->size, sizeof(*fresh.peers));
    fresh.node_of_rank = calloc((size_t)job->size, sizeof(*fresh.node_of_rank));
    if (fresh.peers == NULL || fresh.node_of_rank == NULL) {
        roster_close(&fresh);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", job->size);
    }
    for (int i = 0; i < job->size; i++)
        fresh.node_of_rank[i] = fresh.peers[i].leader = i;
    *roster = fresh;
    return HVD_OK;
}

void roster_close(struct roster *roster)
{
    free(roster->peers);
    free(roster->node_of_rank);
    sodium_memzero(roster, sizeof(*roster));
}

void roster_name(const struct roster *roster, int rank, char *text, size_t text_bytes)
{
    bool known =
        roster->peers != NULL && rank >= 0 && rank < roster->size && roster->peers[rank].host[0] != 0;
    if (known)
        snprintf(text, text_bytes, "rank %d (%s)", rank, roster->peers[rank].host);
    else
        snprintf(text, text_bytes, "rank %d", rank);
}

/* ---- The exchange ---- */

static void blob_name(const struct roster *roster, const char *what, char name[64])
{
    snprintf(name, 64, "hvd.%u.%s", roster->epoch, what);
}

static int put_all(const struct roster *roster, const struct wireup *wireup, const struct card *card,
                   struct hvd_error *err)
{
    char name[64];
    unsigned char bytes[CARD_BYTES];
    size_t length = card_encode(card, bytes);
    blob_name(roster, "card", name);
    int rc = wireup->ops->put(wireup->state, name, bytes, length, err);
    if (rc != HVD_OK || roster->rank != 0)
        return rc;
    blob_name(roster, "key", name);
    return wireup->ops->put(wireup->state, name, roster->key, sizeof(roster->key), err);
}

static int get_key(struct roster *roster, const struct wireup *wireup, int64_t deadline_us,
                   struct hvd_error *err)
{
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    blob_name(roster, "key", name);
    int rc = wireup->ops->get(wireup->state, 0, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    if (blob.length == sizeof(roster->key))
        memcpy(roster->key, blob.bytes, blob.length);
    else
        rc = error_set(err, HVD_ERR_INVALID, "the job key of rank 0 has %zu bytes; expected %d", blob.length,
                       ROSTER_KEY_BYTES);
    sodium_memzero(blob.bytes, blob.length);
    free(blob.bytes);
    return rc;
}

static int get_card(struct roster *roster, const struct wireup *wireup, int rank, int64_t deadline_us,
                    struct card *card, struct hvd_error *err)
{
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error why = {""};
    blob_name(roster, "card", name);
    int rc = wireup->ops->get(wireup->state, rank, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    rc = card_decode(card, blob.bytes, blob.length, &why);
    free(blob.bytes);
    if (rc != HVD_OK)
        return error_set(err, rc, "the card of rank %d, which it put for all ranks to see, %s", rank,
                         why.text);
    roster->peers[rank] = card->peer;
    roster->peers[rank].leader = rank;
    return HVD_OK;
}

static int say_difference(const struct roster *roster, enum option_id id, int rank, const struct card *card,
                          const struct card *first, struct hvd_error *err)
{
    char name[300], first_name[300];
    roster_name(roster, rank, name, sizeof(name));
    roster_name(roster, 0, first_name, sizeof(first_name));
    return error_set(
        err, HVD_ERR_MISMATCH,
        "option %s: %.80s has %.64s set by %.96s, %.80s has %.64s set by %.96s; give all ranks the same",
        option_table[id].name, name, card->options[id].value, card->options[id].source, first_name,
        first->options[id].value, first->options[id].source);
}

static int say_other_ranks(const struct card *card, const struct card *first, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "hvd_init_with: the launcher's rank %d (%.64s) makes a job of the ranks %s, its rank %d "
                     "(%.64s) one of %s; all ranks of a job give the same list",
                     card->start.launcher_rank, card->peer.host, card->start.ranks,
                     first->start.launcher_rank, first->peer.host, first->start.ranks);
}

static int say_other_sets(const struct roster *roster, int rank, const struct card *card,
                          const struct card *first, struct hvd_error *err)
{
    char name[300], first_name[300];
    roster_name(roster, rank, name, sizeof(name));
    roster_name(roster, 0, first_name, sizeof(first_name));
    return error_set(err, HVD_ERR_MISMATCH,
                     "hvd_init_with: %.80s gives %d process sets, %.80s gives %d; give all ranks the same",
                     name, card->start.set_count, first_name, first->start.set_count);
}

static int compare_cards(const struct roster *roster, int rank, const struct card *card,
                         const struct card *first, struct hvd_error *err)
{
    enum option_id id = card_difference(first, card);
    if (!card_same_ranks(first, card))
        return say_other_ranks(card, first, err);
    if (first->start.set_count != card->start.set_count)
        return say_other_sets(roster, rank, card, first, err);
    return id == OPT_COUNT ? HVD_OK : say_difference(roster, id, rank, card, first, err);
}

/* Read all cards, and compare each with that of rank 0. [cards]: two, to work in. */
static int get_cards(struct roster *roster, const struct wireup *wireup, struct card *cards,
                     int64_t deadline_us, struct hvd_error *err)
{
    int rc = get_card(roster, wireup, 0, deadline_us, &cards[0], err);
    for (int rank = 1; rc == HVD_OK && rank < roster->size; rank++) {
        rc = get_card(roster, wireup, rank, deadline_us, &cards[1], err);
        if (rc == HVD_OK)
            rc = compare_cards(roster, rank, &cards[1], &cards[0], err);
    }
    return rc;
}

/* Ranks of this node reach each other without any network card. */
static void use_loopback(struct roster *roster)
{
    static const struct in6_addr loopback4 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};
    for (int rank = 0; rank < roster->size; rank++) {
        struct roster_peer *peer = &roster->peers[rank];
        if (peer->node_key != roster->peers[roster->rank].node_key)
            continue;
        peer->addresses[0] = loopback4;
        peer->addresses[1] = in6addr_loopback;
        peer->address_count = 2;
    }
}

int roster_exchange(struct roster *roster, const struct wireup *wireup, const struct card *card,
                    int64_t deadline_us, struct hvd_error *err)
{
    struct card *cards = calloc(2, sizeof(*cards));
    if (cards == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to read the other ranks' cards");
    if (roster->rank == 0)
        randombytes_buf(roster->key, sizeof(roster->key));
    int rc = put_all(roster, wireup, card, err);
    if (rc == HVD_OK)
        rc = wireup->ops->fence(wireup->state, deadline_us, err);
    if (rc == HVD_OK)
        rc = get_cards(roster, wireup, cards, deadline_us, err);
    if (rc == HVD_OK) /* the first rank of our list took it for its own, so that it drew a key */
        rc = get_key(roster, wireup, deadline_us, err);
    if (rc == HVD_OK)
        use_loopback(roster);
    free(cards);
    return rc;
}

/* ---- Who shares memory with whom ---- */

int roster_members(const struct roster *roster, int *members)
{
    int count = 0;
    for (int rank = 0; rank < roster->size; rank++)
        if (roster->peers[rank].node_key == roster->peers[roster->rank].node_key)
            members[count++] = rank;
    return count;
}

struct place {
    uint64_t key;
    int rank;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->rank < right->rank ? -1 : 1;
}

int roster_settle(struct roster *roster, const bool *attached, struct hvd_error *err)
{
    struct place *places = calloc((size_t)roster->size, sizeof(*places));
    if (places == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to sort %d ranks by their nodes", roster->size);
    for (int rank = 0; rank < roster->size; rank++)
        places[rank] = (struct place){roster->peers[rank].node_key, rank};
    qsort(places, (size_t)roster->size, sizeof(*places), compare_places);
    int leader = places[0].rank;
    for (int i = 0; i < roster->size; i++) {
        int rank = places[i].rank;
        if (i > 0 && places[i].key != places[i - 1].key)
            leader = rank;
        roster->peers[rank].leader = attached[rank] && attached[leader] ? leader : rank;
        roster->node_of_rank[rank] = roster->peers[rank].leader;
    }
    free(places);
    return HVD_OK;
}

int roster_networks(const struct roster *roster, int *network_of_rank, int *firsts)
{
    struct place *places = calloc((size_t)roster->size, sizeof(*places));
    bool known = true;
    int count = 0, first = 0;
    if (places == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int rank = 0; rank < roster->size; rank++) {
        places[rank] = (struct place){roster->peers[rank].net_key, rank};
        known = known && roster->peers[rank].net_key != 0;
    }
    qsort(places, (size_t)roster->size, sizeof(*places), compare_places);
    for (int i = 0; i < roster->size; i++) { /* the first rank of each, until they are numbered */
        if (i == 0 || (known && places[i].key != places[i - 1].key))
            first = places[i].rank;
        network_of_rank[places[i].rank] = known ? first : 0;
    }
    free(places);
    for (int rank = 0; rank < roster->size; rank++) {
        bool is_first = network_of_rank[rank] == rank;
        if (is_first)
            firsts[count] = rank;
        network_of_rank[rank] = is_first ? count++ : network_of_rank[network_of_rank[rank]];
    }
    return count;
}
