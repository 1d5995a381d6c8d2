/* fuzz_fence.c: what ranks send to rank 0 in the fence of wire-up, and what it answers: messages, pages of
 * blobs, and which ranks are on a node; and what the launcher of an elastic job answers, the rank's place in
 * an epoch. All come from holders of the key, whose hvd may be another. */
#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "fuzz_channel.h"
#include "pmix_shim/node_ranks.h"

#define SIZE 4

static void try_node_ranks(const unsigned char *bytes, size_t length)
{
    const struct env_job job = {.rank = 2, .size = 40};
    struct hvd_error err = {""};
    int *ranks = NULL, count = 0;
    if (node_ranks_decode(bytes, length, &job, &ranks, &count, &err) != HVD_OK) {
        assert(err.text[0] != 0 && ranks == NULL);
        return;
    }
    for (int i = 0; i < count; i++)
        assert(ranks[i] >= 0 && ranks[i] < job.size && (i == 0 || ranks[i] > ranks[i - 1]));
    free(ranks);
}

/* All ranks put the same page, of which rank 0 finds out which of them share a node. */
static void try_page(const unsigned char *bytes, size_t length)
{
    struct store *store = store_create(SIZE);
    struct node_ranks node_ranks = {0};
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    unsigned char *encoded = NULL;
    size_t encoded_length = 0;
    int rc = store == NULL ? HVD_ERR_NO_MEMORY : HVD_OK;
    for (int rank = 0; rc == HVD_OK && rank < SIZE; rank++)
        rc = store_merge(store, rank, bytes, length, &err);
    if (rc == HVD_OK && store_get(store, 1, "hvd.0.key", &blob, &err) == HVD_OK)
        assert(blob.length <= WIREUP_BLOB_BYTES);
    free(blob.bytes);
    if (rc == HVD_OK && node_ranks_read(&node_ranks, store, SIZE, &err) == HVD_OK) {
        assert(node_ranks_encode(&node_ranks, 2, &encoded, &encoded_length, &err) == HVD_OK);
        try_node_ranks(encoded, encoded_length);
        free(encoded);
    } else {
        assert(err.text[0] != 0 || store == NULL);
    }
    node_ranks_free(&node_ranks);
    store_destroy(store);
}

static void try_place(const struct fence_message *message)
{
    struct fence_place place = {.size = -1};
    struct hvd_error err = {""};
    unsigned char bytes[FENCE_PLACE_BYTES];
    if (fence_place_decode(&place, message, SIZE, &err) != HVD_OK) {
        assert(err.text[0] != 0 && place.size == -1);
        return;
    }
    assert(place.rank >= 0 && place.rank < place.size && place.size <= SIZE);
    struct fence_message again = fence_place_encode(&place, message->number, bytes);
    assert(again.rank == message->rank && again.length == message->length);
    assert(memcmp(again.bytes, message->bytes, again.length) == 0);
}

/* The message of a true peer, with whatever contents. */
static void try_message(const unsigned char *bytes, size_t length)
{
    struct handshake ends[2];
    struct secure_channel from, to;
    struct fence_message message;
    struct hvd_error err = {""};
    if (!make_ends(ends))
        return;
    assert(secure_channel_open(&from, &ends[0], NULL) == HVD_OK);
    assert(secure_channel_open(&to, &ends[1], NULL) == HVD_OK);
    assert(secure_channel_send(&from, bytes, length, &err) == HVD_OK);
    if (fence_message_receive(&to, &message, &err) == HVD_OK) {
        assert(message.length == length - FENCE_HEAD_BYTES);
        try_page(message.bytes, message.length);
        try_node_ranks(message.bytes, message.length);
        try_place(&message);
    } else {
        assert(err.text[0] != 0 && length < FENCE_HEAD_BYTES);
    }
    secure_channel_close(&from);
    secure_channel_close(&to);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    if (sodium_init() < 0)
        return 0;
    try_page(bytes, length);
    try_node_ranks(bytes, length);
    try_message(bytes, length);
    return 0;
}
