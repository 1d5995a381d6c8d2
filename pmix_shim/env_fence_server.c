/* env_fence_server.c: rank 0's end of the env provider's fence: collects the page of every rank, and sends
 * all pages to each. */
#include "config.h"
#include "pmix_shim/env_fence.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/drop_report.h"
#include "options/parse.h"

/* Connections whose handshake and first page are not done: how many at once, how long each may take, and
 * after which time it gives way where there is no room for another. */
#define MAX_UNAUTHENTICATED       256
#define AUTHENTICATION_TIMEOUT_US INT64_C(10000000)
#define PROOF_US                  INT64_C(100000)
/* Rank 0 gives up this much before the other ranks do, so that it can tell them which ranks are missing. */
#define MARGIN_US INT64_C(500000)

struct fence_peer {
    struct handshake handshake;    /* its claim stays valid after the handshake */
    struct secure_channel channel; /* open once the handshake is done */
    char from[80];
    bool known;     /* its first page has come: its failure is now the loss of a rank, and ends the job */
    bool arrived;   /* its page of this fence has come */
    int sent_pages; /* how many pages of this fence were sent to it */
};

struct fence_server {
    const struct env_job *job;
    int listener;
    uint32_t fence;    /* counts the fences from 1 */
    int missing;       /* ranks whose page of this fence has not come */
    size_t *begins;    /* [size]: the offset in store_pages at which a rank's page of this fence begins */
    int64_t accept_us; /* no connection is accepted earlier */
    struct drop_report drop_report; /* of connections that proved nothing */
    int peer_count;
    struct fence_peer *peers; /* [size - 1 + MAX_UNAUTHENTICATED] */
    struct pollfd *pollers;   /* as many, and one for the listener */
};

static int max_peers(const struct fence_server *fence_server)
{
    return fence_server->job->size - 1 + MAX_UNAUTHENTICATED;
}

/* ---- The listening socket --------------------------------------------------------------------- */

static int try_listen(int family, uint16_t port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = INADDR_ANY};
    const int on = 1;
    const int off = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int rc = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (rc == 0 && family == AF_INET6)
        rc = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (rc == 0)
        rc = family == AF_INET6 ? bind(fd, (struct sockaddr *)&six, sizeof(six))
                                : bind(fd, (struct sockaddr *)&four, sizeof(four));
    if (rc == 0)
        rc = listen(fd, SOMAXCONN);
    if (rc == 0)
        return fd;
    int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

