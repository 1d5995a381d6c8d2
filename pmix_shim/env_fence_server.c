/* env_fence_server.c: rank 0's end of the env provider's fence: a thread that collects the page of every
 * rank, and gives the ranks the blobs that they ask for. */
#include "config.h"
#include "pmix_shim/env_fence_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/news.h"
#include "base/stack.h"

/* Rank 0 gives up this much before the other ranks do, so that it can tell them which ranks are missing. */
#define MARGIN_US INT64_C(500000)
/* At the end, how long ranks may take to ask for what they need still, and to receive it. */
#define LEAVE_US INT64_C(1000000)
/* How long rank 0 waits at least, and a quarter of its time, until it says for whom. */
#define TELL_US INT64_C(5000000)

/* ---- The end of the job ------------------------------------------------------------------------- */

static void fail_fence(struct fence_server *fence_server, int status, const struct hvd_error *why)
{
    struct fence_message message = {FENCE_FAIL, (uint32_t)-status, 0, (const unsigned char *)why->text,
                                    strlen(why->text)};
    if (fence_server->status != HVD_OK)
        return;
    fence_server->status = status;
    fence_server->why = *why;
    /* other processes only see their connection close */
    for (int i = 0; i < fence_server->peer_count; i++)
        if (fence_server->peers[i].known && fence_server->peers[i].gone[0] == 0)
            fence_message_send(&fence_server->peers[i].channel, &message, NULL);
    pthread_cond_broadcast(&fence_server->changed);
}

/* A rank's connection has ended. It may have left after the last fence; in a fence that ends the job. */
static void lose(struct fence_peer *peer, const char *why)
{
    snprintf(peer->gone, sizeof(peer->gone), "%.159s", why);
    secure_channel_close(&peer->channel);
}

static void fail_for_lost_rank(struct fence_server *fence_server)
{
    struct hvd_error why = {""};
    for (int i = 0; i < fence_server->peer_count; i++) {
        const struct fence_peer *peer = &fence_server->peers[i];
        if (peer->gone[0] == 0)
            continue;
        fail_fence(fence_server,
                   error_set(&why, HVD_ERR_RANK_LOST, "rank %u at %s ended before all ranks had joined: %s",
                             peer->handshake.claim.from, peer->from, peer->gone),
                   &why);
        return;
    }
}

/* "1, 4, 5 and 12 more" */
static void list_missing(const struct fence_server *fence_server, char *text, size_t text_bytes)
{
    size_t used = 0;
    int named = 0;
    text[0] = 0;
    for (int rank = 1; rank < fence_server->job->size && named < 8; rank++) {
        int peer = fence_find_rank(fence_server, rank);
        if (peer >= 0 && fence_server->peers[peer].arrived)
            continue;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", named == 0 ? "" : ", ", rank);
        named++;
    }
    if (fence_server->missing > named)
        snprintf(text + used, text_bytes - used, " and %d more", fence_server->missing - named);
}

static void fail_for_missing_ranks(struct fence_server *fence_server)
{
    char names[160];
    struct hvd_error why = {""};
    list_missing(fence_server, names, sizeof(names));
    fail_fence(
        fence_server,
        error_set(&why, HVD_ERR_TIMEOUT,
                  "%d of %d ranks did not join in time: rank %s; --hvd-start-timeout gives them longer%s",
                  fence_server->missing, fence_server->job->size, names,
                  getenv("SLURM_STEP_ID") != NULL ? ", and srun -K ends the step where some never come" : ""),
        &why);
}

/* Once, while there is time left to look at these ranks and their nodes. */
static void tell_of_missing_if_due(struct fence_server *fence_server)
{
    char names[160];
    if (!fence_server->inside || fence_server->fence != 1 || clock_us() < fence_server->tell_us)
        return;
    fence_server->tell_us = INT64_MAX;
    list_missing(fence_server, names, sizeof(names));
    log_write(fence_server->job->log, LOG_WARN, "wire-up", "rank 0 still waits for %d of %d ranks: rank %s",
              fence_server->missing, fence_server->job->size, names);
}

