/* accept.c: the connections of an establishment that other processes begin. */
#include "config.h"
#include "net/accept.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "net/address.h"

/* ---- Giving way ---- */

static void give_way(struct establishment *establishment, int at, const char *why)
{
    endpoint_warn_foreign(establishment->endpoint, establishment->handshakes.entries[at].fd, why);
    handshake_table_drop(&establishment->handshakes, at);
}

bool accept_make_room(struct establishment *establishment, int error)
{
    if (!descriptors_are_used_up(error))
        return false;
    const struct handshake *entries = establishment->handshakes.entries;
    int oldest = handshake_oldest(entries, sizeof(*entries), establishment->handshakes.count);
    int64_t due_us = oldest < 0 ? 0 : entries[oldest].begun_us + HANDSHAKE_PROOF_US;
    establishment->room.was_full = true;
    if (oldest >= 0 && clock_us() >= due_us) {
        give_way(establishment, oldest, "gave way: no descriptor was left, and it had not proved itself");
        return true;
    }
    establishment->room.full_errno = oldest < 0 ? error : 0;
    establishment->room.resume_us = due_us;
    handshake_table_listen(&establishment->handshakes, false);
    errno = error;
    return false;
}

void accept_resume(struct establishment *establishment)
{
    if (establishment->room.resume_us == 0 || clock_us() < establishment->room.resume_us)
        return;
    establishment->room.resume_us = 0;
    handshake_table_listen(&establishment->handshakes, true);
}

/* A free entry for an accepted connection. Where there is none, the oldest connection is dropped. */
static int free_entry(struct establishment *establishment)
{
    const struct handshake *entries = establishment->handshakes.entries;
    int count = establishment->handshakes.count;
    for (int i = establishment->request_count; i < count; i++)
        if (entries[i].fd < 0)
            return i;
    int oldest = handshake_oldest(entries, sizeof(*entries), count);
    give_way(establishment, oldest, "gave way to newer ones: too many connect and say nothing");
    return oldest;
}

int accept_all(struct establishment *establishment, struct hvd_error *err)
{
    struct handshake_table *handshakes = &establishment->handshakes;
    for (int i = 0; i < ACCEPT_UNAUTHENTICATED_MAX; i++) {
        int fd = accept4(handshakes->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            int at = free_entry(establishment);
            handshake_accept(&handshakes->entries[at], establishment->peer_table->key, fd);
            handshake_table_watch(handshakes, at);
            continue;
        }
        int error = errno;
        if (error == EAGAIN || accept_make_room(establishment, error) || descriptors_are_used_up(error))
            return HVD_OK;
        if (error == ENOBUFS || error == ENOMEM)
            return error_set_errno(err, "cannot accept a connection of another rank");
    }
    return HVD_OK;
}

/* ---- Who it is ---- */

/* A rank of this job has come too early, and comes again. */
static void report_early(const struct establishment *establishment, int fd, const char *why)
{
    char text[ADDRESS_TEXT_BYTES];
    address_peer_text(fd, text);
    log_write(endpoint_log(establishment->endpoint), LOG_INFO, "endpoint",
              "dropped a connection with %s: the other end %s", text, why);
}

static bool is_from(const struct peer_table *peer_table, const struct endpoint_connection *request,
                    const struct handshake_claim *claim)
{
    if (request->rank == ENDPOINT_ANY_RANK)
        return claim->from < (uint32_t)peer_table->size && claim->from != (uint32_t)peer_table->rank;
    return (uint32_t)request->rank == claim->from;
}

/* Find the request that a peer's claim meets, and set *requestp. Otherwise returns why there is none: usually
 * the peer is ahead of this rank, and connects for a process set that this rank makes next. */
static const char *match_claim(const struct establishment *establishment, const struct handshake_claim *claim,
                               int *requestp)
{
    for (int i = 0; i < establishment->request_count; i++) {
        const struct endpoint_connection *request = &establishment->requests[i];
        if (!request->connect && is_from(establishment->peer_table, request, claim) &&
            request->purpose == claim->purpose && request->tag == claim->tag) {
            *requestp = i;
            return request->fd < 0 ? NULL : "is connected already";
        }
    }
    return "is a rank that is not expected now";
}

int accept_advance(struct establishment *establishment, int at)
{
    struct handshake *handshake = &establishment->handshakes.entries[at];
    int index = -1;
    enum handshake_result result = handshake_advance(handshake);
    if (result == HANDSHAKE_CLAIMED || result == HANDSHAKE_DONE) {
        handshake->why = handshake_stray_reason(&handshake->claim, establishment->peer_table->epoch,
                                                establishment->peer_table->rank);
        handshake->foreign = handshake->why != NULL;
        if (!handshake->foreign)
            handshake->why = match_claim(establishment, &handshake->claim, &index);
        if (handshake->why != NULL)
            result = HANDSHAKE_FAILED;
    }
    if (result == HANDSHAKE_CLAIMED) {
        handshake_admit(handshake);
        result = handshake_advance(handshake);
    }
    if (result == HANDSHAKE_DONE)
        return index;
    if (result == HANDSHAKE_FAILED) {
        if (handshake->foreign)
            endpoint_warn_foreign(establishment->endpoint, handshake->fd, handshake->why);
        else
            report_early(establishment, handshake->fd, handshake->why);
        handshake_table_drop(&establishment->handshakes, at);
    }
    handshake_table_watch(&establishment->handshakes, at);
    return -1;
}
