/* fuzz_fence_client.c: what rank 0, or the launcher of an elastic job, answers a rank in wire-up. It holds
 * the key, but its hvd may be another. An input is a list of messages, each with its length before it, in one
 * byte.
 */
#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#include "fuzz.h"
#include "fuzz_channel.h"
#include "pmix_shim/env_fence.h"

#define SIZE 4

/* All that the server says; then nothing more comes. */
static void answer(struct handshake *server, const unsigned char *bytes, size_t length)
{
    struct secure_channel channel;
    assert(secure_channel_open(&channel, server, NULL) == HVD_OK);
    while (length > 0) {
        size_t part = bytes[0] < length ? bytes[0] : length - 1;
        assert(secure_channel_send(&channel, bytes + 1, part, NULL) == HVD_OK);
        bytes += part + 1;
        length -= part + 1;
    }
    shutdown(channel.fd, SHUT_WR);
    server->fd = channel.fd; /* open until the client is done */
    channel.fd = -1;
    secure_channel_close(&channel);
}

static void expect_sentence(int rc, const struct hvd_error *err)
{
    assert(rc == HVD_OK || (rc < 0 && err->text[0] != 0));
    for (const char *at = err->text; *at != 0; at++)
        assert((unsigned char)*at >= ' ' && *at != 0x7f); /* nothing that a terminal obeys */
}

static void read_node_ranks(const struct fence_client *client)
{
    int *ranks = NULL, count = 0;
    assert(fence_client_node_ranks(client, &ranks, &count, NULL) == HVD_OK);
    assert(count > 0);
    for (int i = 0; i < count; i++)
        assert(ranks[i] >= 0 && ranks[i] < SIZE && (i == 0 || ranks[i] > ranks[i - 1]));
    free(ranks);
}

/* The first fence tells the ranks of this node. */
static void fence(struct fence_client *client, bool first)
{
    struct store *store = store_create(SIZE);
    struct hvd_error err = {""};
    if (store == NULL)
        return;
    int rc = fence_client_fence(client, store, 0, &err);
    expect_sentence(rc, &err);
    if (rc == HVD_OK && first)
        read_node_ranks(client);
    store_destroy(store);
}

static void get(struct fence_client *client)
{
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    int rc = fence_client_get(client, 2, "key", 0, &blob, &err);
    expect_sentence(rc, &err);
    assert((rc == HVD_OK) == (blob.bytes != NULL));
    free(blob.bytes);
}

static void ask(struct fence_client *client, uint32_t kind)
{
    static const struct fence_message question = {.kind = FENCE_NEXT_EPOCH};
    struct fence_message message;
    struct hvd_error err = {""};
    int rc = fence_client_ask(client, &question, kind, 0, &message, &err);
    expect_sentence(rc, &err);
    assert(rc != HVD_OK || message.kind == kind);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static const struct env_job job = {.rank = 1, .size = SIZE, .master_host = "h", .master_port = "1"};
    struct handshake ends[2];
    if (sodium_init() < 0 || !make_ends(ends))
        return 0;
    answer(&ends[0], bytes, length);
    struct fence_client *client = fence_client_of(&job, &ends[1]);
    if (client != NULL) {
        fence(client, true);
        get(client);
        fence(client, false);
        ask(client, FENCE_EPOCH);
        ask(client, FENCE_NEWS);
    }
    fence_client_close(client);
    handshake_close(&ends[0]);
    handshake_close(&ends[1]);
    return 0;
}
