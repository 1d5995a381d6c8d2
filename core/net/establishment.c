/* establishment.c: runs connections to other ranks that are made at the same time. */
#include "net/establishment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/news.h"
#include "net/accept.h"
#include "net/address.h"
#include "net/connection.h"
#include "net/dial.h"
#include "net/establishment_state.h"
#include "net/seal.h"

#define PATIENCE_LEASES 2  /* how long a rank may not accept a connection, see establishment_begin */
#define READY_AT_ONCE   64 /* sockets that one round serves */

_Static_assert(JOB_KEY_BYTES == HANDSHAKE_KEY_BYTES, "the key of the peer table is one for the handshake");
_Static_assert((int)ENDPOINT_PROBE < (int)HANDSHAKE_PURPOSE_ATTACH,
               "a purpose stands for one kind of connection");

/* ---- One round ---- */

/* Handshake [at] has met request [index]. False: there is no memory for a connection that must be sealed. */
static bool complete_connection(struct establishment *establishment, int index, int at)
{
    struct handshake_table *handshakes = &establishment->handshakes;
    struct endpoint_connection *request = &establishment->requests[index];
    int rank = (int)handshakes->entries[at].claim.from;
    struct seal *seal = NULL;
    if (establishment->peer_table->encrypt && request->purpose != ENDPOINT_PROBE) {
        seal = seal_create(&handshakes->entries[at]);
        if (seal == NULL) {
            handshake_table_drop(handshakes, at);
            return false;
        }
    }
    int fd = handshake_table_take(handshakes, at);
    connection_set_options(fd, endpoint_lease_us(establishment->endpoint));
    if (request->rank == ENDPOINT_ANY_RANK) {
        request->accepted(request->arg, rank, fd, seal);
        return true;
    }
    request->fd = fd;
    request->seal = seal;
    establishment->missing--;
    return true;
}

static void advance_dialed(struct establishment *establishment, int index)
{
    if (dial_advance(establishment, index) && !complete_connection(establishment, index, index))
        dial_failed(establishment, index, "no memory to encrypt the connection");
}

/* A peer whose connection cannot be completed connects again. */
static void advance_accepted(struct establishment *establishment, int at)
{
    int index = accept_advance(establishment, at);
    if (index >= 0)
        complete_connection(establishment, index, at);
}

static void advance_connection(struct establishment *establishment, int index)
{
    if (index < establishment->request_count)
        advance_dialed(establishment, index);
    else
        advance_accepted(establishment, index);
}

/* Give up the handshakes that are late. */
static void expire(struct establishment *establishment)
{
    static const char late[] = "did not finish its handshake in time";
    int64_t now_us = clock_us();
    for (int i = 0; i < establishment->handshakes.count; i++) {
        struct handshake *handshake = &establishment->handshakes.entries[i];
        bool ours = i < establishment->request_count;
        if (handshake->fd < 0 || now_us < handshake->deadline_us)
            continue;
        if (!ours)
            endpoint_warn_foreign(establishment->endpoint, handshake->fd, late);
        handshake_table_drop(&establishment->handshakes, i);
        if (ours)
            dial_failed(establishment, i,
                        handshake->state == HANDSHAKE_CONNECTING ? "does not answer" : late);
    }
}

/* Wait until [wake_us] for something to do, and do it. */
static int run_once(struct establishment *establishment, int64_t wake_us, struct hvd_error *err)
{
    struct handshake_table *handshakes = &establishment->handshakes;
    int ready[READY_AT_ONCE];
    bool accepts = false;
    if (establishment->room.full_errno != 0)
        return descriptors_error(err, establishment->room.full_errno, "cannot connect to the other ranks",
                                 establishment->missing);
    accept_resume(establishment);
    int count = handshake_table_wait(handshakes, ready, READY_AT_ONCE, wake_us, err);
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        if (ready[i] > handshakes->count)
            return news_error(err);
        if (ready[i] == handshakes->count)
            accepts = true;
        else if (handshakes->entries[ready[i]].fd >= 0)
            advance_connection(establishment, ready[i]);
    }
    expire(establishment);
    return accepts && establishment->missing > 0 ? accept_all(establishment, err) : HVD_OK;
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* When the next connection is due, or a handshake late: clock_us time, or INT64_MAX. */
static int64_t next_due(const struct establishment *establishment)
{
    int64_t resume_us = establishment->room.resume_us > 0 ? establishment->room.resume_us : INT64_MAX;
    int64_t late_us = handshake_table_deadline(&establishment->handshakes);
    return earlier(resume_us, earlier(late_us, dial_next_due(establishment)));
}

/* ---- What is missing ---- */

static int first_missing(const struct establishment *establishment)
{
    int first = 0;
    while (establishment->requests[first].fd >= 0)
        first++;
    return first;
}