/* ---- Messages of a rank ------------------------------------------------------------------------- */

static int take_page(struct fence_server *fence_server, struct fence_peer *peer,
                     const struct fence_message *message, struct hvd_error *why)
{
    uint32_t rank = peer->handshake.claim.from;
    if (peer->arrived || message->number != fence_server->fence || message->rank != rank)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it is in fence %u, rank 0 is in fence %u; do all ranks run the same hvd?",
                         message->number, fence_server->fence);
    int rc = store_merge(fence_server->store, (int)rank, message->bytes, message->length, why);
    if (rc != HVD_OK)
        return rc;
    peer->arrived = true;
    fence_server->missing--;
    return HVD_OK;
}

/* Send the blob that the rank asks for, or why there is none. */
static int answer(const struct fence_server *fence_server, struct fence_peer *peer,
                  const struct fence_message *question, struct hvd_error *why)
{
    char key[STORE_KEY_BYTES + 1] = "";
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error none = {""};
    if (question->length > STORE_KEY_BYTES)
        return error_set(why, HVD_ERR_INVALID, "it asks for a key of %zu bytes; expected at most %d",
                         question->length, STORE_KEY_BYTES);
    memcpy(key, question->bytes, question->length);
    int rank = question->rank <= INT32_MAX ? (int)question->rank : -1;
    int rc = store_get(fence_server->store, rank, key, &blob, &none);
    struct fence_message message = {FENCE_BLOB, (uint32_t)-rc, question->rank, blob.bytes, blob.length};
    if (rc != HVD_OK) {
        message.bytes = (const unsigned char *)none.text;
        message.length = strlen(none.text);
    }
    rc = fence_message_send(&peer->channel, &message, why);
    free(blob.bytes);
    return rc;
}

/* Take what has come of a connection whose handshake is done. The first message is a page. */
static int take_messages(struct fence_server *fence_server, struct fence_peer *peer, struct hvd_error *why)
{
    for (;;) {
        struct fence_message message;
        int rc = fence_message_receive(&peer->channel, &message, why);
        if (rc != HVD_OK)
            return rc;
        if (!peer->known) {
            peer->known = true;
            rc = fence_check_identity(fence_server, peer, why);
            if (rc != HVD_OK)
                return rc;
        }
        if (message.kind == FENCE_PAGE)
            rc = take_page(fence_server, peer, &message, why);
        else if (message.kind == FENCE_ASK)
            rc = answer(fence_server, peer, &message, why);
        else
            rc = error_set(why, HVD_ERR_MISMATCH,
                           "it sent a message of kind %u; do all ranks run the same hvd?", message.kind);
        if (rc != HVD_OK)
            return rc;
    }
}

/* Take one step with a peer after poll returned [events]. */
static int step(struct fence_server *fence_server, struct fence_peer *peer, short events,
                struct hvd_error *why)
{
    int rc = HVD_OK;
    if (!peer->known && clock_us() > peer->handshake.deadline_us)
        return error_set(why, HVD_ERR_TIMEOUT, "it says nothing");
    if ((events & POLLOUT) != 0 && peer->channel.fd >= 0)
        rc = secure_channel_flush(&peer->channel, why);
    if (rc < 0 || (events & (POLLIN | POLLOUT | POLLHUP | POLLERR)) == 0)
        return rc;
    rc = peer->channel.fd < 0 ? fence_authenticate(fence_server, peer, why) : HVD_OK;
    return rc == HVD_OK ? take_messages(fence_server, peer, why) : rc;
}

/* A connection that fails before its first page is dropped with a warning. A rank that breaks the rules ends
 * the job. */
static void serve_peer(struct fence_server *fence_server, int i, short events)
{
    struct fence_peer *peer = &fence_server->peers[i];
    struct hvd_error why = {""}, sentence = {""};
    if (peer->gone[0] != 0)
        return;
    int rc = step(fence_server, peer, events, &why);
    if (rc >= 0)
        return;
    if (!peer->known) {
        fence_drop_peer(fence_server, i, why.text);
    } else if (rc == HVD_ERR_RANK_LOST || rc == HVD_ERR_SYSTEM) {
        lose(peer, why.text);
    } else {
        fail_fence(
            fence_server,
            error_set(&sentence, rc, "rank %u at %s: %s", peer->handshake.claim.from, peer->from, why.text),
            &sentence);
    }
}

