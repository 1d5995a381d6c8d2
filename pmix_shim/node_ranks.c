/* node_ranks.c: which ranks of a job are on which node, by the identities that they put before the first
 * fence.
 */
#include "pmix_shim/node_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/identity.h"

#define KEY            "env.node"
#define IDENTITY_BYTES 8
#define RANK_BYTES     4

struct place {
    uint64_t node;
    int rank;
};

int node_ranks_put(struct store *store, struct hvd_error *err)
{
    unsigned char bytes[IDENTITY_BYTES];
    struct encoder encoder = {bytes, sizeof(bytes), false};
    encode_number(&encoder, identity_of_node(), IDENTITY_BYTES);
    return store_put(store, KEY, bytes, sizeof(bytes), err);
}

static int compare_places(const void *a, const void *b)
{
    const struct place *first = a, *second = b;
    if (first->node != second->node)
        return first->node < second->node ? -1 : 1;
    return first->rank - second->rank;
}

static int read_places(const struct store *store, int size, struct place *places, struct hvd_error *err)
{
    for (int rank = 0; rank < size; rank++) {
        struct wireup_blob blob = {NULL, 0};
        int rc = store_get(store, rank, KEY, &blob, err);
        if (rc != HVD_OK)
            return rc;
        struct decoder decoder = {blob.bytes, blob.length, false};
        places[rank] = (struct place){decode_number(&decoder, IDENTITY_BYTES), rank};
        free(blob.bytes);
        if (decoder.failed || decoder.left > 0)
            return error_set(err, HVD_ERR_INVALID,
                             "rank %d says in %zu bytes on which node it is; expected %d", rank, blob.length,
                             IDENTITY_BYTES);
    }
    qsort(places, (size_t)size, sizeof(places[0]), compare_places);
    return HVD_OK;
}

int node_ranks_read(struct node_ranks *node_ranks, const struct store *store, int size, struct hvd_error *err)
{
    struct node_ranks read = {.size = size};
    struct place *places = calloc((size_t)size, sizeof(*places));
    read.ranks = calloc((size_t)size, sizeof(*read.ranks));
    read.begins = calloc((size_t)size, sizeof(*read.begins));
    int rc = places == NULL || read.ranks == NULL || read.begins == NULL
                 ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", size)
                 : read_places(store, size, places, err);
    for (int i = 0, begin = 0; rc == HVD_OK && i < size; i++) {
        if (places[i].node != places[begin].node)
            begin = i;
        read.ranks[i] = places[i].rank;
        read.begins[places[i].rank] = begin;
    }
    free(places);
    if (rc == HVD_OK)
        *node_ranks = read;
    else
        node_ranks_free(&read);
    return rc;
}

void node_ranks_free(struct node_ranks *node_ranks)
{
    free(node_ranks->ranks);
    free(node_ranks->begins);
    *node_ranks = (struct node_ranks){0};
}

/* How many ranks are on the node whose ranks begin there. */
static int count_from(const struct node_ranks *node_ranks, int begin)
{
    int count = 0;
    while (begin + count < node_ranks->size && node_ranks->begins[node_ranks->ranks[begin + count]] == begin)
        count++;
    return count;
}

int node_ranks_copy(const struct node_ranks *node_ranks, int rank, int **ranksp, int *countp,
                    struct hvd_error *err)
{
    *ranksp = NULL;
    *countp = 0;
    if (node_ranks->size == 0)
        return HVD_OK;
    int begin = node_ranks->begins[rank];
    int count = count_from(node_ranks, begin);
    *ranksp = malloc((size_t)count * sizeof(**ranksp));
    if (*ranksp == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", count);
    memcpy(*ranksp, node_ranks->ranks + begin, (size_t)count * sizeof(**ranksp));
    *countp = count;
    return HVD_OK;
}

int node_ranks_encode(const struct node_ranks *node_ranks, int rank, unsigned char **bytesp, size_t *lengthp,
                      struct hvd_error *err)
{
    int begin = node_ranks->begins[rank];
    int count = count_from(node_ranks, begin);
    *lengthp = (size_t)count * RANK_BYTES;
    *bytesp = malloc(*lengthp);
    if (*bytesp == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", count);
    struct encoder encoder = {*bytesp, *lengthp, false};
    for (int i = 0; i < count; i++)
        encode_number(&encoder, (uint64_t)node_ranks->ranks[begin + i], RANK_BYTES);
    return HVD_OK;
}

int node_ranks_decode(const unsigned char *bytes, size_t length, const struct env_job *job, int **ranksp,
                      int *countp, struct hvd_error *err)
{
    size_t count = length / RANK_BYTES;
    struct decoder decoder = {bytes, length, false};
    bool own_seen = false;
    int *ranks = count > 0 && count <= (size_t)job->size ? calloc(count, sizeof(*ranks)) : NULL;
    for (size_t i = 0; ranks != NULL && i < count; i++) {
        ranks[i] = (int)decode_at_most(&decoder, RANK_BYTES, (uint64_t)job->size - 1);
        decode_check(&decoder, i == 0 || ranks[i] > ranks[i - 1]);
        own_seen = own_seen || ranks[i] == job->rank;
    }
    if (ranks == NULL || decoder.failed || decoder.left > 0 || !own_seen) {
        free(ranks);
        return error_set(err, HVD_ERR_INVALID, "it sent a list of the ranks of this node that is damaged");
    }
    *ranksp = ranks;
    *countp = (int)count;
    return HVD_OK;
}
