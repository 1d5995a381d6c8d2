/* card_exchange.c: the exchange of the nodes' cards among their leaders. */
#include "bootstrap/card_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "bootstrap/peer_exchange.h"

#define NODE_CARD "node" /* cards are put under this name */

int card_exchange_put(const struct leader_exchange *exchange, const struct node_card *mine,
                      struct hvd_error *err)
{
    unsigned char *bytes = malloc(WIREUP_BLOB_BYTES);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the card of a node of %d ranks",
                         mine->member_count);
    size_t length = node_card_encode(mine, bytes);
    int rc = length == 0 ? error_set(err, HVD_ERR_UNSUPPORTED,
                                     "%d ranks of one node are more than fit in a card of %d bytes",
                                     mine->member_count, WIREUP_BLOB_BYTES)
                         : leader_put(exchange, NODE_CARD, bytes, length, err);
    free(bytes);
    return rc;
}

/* A card, and the blob that it was decoded from. */
struct read_card {
    struct node_card card;
    struct wireup_blob blob;
};

static void read_card_free(struct read_card *read)
{
    node_card_free(&read->card);
    free(read->blob.bytes);
    read->blob = (struct wireup_blob){NULL, 0};
}

/* Get what [rank] has put into a zeroed [read]. */
static int get_card(const struct card_exchange *cards, int rank, struct read_card *read,
                    struct hvd_error *err)
{
    int rc = leader_get(&cards->exchange, rank, NODE_CARD, &read->blob, err);
    const struct blob_entry entry = {rank, read->blob.bytes, read->blob.length};
    if (rc == HVD_OK)
        rc = node_card_of_entry(&read->card, cards->exchange.peer_table->size, &entry, err);
    if (rc != HVD_OK)
        read_card_free(read);
    return rc;
}

static bool *alloc_known(const struct card_exchange *cards, struct hvd_error *err)
{
    int size = cards->exchange.peer_table->size;
    bool *known = calloc((size_t)size, sizeof(*known));
    if (known == NULL)
        error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", size);
    return known;
}

static void mark_known(const struct node_card *card, bool *known)
{
    for (int i = 0; i < card->member_count; i++)
        known[card->members[i].rank] = true;
}

/* [rank] says that [leader] leads its node: mark the ranks of that node, if the leader says so too. */
static int mark_node_of(const struct card_exchange *cards, int rank, int leader, bool *known,
                        struct hvd_error *err)
{
    struct read_card read = {.blob = {NULL, 0}};
    int rc = get_card(cards, leader, &read, err);
    if (rc != HVD_OK)
        return rc;
    mark_known(&read.card, known);
    read_card_free(&read);
    return known[rank] ? HVD_OK
                       : error_set(err, HVD_ERR_INVALID,
                                   "rank %d says that rank %d leads its node, and that one does not say so",
                                   rank, leader);
}

/* Read the card of the first leader from *rankp to before [end] that is not [known], and let *rankp be that
 * leader; or [end] if there is none. A block may begin with ranks of nodes that are led from before it: they
 * are marked, and passed over. */
