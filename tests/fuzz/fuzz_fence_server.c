/* fuzz_fence_server.c: what a rank sends to rank 0 in wire-up: pages, and questions for blobs. It holds the
 * key, but its hvd may be another. An input is one byte and a list of messages, each behind its length in one
 * byte. If that first byte is 0, an empty message comes last, which rank 0 refuses. */
#include <assert.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/listener.h"
#include "fuzz.h"
#include "fuzz_dial.h"
#include "pmix_shim/env_fence.h"

/* How long rank 0 waits in its fence, where a bad message ends it, and where nothing more may come. */
#define ENDED_US INT64_C(5000000)
#define QUIET_US INT64_C(5000)

static int listener = -1;
static const struct env_job job = {.size = 2, .listener = &listener, .master_host = "h", .master_port = "1"};

/* As rank 1. False: it is not let in. */
static bool join(struct secure_channel *channel)
{
    const struct handshake_claim claim = {.purpose = HANDSHAKE_PURPOSE_FENCE, .from = 1, .size = 2};
    struct handshake handshake;
    int fd = dial(listener_port(listener));
    if (fd < 0)
        return false;
    handshake_connect(&handshake, job.key, &claim, fd);
    enum handshake_result result = handshake_advance(&handshake);
    while (result == HANDSHAKE_WAITS && clock_us() < handshake.deadline_us) {
        struct pollfd poller = {.fd = handshake.fd, .events = handshake_poll_events(&handshake)};
        poll(&poller, 1, clock_ms_until(handshake.deadline_us));
        result = handshake_advance(&handshake);
    }
    bool open = result == HANDSHAKE_DONE && secure_channel_open(channel, &handshake, NULL) == HVD_OK;
    handshake_close(&handshake);
    return open;
}

/* The first question makes it a rank, whose bad messages end the fence. */
static void say(struct secure_channel *channel, const unsigned char *bytes, size_t length)
{
    static const struct fence_message first = {FENCE_ASK, 0, 0, (const unsigned char *)"key", 3};
    fence_message_send(channel, &first, NULL);
    while (length > 0) {
        size_t part = bytes[0] < length ? bytes[0] : length - 1;
        secure_channel_send(channel, bytes + 1, part, NULL);
        bytes += part + 1;
        length -= part + 1;
    }
}

/* Rank 0 comes to its fence. */
static void fence(struct fence_server *server, int64_t limit_us)
{
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    int *ranks = NULL, count = 0;
    int rc = fence_server_fence(server, clock_us() + limit_us, &err);
    assert(rc == HVD_OK || (rc < 0 && err.text[0] != 0));
    if (rc == HVD_OK && fence_server_get(server, 1, "hvd.0.key", &blob, &err) == HVD_OK)
        assert(blob.length <= WIREUP_BLOB_BYTES);
    if (rc == HVD_OK && fence_server_node_ranks(server, &ranks, &count, &err) == HVD_OK)
        assert(count >= 1 && count <= job.size && ranks[0] == 0);
    free(blob.bytes);
    free(ranks);
}

static void serve(bool ends, const unsigned char *bytes, size_t length)
{
    struct secure_channel channel = {.fd = -1};
    struct fence_server *server = NULL;
    struct store *store = store_create(job.size);
    if (store == NULL)
        return;
    store_put(store, "env.node", "its node", 8, NULL);
    store_put(store, "key", "what rank 1 asks for", 20, NULL);
    if (fence_server_open(&server, &job, store, NULL) == HVD_OK) {
        if (join(&channel)) {
            say(&channel, bytes, length);
            if (ends)
                secure_channel_send(&channel, "", 0, NULL);
            fence(server, ends ? ENDED_US : QUIET_US);
        }
        secure_channel_close(&channel); /* rank 0 waits for ranks that may ask */
        fence_server_close(server);
    }
    store_destroy(store);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    if (length < 1 || sodium_init() < 0)
        return 0;
    listener = listener_open(0);
    if (listener < 0)
        return 0;
    serve(bytes[0] == 0, bytes + 1, length - 1);
    close(listener);
    return 0;
}