/* ---- The fence ---------------------------------------------------------------------------------- */

/* All ranks are in the fence: let them go on. The first time each learns which ranks are on its node. */
static int release(struct fence_server *fence_server, struct hvd_error *err)
{
    unsigned char *bytes = NULL;
    int rc = HVD_OK;
    if (fence_server->fence == 1)
        rc = node_ranks_read(&fence_server->node_ranks, fence_server->store, fence_server->job->size, err);
    for (int i = 0; rc == HVD_OK && i < fence_server->peer_count; i++) {
        struct fence_peer *peer = &fence_server->peers[i];
        struct fence_message message = {.kind = FENCE_DONE, .number = fence_server->fence};
        struct hvd_error why = {""};
        if (!peer->known)
            continue;
        peer->arrived = false;
        if (fence_server->fence == 1)
            rc = node_ranks_encode(&fence_server->node_ranks, (int)peer->handshake.claim.from, &bytes,
                                   &message.length, err);
        message.bytes = bytes;
        if (rc == HVD_OK && fence_message_send(&peer->channel, &message, &why) != HVD_OK)
            lose(peer, why.text);
        free(bytes);
        bytes = NULL;
    }
    if (rc != HVD_OK)
        return rc;
    fence_server->fence++;
    fence_server->missing = fence_server->job->size - 1;
    fence_server->inside = false;
    pthread_cond_broadcast(&fence_server->changed);
    return HVD_OK;
}

/* Rank 0 is in the fence: has it come to an end? */
static void conclude(struct fence_server *fence_server)
{
    struct hvd_error why = {""};
    if (!fence_server->inside || fence_server->status != HVD_OK)
        return;
    fail_for_lost_rank(fence_server);
    if (fence_server->status == HVD_OK && fence_server->missing == 0) {
        int rc = release(fence_server, &why);
        if (rc != HVD_OK)
            fail_fence(fence_server, rc, &why);
    } else if (clock_us() >= fence_server->deadline_us) {
        fail_for_missing_ranks(fence_server);
    }
}

/* ---- The thread --------------------------------------------------------------------------------- */

/* What to poll for. After a failure only what is left is sent. */
static struct pollfd poller_of(const struct fence_server *fence_server, const struct fence_peer *peer)
{
    short out = peer->channel.out.length > 0 ? POLLOUT : 0;
    if (fence_server->status != HVD_OK && out == 0)
        return (struct pollfd){.fd = -1};
    if (peer->channel.fd < 0 && peer->gone[0] == 0)
        return (struct pollfd){.fd = peer->handshake.fd, .events = handshake_poll_events(&peer->handshake)};
    return (struct pollfd){.fd = peer->channel.fd, .events = (short)(POLLIN | out)};
}

/* Does a rank wait for what was sent, or may it still ask, as long as no failure has ended wire-up? */
static bool is_needed(const struct fence_server *fence_server)
{
    for (int i = 0; i < fence_server->peer_count; i++) {
        const struct fence_peer *peer = &fence_server->peers[i];
        bool may_ask = fence_server->status == HVD_OK && peer->known && peer->gone[0] == 0;
        if (may_ask || peer->channel.out.length > 0)
            return true;
    }
    return false;
}

/* Where the pollers of the peers begin. */
enum { POLL_WAKE, POLL_NEWS, POLL_PEERS };

/* Fill the pollers: rank 0's wake-up, the peers, and the listener if connections are accepted. In the first
 * fence all ranks have come: who connects later is a rank of the next start, before rank 0 has closed this
 * one. Returns when the thread has to look again at the latest. */