/* The error names the first rank that is missing, and what was tried. */
static int report_missing(const struct establishment *establishment, int first, struct hvd_error *err)
{
    const struct endpoint_connection *request = &establishment->requests[first];
    const struct dial *dial = &establishment->dials[first];
    char peer[300], self[300], more[120] = "", tried[4 * ADDRESS_TEXT_BYTES] = "";
    peer_table_rank_name(establishment->peer_table, request->rank, peer, sizeof(peer));
    peer_table_rank_name(establishment->peer_table, establishment->peer_table->rank, self, sizeof(self));
    if (establishment->missing > 1)
        snprintf(more, sizeof(more), "; %d more %s missing", establishment->missing - 1,
                 establishment->missing == 2 ? "rank is" : "ranks are");
    if (establishment->room.was_full)
        snprintf(more + strlen(more), sizeof(more) - strlen(more),
                 "; all descriptors were in use (`ulimit -n`)");
    if (!request->connect)
        return error_set(
            err, HVD_ERR_TIMEOUT,
            "%s has not connected to %s in time; see whether it still runs and its node reaches this one%s",
            peer, self, more);
    for (int i = 0; i < dial->address_count; i++) {
        char text[ADDRESS_TEXT_BYTES];
        size_t used = strlen(tried);
        address_text(&dial->addresses[i], text);
        snprintf(tried + used, sizeof(tried) - used, "%s%s", i == 0 ? "" : ", ", text);
    }
    return error_set(err, HVD_ERR_TIMEOUT,
                     "%s could not connect to %s in time; port %u of %s was tried, the last time: %s%s", self,
                     peer, dial_port(establishment, request), tried,
                     dial->why != NULL ? dial->why : "no answer yet", more);
}

/* ---- Until the deadline ---- */

static bool is_lane_complete(const struct establishment *establishment)
{
    bool complete = false;
    for (int i = 0; i < establishment->request_count && !complete; i++) {
        complete = true;
        for (int k = 0; k < establishment->request_count; k++)
            if (establishment->requests[k].lane == establishment->requests[i].lane &&
                establishment->requests[k].fd < 0)
                complete = false;
    }
    return complete;
}

static int establishment_run(struct establishment *establishment, int64_t deadline_us, struct hvd_error *err)
{
    bool in_grace = false;
    while (establishment->missing > 0) {
        dial_start_due(establishment);
        int rc = run_once(establishment, earlier(deadline_us, next_due(establishment)), err);
        if (rc != HVD_OK)
            return rc;
        if (establishment->missing == 0)
            break;
        if (establishment->best_effort && !in_grace && is_lane_complete(establishment)) {
            in_grace = true;
            deadline_us = earlier(deadline_us, clock_us() + establishment->grace_us);
        }
        if (clock_us() >= deadline_us)
            return establishment->best_effort
                       ? HVD_OK
                       : report_missing(establishment, first_missing(establishment), err);
    }
    return HVD_OK;
}

/* ---- All requests together ---- */

/* It outlasts the start, and waits for nobody. */
static bool is_any_rank(const struct endpoint_connection *request)
{
    return request->rank == ENDPOINT_ANY_RANK && request->accepted != NULL && !request->connect;
}

static int check_ranks(const struct peer_table *peer_table, struct endpoint_connection *requests,
                       int request_count, struct hvd_error *err)
{
    for (int i = 0; i < request_count; i++) {
        requests[i].fd = -1;
        requests[i].seal = NULL;
    }
    for (int i = 0; i < request_count; i++)
        if (!is_any_rank(&requests[i]) && (requests[i].rank < 0 || requests[i].rank >= peer_table->size ||
                                           requests[i].rank == peer_table->rank))
            return error_set(err, HVD_ERR_INVALID, "rank %d cannot connect to rank %d of %d",
                             peer_table->rank, requests[i].rank, peer_table->size);
    return HVD_OK;
}

/* The socket on which this rank waits for its connections; -1: it accepts none. */
static int find_listener(const struct establishment *establishment)
{
    for (int i = 0; i < establishment->request_count; i++)
        if (!establishment->requests[i].connect)
            return endpoint_fd(establishment->endpoint);
    return -1;
}