static int read_next(const struct card_exchange *cards, int *rankp, int end, bool *known,
                     struct read_card *read, struct hvd_error *err)
{
    for (; *rankp < end; (*rankp)++) {
        if (known[*rankp])
            continue;
        int rc = get_card(cards, *rankp, read, err);
        if (rc != HVD_OK)
            return rc;
        mark_known(&read->card, known);
        if (read->card.leader == *rankp)
            return HVD_OK;
        rc = mark_node_of(cards, *rankp, read->card.leader, known, err);
        read_card_free(read);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* The first node shows how ranks are spread over the nodes: in ranges, or else by turns. */
static int block_of(const struct node_card *first, int size)
{
    int count = first->member_count;
    bool range = first->members[count - 1].rank == count - 1;
    int nodes = (size + count - 1) / count;
    return nodes <= LEADERS_DIRECT ? size : leader_group_size(nodes) * (range ? count : 1);
}

static int find_block(struct card_exchange *cards, struct hvd_error *err)
{
    struct read_card read = {.blob = {NULL, 0}};
    cards->block = cards->exchange.peer_table->size;
    if (cards->block <= LEADERS_DIRECT) /* there are no more nodes than ranks */
        return HVD_OK;
    int rc = get_card(cards, 0, &read, err);
    if (rc == HVD_OK)
        cards->block = block_of(&read.card, cards->exchange.peer_table->size);
    read_card_free(&read);
    return rc;
}

bool card_exchange_has_two_rounds(const struct card_exchange *cards)
{
    return cards->block < cards->exchange.peer_table->size;
}

/* Where the block of [rank] ends. */
static int end_of_block(const struct card_exchange *cards, int rank)
{
    int64_t end = ((int64_t)rank / cards->block + 1) * cards->block;
    int size = cards->exchange.peer_table->size;
    return end < size ? (int)end : size;
}

/* Append the cards of all leaders from [rank] to before [end] that are not [known]. */
static int collect(const struct card_exchange *cards, int rank, int end, bool *known, struct blob_list *list,
                   struct hvd_error *err)
{
    int rc = HVD_OK;
    while (rc == HVD_OK) {
        struct read_card read = {.blob = {NULL, 0}};
        rc = read_next(cards, &rank, end, known, &read, err);
        if (rc != HVD_OK || rank == end)
            break;
        rc = blob_list_append(list, rank, read.blob.bytes, read.blob.length, err);
        read_card_free(&read);
    }
    return rc;
}

/* Hand on the cards of this rank's block, unless a lower leader does. */
static int hand_on_block(const struct card_exchange *cards, bool *known, struct hvd_error *err)
{
    struct read_card read = {.blob = {NULL, 0}};
    struct blob_list list = {NULL, 0, 0};
    int own = cards->exchange.peer_table->rank, rank = own / cards->block * cards->block;
    int rc = read_next(cards, &rank, own + 1, known, &read, err);
    if (rc == HVD_OK && rank == own)
        rc = blob_list_append(&list, own, read.blob.bytes, read.blob.length, err);
    read_card_free(&read);
    if (rc != HVD_OK || rank != own)
        return rc;
    rc = collect(cards, own, end_of_block(cards, own), known, &list, err);
    int put = blob_list_put(&cards->exchange, NODE_CARD, &list, rc == HVD_OK ? err : NULL);
    blob_list_free(&list);
    return rc == HVD_OK ? put : rc;
}

int card_exchange_hand_on(struct card_exchange *cards, struct hvd_error *err)
{
    int rc = find_block(cards, err);
    if (rc != HVD_OK || !card_exchange_has_two_rounds(cards))
        return rc;
    bool *known = alloc_known(cards, err);
    rc = known == NULL ? HVD_ERR_NO_MEMORY : hand_on_block(cards, known, err);
    free(known);
    return rc;
}

/* Append the cards of the block whose first leader is [rank]. */
static int read_block(const struct card_exchange *cards, int rank, bool *known, struct blob_list *list,
                      struct hvd_error *err)
{
    struct blob_list block = {NULL, 0, 0};
    struct blob_entry entry;
    size_t at = 0;
    int rc = blob_list_get(&cards->exchange, rank, NODE_CARD, &block, err);
    while (rc == HVD_OK && blob_list_next(&block, &at, &entry)) {
        struct node_card card;
        rc = node_card_of_entry(&card, cards->exchange.peer_table->size, &entry, err);
        if (rc != HVD_OK)
            break;
        mark_known(&card, known);
        node_card_free(&card);
    }
    if (rc == HVD_OK)
        rc = blob_list_join(list, &block, err);
    blob_list_free(&block);
    return rc;
}

static int read_blocks(const struct card_exchange *cards, bool *known, struct blob_list *list,
                       struct hvd_error *err)
{
    int size = cards->exchange.peer_table->size, rc = HVD_OK, head = 0, end = 0;
    for (int rank = 0; rc == HVD_OK && rank < size; rank++) {
        if (!known[rank] && rank >= end) {
            head = rank;
            end = end_of_block(cards, rank);
            rc = read_block(cards, head, known, list, err);
        }
        if (rc == HVD_OK && !known[rank])
            rc =
                error_set(err, HVD_ERR_INVALID,
                          "rank %d, which hands on the cards of the nodes that ranks %d to %d lead, has none "
                          "of the node of rank %d",
                          head, head, end - 1, rank);
    }
    return rc;
}

/* One leader's entering of all cards. */
struct card_reader {
    const struct peer_info *own;
    struct peer_table *peer_table;
    struct leader_list *leaders;
    bool *known; /* [size]: the rank is on a node that was entered */
};

/* Enter the ranks of a card. HVD_ERR_INVALID if another node has one of them already. */
static int enter_ranks(const struct card_reader *reader, const struct node_card *card, struct hvd_error *err)
{
    struct peer_table *peer_table = reader->peer_table;
    for (int i = 0; i < card->member_count; i++) {
        const struct node_card_member *member = &card->members[i];
        if (reader->known[member->rank])
            return error_set(err, HVD_ERR_INVALID,
                             "rank %d and another rank both say that they lead the node of rank %d",
                             card->leader, member->rank);
        struct peer *peer = &peer_table->peers[member->rank];
        reader->known[member->rank] = true;
        *peer = card->info->peer;
        peer->pid = member->pid;
        peer->port = member->port;
        peer->message_port = member->message_port;
        peer->leader = peer_table->node_of_rank[member->rank] = card->leader;
    }
    return HVD_OK;
}

static int enter_card(const struct card_reader *reader, const struct node_card *card, struct hvd_error *err)
{
    struct leader_list *leaders = reader->leaders;
    int last = leaders->count > 0 ? leaders->ranks[leaders->count - 1] : -1;
    if (card->info == NULL || card->leader <= last)
        return error_set(err, HVD_ERR_INVALID,
                         "after the card of the node that rank %d leads comes one of rank %d, which "
                         "is no leader above it",
                         last, card->leader);
    if (!peer_info_same_ranks(reader->own, card->info))
        return card->leader == 0 ? peer_exchange_list_mismatch(reader->own, card->info, err)
                                 : peer_exchange_list_mismatch(card->info, reader->own, err);
    int rc = enter_ranks(reader, card, err);
    if (rc != HVD_OK)
        return rc;
    if (leaders->count == 0)
        leaders->warnings = card->warnings;
    leaders->ranks[leaders->count++] = card->leader;
    return HVD_OK;
}

/* All cards are entered before one of them ends the start, so that every leader names the same rank. */
static int enter_cards(const struct card_reader *reader, const struct blob_list *list, struct hvd_error *err)
{
    struct blob_entry blob;
    int rc = HVD_OK, result = HVD_OK;
    size_t at = 0;
    while (rc == HVD_OK && blob_list_next(list, &at, &blob)) {
        struct node_card card;
        rc = node_card_of_entry(&card, reader->peer_table->size, &blob, err);
        if (rc != HVD_OK)
            return rc;
        rc = enter_card(reader, &card, err);
        if (rc == HVD_OK && result == HVD_OK)
            result = start_report_result(reader->peer_table, card.leader, &card.report, err);
        node_card_free(&card);
    }
    return rc == HVD_OK ? result : rc;
}

int card_exchange_read(const struct card_exchange *cards, const struct peer_info *own,
                       struct peer_table *peer_table, struct leader_list *leaders, struct blob_list *list,
                       struct hvd_error *err)
{
    struct hvd_error why = {""};
    struct card_reader reader = {own, peer_table, leaders, alloc_known(cards, err)};
    leaders->ranks = calloc((size_t)peer_table->size, sizeof(*leaders->ranks));
    if (reader.known == NULL || leaders->ranks == NULL) {
        free(reader.known);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", peer_table->size);
    }
    int rc = card_exchange_has_two_rounds(cards)
                 ? read_blocks(cards, reader.known, list, &why)
                 : collect(cards, 0, peer_table->size, reader.known, list, &why);
    memset(reader.known, 0, (size_t)peer_table->size * sizeof(*reader.known));
    int entered = enter_cards(&reader, list, err); /* tells why a rank may have put none */
    free(reader.known);
    if (entered == HVD_OK && rc != HVD_OK)
        return error_set(err, rc, "%s", why.text);
    peer_exchange_use_loopback(peer_table, own->peer.node_key);
    return entered;
}