static int64_t fill_pollers(struct fence_server *fence_server, bool *acceptedp)
{
    int64_t wake_us = fence_server->inside || fence_server->over ? fence_server->deadline_us : INT64_MAX;
    if (fence_server->inside && fence_server->fence == 1 && fence_server->tell_us < wake_us)
        wake_us = fence_server->tell_us;
    int count = fence_server->peer_count;
    bool waits = clock_us() < fence_server->accept_us;
    fence_server->pollers[POLL_WAKE] = (struct pollfd){.fd = fence_server->wake_fd, .events = POLLIN};
    fence_server->pollers[POLL_NEWS] =
        news_poller(fence_server->status == HVD_OK ? fence_server->job->news : NULL);
    for (int i = 0; i < count; i++) {
        const struct fence_peer *peer = &fence_server->peers[i];
        fence_server->pollers[POLL_PEERS + i] = poller_of(fence_server, peer);
        if (!peer->known && peer->handshake.deadline_us < wake_us)
            wake_us = peer->handshake.deadline_us + 1;
    }
    if (waits && fence_server->accept_us < wake_us)
        wake_us = fence_server->accept_us;
    fence_server->pollers[POLL_PEERS + count] =
        (struct pollfd){.fd = fence_server->listener, .events = POLLIN};
    *acceptedp = !waits && fence_server->status == HVD_OK && fence_server->fence == 1;
    return fence_server->status == HVD_OK || fence_server->over ? wake_us : INT64_MAX;
}

/* One round of the thread, which holds the lock except while it waits. */
static void serve_round(struct fence_server *fence_server)
{
    struct hvd_error why = {""};
    uint64_t wakes = 0;
    bool accepts = false;
    int count = fence_server->peer_count;
    int64_t wake_us = fill_pollers(fence_server, &accepts);
    pthread_mutex_unlock(&fence_server->lock);
    int rc = poll(fence_server->pollers, (nfds_t)(POLL_PEERS + count + accepts), clock_ms_until(wake_us));
    int problem = errno;
    pthread_mutex_lock(&fence_server->lock);
    if (rc < 0 && problem != EINTR) {
        errno = problem;
        fail_fence(fence_server, error_set_errno(&why, "rank 0 cannot wait for the other ranks (poll)"),
                   &why);
        return;
    }
    while (read(fence_server->wake_fd, &wakes, sizeof(wakes)) > 0)
        continue;
    /* from the last to the first, as the last peer moves to the index of a dropped one */
    for (int i = count - 1; i >= 0; i--)
        serve_peer(fence_server, i, fence_server->pollers[POLL_PEERS + i].revents);
    if (fence_server->pollers[POLL_NEWS].revents != 0)
        fail_fence(fence_server, news_error(&why), &why);
    rc = accepts ? fence_accept_peers(fence_server, &why) : HVD_OK;
    if (rc != HVD_OK)
        fail_fence(fence_server, rc, &why);
    conclude(fence_server);
    tell_of_missing_if_due(fence_server);
}

static void *serve(void *arg)
{
    struct fence_server *fence_server = arg;
    pthread_mutex_lock(&fence_server->lock);
    while (!fence_server->over || (is_needed(fence_server) && clock_us() < fence_server->deadline_us))
        serve_round(fence_server);
    pthread_mutex_unlock(&fence_server->lock);
    return NULL;
}

static void wake(const struct fence_server *fence_server)
{
    const uint64_t one = 1;
    ssize_t put = write(fence_server->wake_fd, &one, sizeof(one));
    (void)put; /* it can only be full, and then the thread wakes as well */
}

/* ---- What rank 0 calls -------------------------------------------------------------------------- */

static int start_thread(struct fence_server *fence_server, struct hvd_error *err)
{
    if (stack_create_thread(&fence_server->thread, serve, fence_server) != 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "no thread to serve the other ranks at their start");
    fence_server->has_thread = true;
    return HVD_OK;
}

