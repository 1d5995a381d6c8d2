/* epoch_server.c: the launcher's end of wire-up by epochs: lets processes of the job in, and tells them their
 * place in the next epoch. In its fence the driver is number 0, and the process of slot s is number s + 1. */
#include "config.h"
#include "pmix_shim/epoch_server.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "auth/secret_key.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/listener.h"
#include "elastic/epoch_driver.h"
#include "pmix_shim/env_fence_server.h"

/* How long a connection is silent before the kernel asks whether the other end is there. */
#define IDLE_S 15

/* What epoll says of the listening socket; of a connection it says its index. */
#define LISTENER UINT32_MAX

struct meeting {
    char host[FENCE_HOST_BYTES];
    uint16_t port;
    int64_t silent_us; /* when its process counts as stopped, unless it asks before; 0: its node is heard */
    bool absent;       /* the others have waited for it too long */
};

struct epoch_server {
    struct env_job job;
    struct fence_server fence; /* its connections */
    struct epoch_driver *driver;
    struct meeting *meetings; /* [slots]: where the process would listen as rank 0 of the next epoch */
    int slots, fewest;
    bool sees_no_ends, limits_waits;
    bool holds_news;
    bool probed;      /* the processes that do not wait, since one does */
    bool lost_member; /* which the members that are still at their start must hear */
    bool refused;
    int64_t lease_us; /* of the last process that asked */
    int64_t asked_us; /* since when members wait for the next epoch; 0: none does */
    int64_t rendezvous_us;
    int64_t beat_us; /* when the next interval of beats is over; 0: nobody sends any */
    uint16_t port;   /* where it listens */
    int epoll_fd;
    struct epoll_event *ready; /* [fence_max_peers + 1]: connections */
    int ready_count;
    bool has_callers; /* at the listener */
};

/* ---- Begin and end ------------------------------------------------------------------------------ */

static int listen_for_processes(struct epoch_server *server, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = LISTENER};
    int rc = fence_listen(&server->fence, err);
    if (rc != HVD_OK)
        return rc;
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->port = listener_port(server->fence.listener);
    if (server->epoll_fd < 0 || server->port == 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->fence.listener, &event) < 0)
        return error_set_errno(err, "cannot listen for ranks that ask for the next epoch");
    return HVD_OK;
}

int epoch_server_open(struct epoch_server **serverp, const struct elastic_job *elastic_job,
                      struct hvd_error *err)
{
    int slots = elastic_job->slots;
    struct epoch_server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for an elastic job");
    server->job = (struct env_job){.size = slots + 1,
                                   .epoch = elastic_job->start,
                                   .master_port = "0",
                                   .port_from = "chosen by the kernel",
                                   .listener = elastic_job->listener,
                                   .has_agents = elastic_job->has_agents,
                                   .log = elastic_job->log};
    secret_key_derive(elastic_job->secret, server->job.key);
    server->fence.job = &server->job;
    server->fence.listener = server->epoll_fd = -1;
    server->slots = slots;
    server->fewest = elastic_job->fewest;
    server->sees_no_ends = elastic_job->sees_no_ends;
    server->limits_waits = elastic_job->limits_waits;
    server->driver = epoch_driver_create(slots, elastic_job->members, elastic_job->fewest);
    server->meetings = calloc((size_t)slots, sizeof(*server->meetings));
    bool has_room = fence_peers_create(&server->fence);
    server->ready = calloc((size_t)fence_max_peers(&server->fence) + 1, sizeof(*server->ready));
    int rc = server->driver != NULL && server->meetings != NULL && has_room && server->ready != NULL
                 ? listen_for_processes(server, err)
                 : error_set(err, HVD_ERR_NO_MEMORY, "no memory for an elastic job of %d ranks", slots);
    if (rc == HVD_OK && elastic_job->spares > 0)
        epoch_driver_limit(server->driver, slots - elastic_job->spares);
    for (int slot = 0; rc == HVD_OK && elastic_job->all_ask && slot < elastic_job->members; slot++)
        epoch_driver_expect(server->driver, slot);
    if (rc == HVD_OK)
        *serverp = server;
    else
        epoch_server_close(server);
    return rc;
}

void epoch_server_close(struct epoch_server *server)
{
    if (server == NULL)
        return;
    fence_peers_destroy(&server->fence);
    descriptors_close(&server->fence.listener);
    descriptors_close(&server->epoll_fd);
    epoch_driver_destroy(server->driver);
    free(server->meetings);
    free(server->ready);
    explicit_bzero(server, sizeof(*server));
    free(server);
}

