/* peer_table.c: who is in the job, and where each rank can be reached. */
#include "net/peer_table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int peer_table_open(struct peer_table *peer_table, const struct hvd_job *job, struct hvd_error *err)
{
    if (job->size < 1 || job->rank < 0 || job->rank >= job->size)
        return error_set(err, HVD_ERR_INVALID, "the launcher says that this is rank %d of %d ranks",
                         job->rank, job->size);
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised");
    struct peer_table fresh = {.rank = job->rank, .size = job->size, .epoch = job->epoch};
    fresh.peers = calloc((size_t)job->size, sizeof(*fresh.peers));
    fresh.node_of_rank = calloc((size_t)job->size, sizeof(*fresh.node_of_rank));
    if (fresh.peers == NULL || fresh.node_of_rank == NULL) {
        peer_table_close(&fresh);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", job->size);
    }
    *peer_table = fresh;
    return HVD_OK;
}

static void drop_peers(struct peer_table *peer_table)
{
    if (peer_table->mapping != NULL) {
        munmap(peer_table->mapping, peer_table->mapping_bytes);
        return;
    }
    free(peer_table->peers);
    free(peer_table->node_of_rank);
}

void peer_table_use_mapping(struct peer_table *peer_table, void *mapping, size_t bytes,
                            const struct peer *peers, const int *node_of_rank)
{
    drop_peers(peer_table);
    peer_table->mapping = mapping;
    peer_table->mapping_bytes = bytes;
    peer_table->peers = (struct peer *)peers;
    peer_table->node_of_rank = (int *)node_of_rank;
}

void peer_table_close(struct peer_table *peer_table)
{
    drop_peers(peer_table);
    sodium_memzero(peer_table, sizeof(*peer_table));
}

void peer_table_rank_name(const struct peer_table *peer_table, int rank, char *text, size_t text_bytes)
{
    bool known = peer_table->peers != NULL && rank >= 0 && rank < peer_table->size &&
                 peer_table->peers[rank].host[0] != 0;
    if (known)
        snprintf(text, text_bytes, "rank %d (%s)", rank, peer_table->peers[rank].host);
    else
        snprintf(text, text_bytes, "rank %d", rank);
}

/* ---- Networks ---- */

struct keyed_rank {
    uint64_t key;
    int rank;
};

static int compare_keyed_ranks(const void *a, const void *b)
{
    const struct keyed_rank *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->rank < right->rank ? -1 : 1;
}

int peer_table_networks(const struct peer_table *peer_table, int *network_of_rank, int *first_ranks)
{
    struct keyed_rank *keyed_ranks = calloc((size_t)peer_table->size, sizeof(*keyed_ranks));
    bool known = true;
    int count = 0, first = 0;
    if (keyed_ranks == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int rank = 0; rank < peer_table->size; rank++) {
        keyed_ranks[rank] = (struct keyed_rank){peer_table->peers[rank].net_key, rank};
        known = known && peer_table->peers[rank].net_key != 0;
    }
    qsort(keyed_ranks, (size_t)peer_table->size, sizeof(*keyed_ranks), compare_keyed_ranks);
    for (int i = 0; i < peer_table->size;
         i++) { /* each rank gets the first rank of its network; numbers follow below */
        if (i == 0 || (known && keyed_ranks[i].key != keyed_ranks[i - 1].key))
            first = keyed_ranks[i].rank;
        network_of_rank[keyed_ranks[i].rank] = known ? first : 0;
    }
    free(keyed_ranks);
    for (int rank = 0; rank < peer_table->size; rank++) {
        bool is_first = network_of_rank[rank] == rank;
        if (is_first)
            first_ranks[count] = rank;
        network_of_rank[rank] = is_first ? count++ : network_of_rank[network_of_rank[rank]];
    }
    return count;
}