static int establishment_open(struct establishment *establishment, struct hvd_error *err)
{
    int request_count = establishment->request_count;
    int listener = find_listener(establishment);
    establishment->missing = request_count;
    establishment->dials = calloc((size_t)request_count, sizeof(*establishment->dials));
    if (establishment->dials == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to connect to %d ranks", request_count);
    dial_prepare(establishment);
    int news =
        is_any_rank(&establishment->requests[0]) ? -1 : news_poller(establishment->peer_table->news).fd;
    int count = listener < 0 ? request_count : 2 * request_count + ACCEPT_UNAUTHENTICATED_MAX;
    int rc = handshake_table_open(&establishment->handshakes, count, listener, err);
    return rc == HVD_OK && news >= 0 ? handshake_table_watch_news(&establishment->handshakes, news, err) : rc;
}

static void establishment_close(struct establishment *establishment)
{
    handshake_table_close(&establishment->handshakes);
    free(establishment->dials);
}

static void close_requests(struct endpoint_connection *requests, int request_count)
{
    for (int i = 0; i < request_count; i++) {
        descriptors_close(&requests[i].fd);
        seal_free(requests[i].seal);
        requests[i].seal = NULL;
    }
}

/* On failure no socket is left open. */
static int establish_all(struct establishment *establishment, int64_t deadline_us, struct hvd_error *err)
{
    struct endpoint_connection *requests = establishment->requests;
    int rc = check_ranks(establishment->peer_table, requests, establishment->request_count, err);
    if (rc != HVD_OK || establishment->request_count == 0)
        return rc;
    rc = establishment_open(establishment, err);
    if (rc == HVD_OK)
        rc = establishment_run(establishment, deadline_us, err);
    for (int i = 0; rc == HVD_OK && i < establishment->request_count; i++)
        requests[i].why = requests[i].fd < 0 ? establishment->dials[i].why : NULL;
    establishment_close(establishment);
    if (rc != HVD_OK)
        close_requests(requests, establishment->request_count);
    return rc;
}

int endpoint_establish(struct endpoint *endpoint, const struct peer_table *peer_table,
                       struct endpoint_connection *requests, int request_count, int64_t deadline_us,
                       struct hvd_error *err)
{
    struct establishment establishment = {.endpoint = endpoint,
                                          .peer_table = peer_table,
                                          .requests = requests,
                                          .request_count = request_count,
                                          .handshakes.epoll_fd = -1};
    return establish_all(&establishment, deadline_us, err);
}

int endpoint_try_establish(struct endpoint *endpoint, const struct peer_table *peer_table,
                           struct endpoint_connection *requests, int request_count,
                           struct endpoint_timeout timeout, struct hvd_error *err)
{
    struct establishment establishment = {.endpoint = endpoint,
                                          .peer_table = peer_table,
                                          .requests = requests,
                                          .request_count = request_count,
                                          .handshakes.epoll_fd = -1,
                                          .best_effort = true,
                                          .grace_us = timeout.grace_us};
    return establish_all(&establishment, timeout.deadline_us, err);
}

/* ---- Without waiting ---- */

int establishment_begin(struct establishment **establishmentp, struct endpoint *endpoint,
                        const struct peer_table *peer_table, struct endpoint_connection *requests,
                        int request_count, struct hvd_error *err)
{
    int rc = check_ranks(peer_table, requests, request_count, err);
    if (rc != HVD_OK)
        return rc;
    struct establishment *establishment = calloc(1, sizeof(*establishment));
    if (establishment == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to connect to %d ranks", request_count);
    *establishment = (struct establishment){.endpoint = endpoint,
                                            .peer_table = peer_table,
                                            .requests = requests,
                                            .request_count = request_count,
                                            .handshakes.epoll_fd = -1};
    rc = establishment_open(establishment, err);
    if (rc != HVD_OK) {
        establishment_end(establishment);
        return rc;
    }
    *establishmentp = establishment;
    return HVD_OK;
}

/* The request whose rank has not even accepted a connection for too long, or -1. A rank that accepts and says
 * nothing is busy, and comes later. */
static int find_unreachable(const struct establishment *establishment)
{
    int64_t patience_us = PATIENCE_LEASES * endpoint_lease_us(establishment->endpoint);
    for (int i = 0; i < establishment->request_count; i++)
        if (dial_unanswered_us(establishment, i) >= patience_us)
            return i;
    return -1;
}

int establishment_advance(struct establishment *establishment, int *rankp, struct hvd_error *err)
{
    dial_start_due(establishment);
    int rc = establishment->missing > 0 ? run_once(establishment, 0, err) : HVD_OK;
    if (rc != HVD_OK || establishment->missing == 0)
        return rc;
    dial_start_due(establishment);
    establishment->wake_us = next_due(establishment);
    int unreachable = find_unreachable(establishment);
    if (unreachable < 0)
        return HVD_IN_PROGRESS;
    *rankp = establishment->requests[unreachable].rank;
    report_missing(establishment, unreachable, err);
    return HVD_ERR_RANK_LOST;
}

int64_t establishment_deadline(const struct establishment *establishment)
{
    return establishment->wake_us;
}

int establishment_waits_for(const struct establishment *establishment)
{
    return establishment->missing == 0 ? -1 : establishment->requests[first_missing(establishment)].rank;
}

int establishment_fd(const struct establishment *establishment)
{
    return establishment->handshakes.epoll_fd;
}

void establishment_after_fork(struct establishment *establishment)
{
    handshake_table_after_fork(&establishment->handshakes);
}

void establishment_end(struct establishment *establishment)
{
    if (establishment == NULL)
        return;
    establishment_close(establishment);
    free(establishment);
}
