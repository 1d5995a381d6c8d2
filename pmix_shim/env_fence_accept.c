/* env_fence_accept.c: lets the other ranks in at rank 0's end of the env provider's fence: listens, accepts,
 * and asks each connection to prove itself. */
#include "config.h"
#include "pmix_shim/env_fence_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/listener.h"
#include "options/parse.h"

/* How long a connection may take for its handshake and first page. */
#define AUTHENTICATION_TIMEOUT_US INT64_C(10000000)

int fence_max_peers(const struct fence_server *fence_server)
{
    return fence_server->job->size - 1 + MAX_UNAUTHENTICATED;
}

/* ---- The listening socket --------------------------------------------------------------------- */

int fence_listen(struct fence_server *fence_server, struct hvd_error *err)
{
    const struct env_job *job = fence_server->job;
    int64_t port = 0;
    const char *why = NULL;
    if (job->listener != NULL)
        fence_server->listener = fcntl(*job->listener, F_DUPFD_CLOEXEC, 0);
    else if (parse_count(job->master_port, &port, &why) == 0)
        fence_server->listener = listener_open((uint16_t)port);
    if (fence_server->listener >= 0)
        return HVD_OK;
    if (descriptors_are_used_up(errno))
        return descriptors_error(err, errno, "rank 0 cannot listen for the other ranks", job->size);
    return error_set(err, HVD_ERR_INVALID,
                     "rank 0 cannot listen on port %s (%s): %s; choose one that no other process uses",
                     job->master_port, job->port_from, strerror(errno));
}

/* ---- Peers ----------------------------------------------------------------------------------- */

bool fence_peers_create(struct fence_server *fence_server)
{
    fence_server->peers = calloc((size_t)fence_max_peers(fence_server), sizeof(*fence_server->peers));
    fence_server->peer_of_rank = calloc((size_t)fence_server->job->size, sizeof(*fence_server->peer_of_rank));
    return fence_server->peers != NULL && fence_server->peer_of_rank != NULL;
}

static void close_peer(struct fence_peer *peer)
{
    handshake_close(&peer->handshake);
    secure_channel_close(&peer->channel);
}

void fence_peers_destroy(struct fence_server *fence_server)
{
    for (int i = 0; i < fence_server->peer_count; i++)
        close_peer(&fence_server->peers[i]);
    free(fence_server->peers);
    free(fence_server->peer_of_rank);
}

int fence_find_rank(const struct fence_server *fence_server, int rank)
{
    return fence_server->peer_of_rank[rank] - 1;
}

/* The peer at index [from] has another index, or none: -1. Others may claim its rank as well. */
static void move_rank(struct fence_server *fence_server, int from, int to)
{
    uint32_t rank = fence_server->peers[from].handshake.claim.from;
    if (rank < (uint32_t)fence_server->job->size && fence_find_rank(fence_server, (int)rank) == from)
        fence_server->peer_of_rank[rank] = to + 1;
}

void fence_remove_peer(struct fence_server *fence_server, int i)
{
    struct fence_peer *peers = fence_server->peers;
    int last = fence_server->peer_count - 1;
    close_peer(&peers[i]);
    move_rank(fence_server, i, -1);
    move_rank(fence_server, last, i);
    peers[i] = peers[last];
    peers[i].watched = 0;
    fence_server->peer_count = last;
}

/* ---- Accept -------------------------------------------------------------------------------- */

void fence_drop_peer(struct fence_server *fence_server, int i, const char *why)
{
    drop_report_add(&fence_server->drop_report, clock_us(), fence_server->job->log, "wire-up",
                    "dropped a connection from %s: %s", fence_server->peers[i].from, why);
    fence_remove_peer(fence_server, i);
}

/* There is no room for another connection: the oldest one gives way once it has had the time to prove itself.
 * Returns HVD_OK if another attempt is worth it now, HVD_IN_PROGRESS if it is later, and HVD_ERR_INVALID if
 * none can give way. */
static int make_room(struct fence_server *fence_server, const char *why)
{
    const struct fence_peer *peers = fence_server->peers;
    int oldest = handshake_oldest(&peers->handshake, sizeof(*peers), fence_server->peer_count);
    if (oldest < 0)
        return HVD_ERR_INVALID;
    int64_t due_us = peers[oldest].handshake.begun_us + HANDSHAKE_PROOF_US;
    if (clock_us() < due_us) {
        fence_server->accept_us = due_us;
        return HVD_IN_PROGRESS;
    }
    fence_drop_peer(fence_server, oldest, why);
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

int fence_accept_peers(struct fence_server *fence_server, struct hvd_error *err)
{
    fence_server->accept_us = 0;
    for (int i = 0; i < MAX_UNAUTHENTICATED; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);
        if (fence_server->peer_count == fence_max_peers(fence_server) &&
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

/* ---- Prove ------------------------------------------------------------------------------------ */

bool fence_peer_is_agent(const struct fence_peer *peer)
{
    return peer->handshake.claim.purpose == HANDSHAKE_PURPOSE_AGENT;
}

int fence_authenticate(struct fence_server *fence_server, struct fence_peer *peer, struct hvd_error *why)
{
    struct handshake *handshake = &peer->handshake;
    enum handshake_result result = handshake_advance(handshake);
    if (result == HANDSHAKE_CLAIMED) {
        bool is_agent = fence_server->job->has_agents && fence_peer_is_agent(peer);
        if ((handshake->claim.purpose != HANDSHAKE_PURPOSE_FENCE && !is_agent) || handshake->claim.to != 0)
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
    return secure_channel_open(&peer->channel, handshake, why);
}

int fence_check_identity(struct fence_server *fence_server, const struct fence_peer *peer,
                         struct hvd_error *why)
{
    const struct handshake_claim *claim = &peer->handshake.claim;
    const struct fence_peer *peers = fence_server->peers;
    uint32_t size = (uint32_t)fence_server->job->size;
    if (claim->size != size || claim->from == 0 || claim->from >= size)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it has RANK=%u and WORLD_SIZE=%u, rank 0 has WORLD_SIZE=%u; give all ranks "
                         "the same WORLD_SIZE, and each its own RANK",
                         claim->from, claim->size, size);
    int other = fence_find_rank(fence_server, (int)claim->from);
    if (other >= 0 && peers[other].gone[0] == 0)
        return error_set(why, HVD_ERR_MISMATCH,
                         "RANK=%u is also that of the process at %s; give each rank its own", claim->from,
                         peers[other].from);
    fence_server->peer_of_rank[claim->from] = (int)(peer - peers) + 1;
    return HVD_OK;
}