int fence_server_open(struct fence_server **serverp, const struct env_job *job, struct store *store,
                      struct hvd_error *err)
{
    struct fence_server *fence_server = calloc(1, sizeof(*fence_server));
    if (fence_server == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    *fence_server = (struct fence_server){
        .job = job, .store = store, .listener = -1, .wake_fd = -1, .fence = 1, .missing = job->size - 1};
    pthread_mutex_init(&fence_server->lock, NULL);
    pthread_cond_init(&fence_server->changed, NULL);
    int rc = HVD_OK;
    size_t max = (size_t)fence_max_peers(fence_server);
    fence_server->pollers = calloc(POLL_PEERS + max + 1, sizeof(fence_server->pollers[0]));
    if (!fence_peers_create(fence_server) || fence_server->pollers == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    if (rc == HVD_OK)
        rc = fence_listen(fence_server, err);
    if (rc == HVD_OK)
        fence_server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == HVD_OK && fence_server->wake_fd < 0)
        rc = descriptors_are_used_up(errno)
                 ? descriptors_error(err, errno, "rank 0 cannot serve the other ranks", job->size)
                 : error_set_errno(err, "rank 0 cannot serve the other ranks (eventfd)");
    if (rc == HVD_OK)
        rc = start_thread(fence_server, err);
    if (rc == HVD_OK)
        *serverp = fence_server;
    else
        fence_server_close(fence_server);
    return rc;
}

int fence_server_fence(struct fence_server *fence_server, int64_t deadline_us, struct hvd_error *err)
{
    struct store *store = fence_server->store;
    size_t length = 0;
    const void *page = store_page(store, &length);
    int64_t wait_us = deadline_us - clock_us();
    int64_t early_us = wait_us / 10;
    pthread_mutex_lock(&fence_server->lock);
    int rc = store_merge(store, 0, page, length, err);
    fence_server->deadline_us = deadline_us - (early_us < MARGIN_US ? early_us : MARGIN_US);
    fence_server->tell_us = clock_us() + (TELL_US > wait_us / 4 ? TELL_US : wait_us / 4);
    fence_server->inside = rc == HVD_OK;
    wake(fence_server);
    while (fence_server->inside && fence_server->status == HVD_OK)
        pthread_cond_wait(&fence_server->changed, &fence_server->lock);
    if (rc == HVD_OK && fence_server->status != HVD_OK)
        rc = error_set(err, fence_server->status, "%s", fence_server->why.text);
    pthread_mutex_unlock(&fence_server->lock);
    if (rc == HVD_OK)
        store_forget_page(store);
    return rc;
}

int fence_server_get(struct fence_server *fence_server, int rank, const char *key, struct wireup_blob *blob,
                     struct hvd_error *err)
{
    pthread_mutex_lock(&fence_server->lock);
    int rc = store_get(fence_server->store, rank, key, blob, err);
    pthread_mutex_unlock(&fence_server->lock);
    return rc;
}

int fence_server_node_ranks(struct fence_server *fence_server, int **ranksp, int *countp,
                            struct hvd_error *err)
{
    pthread_mutex_lock(&fence_server->lock);
    int rc = node_ranks_copy(&fence_server->node_ranks, 0, ranksp, countp, err);
    pthread_mutex_unlock(&fence_server->lock);
    return rc;
}

void fence_server_close(struct fence_server *fence_server)
{
    if (fence_server == NULL)
        return;
    if (fence_server->has_thread) {
        pthread_mutex_lock(&fence_server->lock);
        fence_server->over = true;
        fence_server->deadline_us = clock_us() + LEAVE_US;
        wake(fence_server);
        pthread_mutex_unlock(&fence_server->lock);
        pthread_join(fence_server->thread, NULL);
    }
    fence_peers_destroy(fence_server);
    descriptors_close(&fence_server->listener);
    descriptors_close(&fence_server->wake_fd);
    drop_report_tell(&fence_server->drop_report, INT64_MAX, fence_server->job->log, "wire-up");
    pthread_cond_destroy(&fence_server->changed);
    pthread_mutex_destroy(&fence_server->lock);
    node_ranks_free(&fence_server->node_ranks);
    free(fence_server->pollers);
    free(fence_server);
}