uint16_t epoch_server_port(const struct epoch_server *server)
{
    return server == NULL ? 0 : server->port;
}

int epoch_server_fd(const struct epoch_server *server)
{
    return server == NULL ? -1 : server->epoll_fd;
}

/* ---- Processes that ask ------------------------------------------------------------------------- */

static int slot_of(const struct fence_peer *peer)
{
    return (int)peer->handshake.claim.from - 1;
}

void epoch_server_lose(struct epoch_server *server, int slot)
{
    server->lost_member = server->lost_member || epoch_server_is_member(server, slot);
    epoch_driver_lose(server->driver, slot);
}

void epoch_server_dismiss(struct epoch_server *server, int slot, bool leaves)
{
    epoch_driver_dismiss(server->driver, slot, leaves);
}

void epoch_server_hope(struct epoch_server *server, bool hopes)
{
    epoch_driver_hope(server->driver, hopes);
}

void epoch_server_hold_news(struct epoch_server *server, bool holds)
{
    server->holds_news = holds;
}

void epoch_server_finish(struct epoch_server *server)
{
    epoch_driver_finish(server->driver);
}

uint32_t epoch_server_epoch(const struct epoch_server *server)
{
    return epoch_driver_epoch(server->driver);
}

int64_t epoch_server_rendezvous_us(const struct epoch_server *server)
{
    return server->rendezvous_us;
}

bool epoch_server_has_refused(const struct epoch_server *server)
{
    return server->refused;
}

int epoch_server_left(const struct epoch_server *server)
{
    return epoch_driver_left(server->driver);
}

bool epoch_server_has(const struct epoch_server *server, int slot)
{
    return epoch_driver_has(server->driver, slot);
}

bool epoch_server_is_on_its_way(const struct epoch_server *server, int slot)
{
    return epoch_driver_is_on_its_way(server->driver, slot);
}

int epoch_server_members(const struct epoch_server *server)
{
    return epoch_driver_members(server->driver);
}

bool epoch_server_is_member(const struct epoch_server *server, int slot)
{
    return epoch_driver_rank(server->driver, slot) >= 0;
}