int fence_server_open(struct fence_server **serverp, const struct env_job *job, struct hvd_error *err)
{
    int64_t port = 0;
    const char *why = NULL;
    int rc = HVD_OK;
    struct fence_server *fence_server = calloc(1, sizeof(*fence_server));
    if (fence_server == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    fence_server->job = job;
    fence_server->listener = -1;
    fence_server->begins = calloc((size_t)job->size, sizeof(fence_server->begins[0]));
    fence_server->peers = calloc((size_t)max_peers(fence_server), sizeof(fence_server->peers[0]));
    fence_server->pollers = calloc((size_t)max_peers(fence_server) + 1, sizeof(fence_server->pollers[0]));
    if (fence_server->begins == NULL || fence_server->peers == NULL || fence_server->pollers == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
        goto fail;
    }
    rc = parse_count(job->master_port, &port, &why);
    if (rc == 0)
        fence_server->listener = try_listen(AF_INET6, (uint16_t)port);
    if (fence_server->listener < 0 && errno == EAFNOSUPPORT)
        fence_server->listener = try_listen(AF_INET, (uint16_t)port);
    if (fence_server->listener < 0 && descriptors_are_used_up(errno)) {
        rc = descriptors_error(err, errno, "rank 0 cannot listen for the other ranks", job->size);
        goto fail;
    }
    if (fence_server->listener < 0) {
        rc = error_set(err, HVD_ERR_INVALID,
                       "rank 0 cannot listen on MASTER_PORT=%s: %s; choose a port that no other process uses",
                       job->master_port, strerror(errno));
        goto fail;
    }
    *serverp = fence_server;
    return HVD_OK;
fail:
    fence_server_close(fence_server);
    return rc;
}

static void close_peer(struct fence_peer *peer)
{
    handshake_close(&peer->handshake);
    secure_channel_close(&peer->channel);
}

void fence_server_close(struct fence_server *fence_server)
{
    if (fence_server == NULL)
        return;
    for (int i = 0; i < fence_server->peer_count; i++)
        close_peer(&fence_server->peers[i]);
    if (fence_server->listener >= 0)
        close(fence_server->listener);
    drop_report_tell(&fence_server->drop_report, INT64_MAX, fence_server->job->log, "wire-up");
    free(fence_server->begins);
    free(fence_server->peers);
    free(fence_server->pollers);
    free(fence_server);
}

/* ---- Accept -------------------------------------------------------------------------------- */

static void drop_peer(struct fence_server *fence_server, int i, const char *why)
{
    drop_report_add(&fence_server->drop_report, clock_us(), fence_server->job->log, "wire-up",
                    "dropped a connection from %s: %s", fence_server->peers[i].from, why);
    close_peer(&fence_server->peers[i]);
    fence_server->peers[i] = fence_server->peers[--fence_server->peer_count];
}

/* The oldest connection whose handshake is not done, or -1. */
static int oldest_unproven(const struct fence_server *fence_server)
{
    int oldest = -1;
    for (int i = 0; i < fence_server->peer_count; i++) {
        const struct fence_peer *peers = fence_server->peers;
        if (peers[i].channel.fd < 0 &&
            (oldest < 0 || peers[i].handshake.deadline_us < peers[oldest].handshake.deadline_us))
            oldest = i;
    }
    return oldest;
}

/* There is no room for another connection: the oldest one gives way once it has had the time to prove itself.
 * Returns HVD_OK if another attempt is worth it now, HVD_IN_PROGRESS if it is later, and HVD_ERR_INVALID if
 * none can give way. */
static int make_room(struct fence_server *fence_server, const char *why)
{
    int oldest = oldest_unproven(fence_server);
    if (oldest < 0)
        return HVD_ERR_INVALID;
    int64_t due_us = fence_server->peers[oldest].handshake.deadline_us - AUTHENTICATION_TIMEOUT_US + PROOF_US;
    if (clock_us() < due_us) {
        fence_server->accept_us = due_us;
        return HVD_IN_PROGRESS;
    }
    drop_peer(fence_server, oldest, why);
    return HVD_OK;
}

static void add_peer(struct fence_server *fence_server, int fd, const struct sockaddr_storage *address,
                     socklen_t length)
{
    const int on = 1;
    char host[48];
    char port[8];
    struct fence_peer *peer = &fence_server->peers[fence_server->peer_count++];
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    *peer = (struct fence_peer){.channel.fd = -1};
    handshake_accept(&peer->handshake, fence_server->job->key, fd);
    peer->handshake.deadline_us = clock_us() + AUTHENTICATION_TIMEOUT_US;
    if (getnameinfo((const struct sockaddr *)address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(peer->from, sizeof(peer->from), "%s port %s",
                 strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host, port);
}

/* Take what has connected, as far as there is room. */
static int accept_peers(struct fence_server *fence_server, struct hvd_error *err)
{
    fence_server->accept_us = 0;
    for (int i = 0; i < MAX_UNAUTHENTICATED; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);
        if (fence_server->peer_count == max_peers(fence_server) &&
            make_room(fence_server, "it gave way to newer ones, as it said nothing") != HVD_OK)
            return HVD_OK;
        int fd = accept4(fence_server->listener, (struct sockaddr *)&address, &length,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            add_peer(fence_server, fd, &address, length);
            continue;
        }
        int error = errno;
        if (!descriptors_are_used_up(error))
            return HVD_OK;
        int rc = make_room(fence_server, "it gave way, as no descriptor was left and it said nothing");
        if (rc == HVD_IN_PROGRESS)
            return HVD_OK;
        if (rc != HVD_OK)
            return descriptors_error(err, error, "rank 0 cannot accept a connection of another rank",
                                     fence_server->missing);
    }
    return HVD_OK;
}

/* ---- Collect ----------------------------------------------------------------------------------- */

/* The first page of [peer] has come. Is it a rank of this job, and the only one with its number? */
static int check_identity(const struct fence_server *fence_server, const struct fence_peer *peer,
                          struct hvd_error *why)
{
    const struct handshake_claim *claim = &peer->handshake.claim;
    uint32_t size = (uint32_t)fence_server->job->size;
    if (claim->size != size || claim->from == 0 || claim->from >= size)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it has RANK=%u and WORLD_SIZE=%u, rank 0 has WORLD_SIZE=%u; give all ranks "
                         "the same WORLD_SIZE, and each its own RANK",
                         claim->from, claim->size, size);
    for (int i = 0; i < fence_server->peer_count; i++) {
        const struct fence_peer *other = &fence_server->peers[i];
        if (other != peer && other->known && other->handshake.claim.from == claim->from)
            return error_set(why, HVD_ERR_MISMATCH,
                             "RANK=%u is also that of the process at %s; give each rank its own", claim->from,
                             other->from);
    }
    return HVD_OK;
}

/* Continue the handshake; HVD_OK once it is done. */
static int authenticate(struct fence_server *fence_server, struct fence_peer *peer, struct hvd_error *why)
{
    struct handshake *handshake = &peer->handshake;
    enum handshake_result result = handshake_advance(handshake);
    if (result == HANDSHAKE_CLAIMED) {
        if (handshake->claim.purpose != HANDSHAKE_PURPOSE_FENCE || handshake->claim.to != 0)
            return error_set(why, HVD_ERR_INVALID, "it looks for something else than rank 0's fence");
        if (handshake->claim.epoch != fence_server->job->epoch)
            return error_set(why, HVD_ERR_INVALID, "it is of HVD_EPOCH=%u, this job of %u",
                             handshake->claim.epoch, fence_server->job->epoch);
        handshake_admit(handshake);
        result = handshake_advance(handshake);
    }
    if (result == HANDSHAKE_WAITS)
        return HVD_IN_PROGRESS;
    if (result == HANDSHAKE_FAILED)
        return error_set(why, fence_failure_status(handshake), "it %s",
                         handshake->wrong_key ? "does not hold this job's HVD_JOB_KEY" : handshake->why);
    secure_channel_open(&peer->channel, handshake);
    return HVD_OK;
}

static int receive_page(struct fence_server *fence_server, struct fence_peer *peer, struct store *store,
                        struct hvd_error *why)
{
    struct fence_message message;
    uint32_t rank = peer->handshake.claim.from;
    bool first = !peer->known;
    int rc = fence_message_receive(&peer->channel, &message, why);
    if (rc != HVD_OK)
        return rc;
    peer->known = true;
    if (first)
        rc = check_identity(fence_server, peer, why);
    if (rc != HVD_OK)
        return rc;
    if (message.kind != FENCE_PAGE || message.number != fence_server->fence || message.rank != rank)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it is in fence %u, rank 0 is in fence %u; do all ranks run the same hvd?",
                         message.number, fence_server->fence);
    rc = store_merge(store, (int)rank, message.bytes, message.length, why);
    if (rc != HVD_OK)
        return rc;
    peer->arrived = true;
    fence_server->missing--;
    return HVD_OK;
}

/* Take one step with a peer after poll returned [events]. */
static int step(struct fence_server *fence_server, struct fence_peer *peer, short events, struct store *store,
                struct hvd_error *why)
{
    int rc = HVD_OK;
    if (peer->arrived && (events & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
        return error_set(why, HVD_ERR_RANK_LOST, "it ended before all ranks had joined");
    if (!peer->known && clock_us() > peer->handshake.deadline_us)
        return error_set(why, HVD_ERR_TIMEOUT, "it says nothing");
    if (peer->arrived || (events & (POLLIN | POLLOUT | POLLHUP | POLLERR)) == 0)
        return HVD_OK;
    if (peer->channel.fd < 0)
        rc = authenticate(fence_server, peer, why);
    return rc == HVD_OK ? receive_page(fence_server, peer, store, why) : rc;
}

/* A connection that fails before its first page is dropped with a warning. The failure of a rank whose
 * first page has come ends the job. */
static int serve(struct fence_server *fence_server, int i, short events, struct store *store,
                 struct hvd_error *err)
{
    struct fence_peer *peer = &fence_server->peers[i];
    struct hvd_error why = {""};
    int rc = step(fence_server, peer, events, store, &why);
    if (rc >= 0)
        return HVD_OK;
    if (peer->known)
        return error_set(err, rc == HVD_ERR_SYSTEM ? HVD_ERR_RANK_LOST : rc, "rank %u at %s: %s",
                         peer->handshake.claim.from, peer->from, why.text);
    drop_peer(fence_server, i, why.text);
    return HVD_OK;
}

/* "1, 4, 5 and 12 more" */
static void list_missing(const struct fence_server *fence_server, char *text, size_t text_bytes)
{
    size_t used = 0;
    int named = 0;
    text[0] = 0;
    for (int rank = 1; rank < fence_server->job->size && named < 8; rank++) {
        bool here = false;
        for (int i = 0; i < fence_server->peer_count && !here; i++)
            here = fence_server->peers[i].arrived &&
                   fence_server->peers[i].handshake.claim.from == (uint32_t)rank;
        if (here)
            continue;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", named == 0 ? "" : ", ", rank);
        named++;
    }
    if (fence_server->missing > named)
        snprintf(text + used, text_bytes - used, " and %d more", fence_server->missing - named);
}

/* What to poll for while pages are collected. */
static struct pollfd poller_of(const struct fence_peer *peer)
{
    if (peer->channel.fd < 0)
        return (struct pollfd){.fd = peer->handshake.fd, .events = handshake_poll_events(&peer->handshake)};
    return (struct pollfd){.fd = peer->channel.fd, .events = peer->arrived ? POLLRDHUP : POLLIN};
}

static int collect_pages(struct fence_server *fence_server, struct store *store, int64_t deadline_us,
                         struct hvd_error *err)
{
    char names[160];
    while (fence_server->missing > 0) {
        int64_t now_us = clock_us();
        int64_t wake_us = deadline_us;
        if (now_us >= deadline_us) {
            list_missing(fence_server, names, sizeof(names));
            return error_set(
                err, HVD_ERR_TIMEOUT,
                "%d of %d ranks did not join in time: rank %s; --hvd-start-timeout gives them longer%s",
                fence_server->missing, fence_server->job->size, names,
                getenv("SLURM_STEP_ID") != NULL ? ", and srun -K ends the step where some never come" : "");
        }
        int count = fence_server->peer_count;
        for (int i = 0; i < count; i++) {
            struct fence_peer *peer = &fence_server->peers[i];
            fence_server->pollers[i] = poller_of(peer);
            if (!peer->known && peer->handshake.deadline_us < wake_us)
                wake_us = peer->handshake.deadline_us + 1;
        }
        bool accepts = now_us >= fence_server->accept_us;
        if (!accepts && fence_server->accept_us < wake_us)
            wake_us = fence_server->accept_us;
        fence_server->pollers[count] = (struct pollfd){.fd = fence_server->listener, .events = POLLIN};
        if (poll(fence_server->pollers, (nfds_t)count + accepts, clock_ms_until(wake_us)) < 0 &&
            errno != EINTR)
            return error_set_errno(err, "rank 0 cannot wait for the other ranks (poll)");
        /* from the last to the first, as the last peer moves to the index of a dropped one */
        for (int i = count - 1; i >= 0; i--) {
            int rc = serve(fence_server, i, fence_server->pollers[i].revents, store, err);
            if (rc != HVD_OK)
                return rc;
        }
        int rc = accepts ? accept_peers(fence_server, err) : HVD_OK;
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* ---- Send ------------------------------------------------------------------------------------- */

/* Send the peer as much as its socket takes; HVD_OK when it has everything. */
static int send_pages_to(struct fence_server *fence_server, struct fence_peer *peer,
                         const struct store *store, struct hvd_error *why)
{
    for (;;) {
        int rc = secure_channel_flush(&peer->channel, why);
        if (rc != HVD_OK || peer->sent_pages == fence_server->job->size)
            return rc;
        size_t length = 0;
        const unsigned char *pages = store_pages(store, peer->sent_pages, &length);
        size_t begin = fence_server->begins[peer->sent_pages];
        struct fence_message message = {FENCE_PAGE, fence_server->fence, (uint32_t)peer->sent_pages,
                                        length > begin ? pages + begin : NULL, length - begin};
        rc = fence_message_send(&peer->channel, &message, why);
        if (rc != HVD_OK)
            return rc;
        peer->sent_pages++;
    }
}

static int send_pages(struct fence_server *fence_server, const struct store *store, int64_t deadline_us,
                      struct hvd_error *err)
{
    for (;;) {
        int left = 0;
        for (int i = 0; i < fence_server->peer_count; i++) {
            struct fence_peer *peer = &fence_server->peers[i];
            struct hvd_error why = {""};
            int rc = peer->known ? send_pages_to(fence_server, peer, store, &why) : HVD_OK;
            if (rc < 0)
                return error_set(err, HVD_ERR_RANK_LOST,
                                 "rank %u at %s ended before all ranks had joined: %s",
                                 peer->handshake.claim.from, peer->from, why.text);
            if (rc == HVD_IN_PROGRESS)
                fence_server->pollers[left++] = (struct pollfd){.fd = peer->channel.fd, .events = POLLOUT};
        }
        if (left == 0)
            return HVD_OK;
        if (clock_us() >= deadline_us)
            return error_set(err, HVD_ERR_TIMEOUT,
                             "%d ranks do not take what rank 0 sends; --hvd-start-timeout gives "
                             "them longer",
                             left);
        if (poll(fence_server->pollers, (nfds_t)left, clock_ms_until(deadline_us)) < 0 && errno != EINTR)
            return error_set_errno(err, "poll");
    }
}

/* Send the reason why the job ends to all ranks whose first page has come. Other processes only see their
 * connection close. */
static void send_failure(struct fence_server *fence_server, int status, const char *sentence)
{
    struct fence_message message = {FENCE_FAIL, (uint32_t)-status, 0, (const unsigned char *)sentence,
                                    strlen(sentence)};
    for (int i = 0; i < fence_server->peer_count; i++) {
        if (fence_server->peers[i].known)
            fence_message_send(&fence_server->peers[i].channel, &message, NULL);
    }
}

int fence_server_fence(struct fence_server *fence_server, struct store *store, int64_t deadline_us,
                       struct hvd_error *err)
{
    struct hvd_error why = {""};
    size_t length = 0;
    int64_t early_us = (deadline_us - clock_us()) / 10;
    const void *page = store_page(store, &length);
    fence_server->fence++;
    fence_server->missing = fence_server->job->size - 1;
    for (int rank = 0; rank < fence_server->job->size; rank++)
        store_pages(store, rank, &fence_server->begins[rank]);
    for (int i = 0; i < fence_server->peer_count; i++) {
        fence_server->peers[i].arrived = false;
        fence_server->peers[i].sent_pages = 0;
    }
    int rc = store_merge(store, 0, page, length, &why);
    if (rc == HVD_OK)
        rc = collect_pages(fence_server, store, deadline_us - (early_us < MARGIN_US ? early_us : MARGIN_US),
                           &why);
    if (rc == HVD_OK)
        rc = send_pages(fence_server, store, deadline_us, &why);
    if (rc != HVD_OK) {
        send_failure(fence_server, rc, why.text);
        return error_set(err, rc, "%s", why.text);
    }
    store_forget_page(store);
    return HVD_OK;
}