/* Wait for what the connection waits for. */
static void watch_peer(const struct epoch_server *server, struct fence_peer *peer)
{
    bool proven = peer->channel.fd >= 0;
    int fd = proven ? peer->channel.fd : peer->handshake.fd;
    bool sends =
        proven ? peer->channel.out.length > 0 : (handshake_poll_events(&peer->handshake) & EPOLLOUT) != 0;
    struct epoll_event event = {.events = sends ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.u32 = (uint32_t)(peer - server->fence.peers)};
    if (peer->watched == event.events)
        return;
    peer->watched = event.events;
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Close a connection, of which the user hears if it has ended and is no rank's. The last peer takes its
 * place. */
static void remove_peer(struct epoch_server *server, int index)
{
    struct fence_server *fence = &server->fence;
    const struct fence_peer *peer = &fence->peers[index];
    if (peer->gone[0] != 0 && !peer->known)
        fence_drop_peer(fence, index, peer->gone);
    else
        fence_remove_peer(fence, index);
    if (index < fence->peer_count)
        watch_peer(server, &fence->peers[index]);
}

void epoch_server_expect(struct epoch_server *server, int slot)
{
    int before = fence_find_rank(&server->fence, slot + 1);
    if (before >= 0)
        remove_peer(server, before); /* on a node that stands still its process may never end */
    server->meetings[slot] = (struct meeting){.port = 0};
    epoch_driver_expect(server->driver, slot);
}

static void send_to(const struct epoch_server *server, struct fence_peer *peer,
                    const struct fence_message *message)
{
    struct hvd_error why; /* a connection that fails is seen when it is served */
    if (fence_message_send(&peer->channel, message, &why) == HVD_OK)
        secure_channel_flush(&peer->channel, &why);
    watch_peer(server, peer);
}

static bool has_news(const struct epoch_server *server)
{
    return epoch_driver_has_news(server->driver) && !server->holds_news;
}

static void tell_news(const struct epoch_server *server, struct fence_peer *peer)
{
    bool news = has_news(server);
    send_to(server, peer,
            &(struct fence_message){.kind = FENCE_NEWS, .number = news ? FENCE_NEWCOMERS : FENCE_NO_NEWS});
    peer->watches = !news; /* once is enough: the next epoch asks again */
}

static void fail(const struct epoch_server *server, struct fence_peer *peer, int rc,
                 const struct hvd_error *why)
{
    send_to(server, peer,
            &(struct fence_message){FENCE_FAIL, (uint32_t)-rc, 0, (const unsigned char *)why->text,
                                    strlen(why->text)});
}

/* Where would the others find it? */
static void note_meeting(struct epoch_server *server, const struct fence_peer *peer, uint16_t port)
{
    struct meeting *meeting = &server->meetings[slot_of(peer)];
    size_t length = strcspn(peer->from, " "); /* of its address */
    meeting->port = port;
    snprintf(meeting->host, sizeof(meeting->host), "%.*s", (int)length, peer->from);
}

/* The kernel ends a connection over which nothing is heard for the lease, although something was sent. */
static void limit_silence(const struct fence_peer *peer, uint32_t lease_ms)
{
    const int on = 1, idle_s = IDLE_S;
    const unsigned most_ms = lease_ms;
    setsockopt(peer->channel.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof(most_ms));
    setsockopt(peer->channel.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(peer->channel.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* Do others that wait for the next epoch, or for the end of the job, wait for this process too? */
static bool is_awaited(const struct epoch_server *server, int slot)
{
    bool all = server->refused || epoch_driver_members(server->driver) == 0;
    return (all || epoch_server_is_member(server, slot)) && epoch_server_has(server, slot) &&
           !epoch_driver_waits(server->driver, slot);
}

/* The node of [slot] is silent. Its processes that have not asked by then are to be ended, or lost. */
static void doubt_node(struct epoch_server *server, int slot, int64_t then_us)
{
    const char *host = server->meetings[slot].host;
    for (int other = 0; other < server->slots && host[0] != 0; other++) {
        struct meeting *meeting = &server->meetings[other];
        if (meeting->silent_us == 0 && strcmp(meeting->host, host) == 0)
            meeting->silent_us = then_us;
    }
}

/* Others have found a rank silent. The processes of its node have a lease more to ask, as the others do,
 * which know by now that the epoch has ended. */
static void note_silence(struct epoch_server *server, const struct fence_message *wish)
{
    int rank = fence_silent_decode(wish, epoch_driver_size(server->driver));
    if (rank >= 0)
        doubt_node(server, epoch_driver_slot(server->driver, rank), clock_us() + server->lease_us);
}

/* Members find each other's nodes silent, unless all that are left are on the one that is. */
static void count_beats(struct epoch_server *server)
{
    int64_t now_us = clock_us();
    bool due = server->beat_us != 0 && now_us >= server->beat_us;
    if (!epoch_driver_has_beats(server->driver))
        server->beat_us = 0;
    else if (due || server->beat_us == 0)
        server->beat_us = now_us + beat_interval_us(server->lease_us);
    if (!due)
        return;
    epoch_driver_count_beats(server->driver);
    for (int slot = 0; slot < server->slots; slot++) {
        if (!epoch_driver_is_silent(server->driver, slot))
            continue;
        epoch_driver_hush(server->driver, slot);
        doubt_node(server, slot, now_us);
        log_write(server->job.log, LOG_WARN, "epochs",
                  "rank %d was silent for four times --hvd-lease, although its node answers: it is stopped, "
                  "or its node hangs",
                  slot);
    }
}

/* A process has waited for a place as long as a start may take, unless its answer is on the way. If those
 * that wait are enough for an epoch, the others are silent. If they are not, and the job has worked, it ends
 * as one with too few ranks, where its host sees no ends. */
static void note_absence(struct epoch_server *server, const struct fence_peer *peer)
{
    bool enough = epoch_driver_waiting(server->driver) >= server->fewest;
    bool ends = !enough && server->sees_no_ends && epoch_driver_epoch(server->driver) > 0;
    for (int slot = 0; slot < server->slots && peer->arrived && (enough || ends); slot++) {
        struct meeting *meeting = &server->meetings[slot];
        if (meeting->absent || !is_awaited(server, slot))
            continue;
        meeting->absent = true;
        meeting->silent_us = clock_us();
        log_write(server->job.log, LOG_WARN, "epochs",
                  "rank %d has not joined epoch %u within --hvd-start-timeout; the others %s", slot,
                  epoch_driver_epoch(server->driver) + 1,
                  enough ? "go on without it" : "are too few to go on without it");
    }
}

int64_t epoch_server_silent_us(const struct epoch_server *server)
{
    int64_t first_us = server->beat_us != 0 ? server->beat_us : INT64_MAX;
    for (int slot = 0; slot < server->slots; slot++) {
        int64_t silent_us = server->meetings[slot].silent_us;
        first_us = silent_us != 0 && silent_us < first_us ? silent_us : first_us;
    }
    return first_us;
}

int epoch_server_take_silent(struct epoch_server *server)
{
    for (int slot = 0; slot < server->slots; slot++) {
        struct meeting *meeting = &server->meetings[slot];
        if (meeting->silent_us == 0 || clock_us() < meeting->silent_us)
            continue;
        meeting->silent_us = 0;
        if (is_awaited(server, slot))
            return slot;
    }
    return -1;
}

/* The process wants a place in the next epoch. */
static void take_wish(struct epoch_server *server, struct fence_peer *peer, const struct fence_message *wish)
{
    struct hvd_error why;
    int slot = slot_of(peer);
    peer->stays = peer->watches = peer->kept = false;
    if (epoch_driver_has(server->driver, slot)) {
        peer->arrived = true;
        note_meeting(server, peer, (uint16_t)wish->number);
        server->lease_us = INT64_C(1000) * wish->rank;
        limit_silence(peer, wish->rank);
        note_silence(server, wish);
        epoch_driver_ask(server->driver, slot);
        return;
    }
    int rc = error_set(&why, HVD_ERR_STATE,
                       "the launcher had lost its connection with this process, and the others go on without "
                       "it; end it");
    fail(server, peer, rc, &why);
}

/* A host that sees ends has its own way to see that nodes run. */
static void take_beat(struct epoch_server *server, const struct fence_peer *peer, bool goes_on)
{
    if (goes_on && server->sees_no_ends)
        epoch_driver_hear(server->driver, slot_of(peer));
    else
        epoch_driver_hush(server->driver, slot_of(peer));
}

static int take_message(struct epoch_server *server, struct fence_peer *peer, struct hvd_error *why)
{
    struct fence_message message;
    int rc = fence_message_receive(&peer->channel, &message, why);
    if (rc == HVD_OK && !peer->known)
        rc = fence_check_identity(&server->fence, peer, why);
    if (rc != HVD_OK)
        return rc;
    peer->known = true;
    if (message.kind == FENCE_OVERDUE) {
        note_absence(server, peer);
        return HVD_OK;
    }
    if (message.kind == FENCE_BEAT) {
        take_beat(server, peer, message.number != 0);
        return HVD_OK;
    }
    if (message.kind == FENCE_NEXT_EPOCH && !peer->arrived && message.number <= UINT16_MAX)
        take_wish(server, peer, &message);
    else if (message.kind == FENCE_WATCH && !peer->arrived)
        tell_news(server, peer);
    else if (message.kind != FENCE_STAY)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it sent a message of kind %u; do all ranks run the same hvd?", message.kind);
    peer->stays = !peer->arrived;
    return HVD_OK;
}

/* Take what has come from a connection. An error if it has ended, or must. */
static int serve_peer(struct epoch_server *server, struct fence_peer *peer, struct hvd_error *why)
{
    int rc = peer->channel.fd < 0 ? fence_authenticate(&server->fence, peer, why) : HVD_OK;
    if (rc == HVD_OK && fence_peer_is_agent(peer))
        return rc; /* its messages are for whoever takes it */
    if (rc == HVD_OK)
        rc = secure_channel_flush(&peer->channel, why);
    while (rc >= 0 && peer->channel.fd >= 0) {
        rc = take_message(server, peer, why);
        if (rc == HVD_IN_PROGRESS)
            break;
    }
    return rc;
}

static int compare_events(const void *a, const void *b)
{
    uint32_t index_a = ((const struct epoll_event *)a)->data.u32;
    uint32_t index_b = ((const struct epoll_event *)b)->data.u32;
    return (index_a > index_b) - (index_a < index_b);
}

/* Which connections are ready, in the order of their indexes, and do others wait at the listener? */
static void find_ready(struct epoch_server *server)
{
    int most = fence_max_peers(&server->fence) + 1;
    int count = epoll_wait(server->epoll_fd, server->ready, most, 0);
    count = count > 0 ? count : 0;
    qsort(server->ready, (size_t)count, sizeof(*server->ready), compare_events);
    server->has_callers = count > 0 && server->ready[count - 1].data.u32 == LISTENER;
    server->ready_count = count - server->has_callers;
}

/* A process has closed its connection. If it waits it has given up, unless it has had its answer. */
static void part_with(struct epoch_server *server, struct fence_peer *peer)
{
    epoch_driver_give_up(server->driver, slot_of(peer));
    if (server->sees_no_ends)
        epoch_server_lose(server, slot_of(peer));
}

/* Serve the connections that are ready, those that are known or those that are not. */
static void serve_ready(struct epoch_server *server, bool known)
{
    for (int i = 0; i < server->ready_count; i++) {
        struct fence_peer *peer = &server->fence.peers[server->ready[i].data.u32];
        struct hvd_error why = {""};
        if (peer->gone[0] != 0 || peer->known != known)
            continue;
        if (serve_peer(server, peer, &why) >= 0) {
            watch_peer(server, peer);
            continue;
        }
        if (peer->known)
            part_with(server, peer);
        snprintf(peer->gone, sizeof(peer->gone), "%.159s", why.text);
    }
}

/* Forget the connections that have ended: from the last to the first, as the last one moves to the index of
 * one that goes. */
static void remove_gone(struct epoch_server *server)
{
    for (int i = server->ready_count - 1; i >= 0; i--) {
        int index = (int)server->ready[i].data.u32;
        if (server->fence.peers[index].gone[0] != 0)
            remove_peer(server, index);
    }
}

/* Take the connections that wait at the listener. */
static void accept_processes(struct epoch_server *server)
{
    if (!server->has_callers)
        return;
    fence_accept_peers(&server->fence, NULL);
    for (int i = 0; i < server->fence.peer_count; i++) /* another may have moved, to make room */
        watch_peer(server, &server->fence.peers[i]);
}

bool epoch_server_take_agent(struct epoch_server *server, struct secure_channel *channel,
                             char from[EPOCH_AGENT_BYTES])
{
    for (int i = 0; i < server->fence.peer_count; i++) {
        struct fence_peer *peer = &server->fence.peers[i];
        if (peer->channel.fd < 0 || !fence_peer_is_agent(peer))
            continue;
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, peer->channel.fd, NULL);
        *channel = peer->channel;
        snprintf(from, EPOCH_AGENT_BYTES, "%s", peer->from);
        peer->channel = (struct secure_channel){.fd = -1};
        remove_peer(server, i);
        return true;
    }
    return false;
}

/* ---- Answers ------------------------------------------------------------------------------------ */

static void tell_place(const struct epoch_server *server, struct fence_peer *peer)
{
    unsigned char bytes[FENCE_PLACE_BYTES];
    const struct meeting *meeting = &server->meetings[epoch_driver_slot(server->driver, 0)];
    struct fence_place place = {.rank = epoch_driver_rank(server->driver, slot_of(peer)),
                                .size = epoch_driver_size(server->driver),
                                .port = meeting->port};
    memcpy(place.host, meeting->host, sizeof(place.host));
    struct fence_message message = fence_place_encode(&place, epoch_driver_epoch(server->driver), bytes);
    send_to(server, peer, &message);
}

static void tell_end(const struct epoch_server *server, struct fence_peer *peer, enum epoch_decision decision)
{
    struct hvd_error why = {""};
    int rc = decision == EPOCH_IS_LAST
                 ? error_set(&why, HVD_ERR_SHUTDOWN, "the job has ended, and this spare was not needed")
                 : error_set(&why, HVD_ERR_STATE, "%d of %d ranks are left, too few to go on",
                             epoch_driver_left(server->driver), server->slots);
    fail(server, peer, rc, &why);
}

/* It is to wait without a limit of its own. */
static void keep(const struct epoch_server *server, struct fence_peer *peer)
{
    send_to(server, peer, &(struct fence_message){.kind = FENCE_NEWS, .number = FENCE_SPARE});
    peer->kept = true;
}

static void tell(const struct epoch_server *server, struct fence_peer *peer, enum epoch_decision decision)
{
    bool is_spare = decision == EPOCH_BEGINS && !epoch_server_is_member(server, slot_of(peer));
    if (is_spare)
        keep(server, peer);
    else if (decision == EPOCH_BEGINS)
        tell_place(server, peer);
    else
        tell_end(server, peer, decision);
    peer->arrived = is_spare;
}

/* When the job has failed, and its host sees no ends, no process has longer than the lease to end: those on a
 * node that stands still never do. */
static void tell_all(struct epoch_server *server, enum epoch_decision decision)
{
    bool limits = decision == EPOCH_REFUSES && server->sees_no_ends;
    for (int slot = 0; slot < server->slots && !server->refused; slot++) {
        server->meetings[slot].silent_us = limits ? clock_us() + server->lease_us : 0;
        server->meetings[slot].absent = false;
    }
    for (int i = 0; i < server->fence.peer_count; i++)
        if (server->fence.peers[i].arrived)
            tell(server, &server->fence.peers[i], decision);
    server->refused = server->refused || decision == EPOCH_REFUSES;
}

/* Newcomers wait until the members ask, and those of an epoch that has become too small for newcomers. */
static void keep_waiting(struct epoch_server *server)
{
    bool too_small = epoch_driver_members(server->driver) < server->fewest;
    for (int i = 0; i < server->fence.peer_count; i++) {
        struct fence_peer *peer = &server->fence.peers[i];
        if (peer->arrived && !peer->kept && (too_small || !epoch_server_is_member(server, slot_of(peer))))
            keep(server, peer);
    }
}

/* The members that are still at their start may wait for one that was lost: they give up, and ask again. */
static void tell_beginners(struct epoch_server *server)
{
    for (int i = 0; i < server->fence.peer_count; i++) {
        struct fence_peer *peer = &server->fence.peers[i];
        if (peer->known && !peer->arrived && !peer->stays)
            send_to(server, peer, &(struct fence_message){.kind = FENCE_NEWS, .number = FENCE_LOSS});
    }
    server->lost_member = false;
}

/* Does a process wait for others? Spares do not. */
static bool is_waited_for(const struct epoch_server *server)
{
    return epoch_driver_epoch(server->driver) == 0 ? epoch_driver_waiting(server->driver) > 0
                                                   : epoch_driver_waiting_members(server->driver) > 0;
}

/* One process waits, and so perhaps for others on a node that is gone: send these something. */
static void probe_others(struct epoch_server *server)
{
    bool waits = is_waited_for(server);
    for (int i = 0; i < server->fence.peer_count && waits && !server->probed; i++)
        if (server->fence.peers[i].stays)
            send_to(server, &server->fence.peers[i],
                    &(struct fence_message){.kind = FENCE_NEWS, .number = FENCE_NO_NEWS});
    server->probed = waits;
}

/* Newcomers that wait while the members work on do not count. */
static bool is_forming(const struct epoch_server *server)
{
    return epoch_driver_members(server->driver) == 0 ? epoch_driver_waiting(server->driver) > 0
                                                     : epoch_driver_waiting_members(server->driver) > 0;
}

/* Decide, and take the time that an epoch took to form. */
static enum epoch_decision decide(struct epoch_server *server)
{
    if (!is_forming(server))
        server->asked_us = 0;
    else if (server->asked_us == 0)
        server->asked_us = clock_us();
    enum epoch_decision decision = epoch_driver_decide(server->driver);
    if (decision == EPOCH_BEGINS) {
        server->rendezvous_us = server->asked_us == 0 ? 0 : clock_us() - server->asked_us;
        server->asked_us = 0;
    }
    return decision;
}

static void tell_watchers(struct epoch_server *server)
{
    for (int i = 0; i < server->fence.peer_count; i++)
        if (server->fence.peers[i].watches)
            tell_news(server, &server->fence.peers[i]);
}

void epoch_server_work(struct epoch_server *server)
{
    if (server == NULL)
        return;
    find_ready(server);
    serve_ready(server, true); /* first, as a process that asks again has closed its connection before */
    serve_ready(server, false);
    remove_gone(server);
    accept_processes(server);
    count_beats(server);
    if (server->lost_member)
        tell_beginners(server);
    enum epoch_decision decision = decide(server);
    if (decision != EPOCH_WAITS)
        tell_all(server, decision);
    if (server->limits_waits)
        keep_waiting(server);
    if (server->sees_no_ends)
        probe_others(server);
    if (has_news(server))
        tell_watchers(server);
}
