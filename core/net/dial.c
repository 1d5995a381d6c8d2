/* dial.c: the connections of an establishment that this rank begins. */
#include "net/dial.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "net/accept.h"
#include "net/address.h"

#define CONNECT_US     INT64_C(2000000) /* for one address to answer, if there are others to try */
#define PAUSE_FIRST_US INT64_C(10000)   /* between two rounds over a peer's addresses; then it doubles */
#define PAUSE_LAST_US  INT64_C(500000)

void dial_prepare(struct establishment *establishment)
{
    struct address_net nets[ADDRESS_MAX_NETS];
    int net_count = address_nets(nets, ADDRESS_MAX_NETS);
    for (int i = 0; i < establishment->request_count; i++) {
        const struct endpoint_connection *request = &establishment->requests[i];
        struct dial *dial = &establishment->dials[i];
        if (!request->connect)
            continue;
        const struct peer *peer = &establishment->peer_table->peers[request->rank];
        dial->pause_us = PAUSE_FIRST_US;
        dial->answered_us = clock_us();
        if (request->address != NULL) {
            dial->address_count = 1;
            dial->addresses[0] = *request->address;
            continue;
        }
        dial->address_count = peer->address_count;
        memcpy(dial->addresses, peer->addresses, sizeof(dial->addresses));
        address_sort(dial->addresses, dial->address_count, nets, net_count);
        address_rotate(dial->addresses, dial->address_count, nets, net_count, request->lane);
    }
}

void dial_failed(struct establishment *establishment, int index, const char *why)
{
    struct dial *dial = &establishment->dials[index];
    char name[300];
    peer_table_rank_name(establishment->peer_table, establishment->requests[index].rank, name, sizeof(name));
    log_write(endpoint_log(establishment->endpoint), LOG_DEBUG, "endpoint", "address %d of %s: %s",
              dial->next, name, why);
    dial->busy = false;
    dial->why = why;
    dial->next++;
    if (dial->next < dial->address_count)
        return;
    dial->next = 0;
    dial->not_before_us = clock_us() + dial->pause_us;
    dial->pause_us = dial->pause_us * 2 < PAUSE_LAST_US ? dial->pause_us * 2 : PAUSE_LAST_US;
}

/* Begin to connect. Returns a socket, or -1 with errno if the network refuses at once. */
static int begin_connect(struct establishment *establishment, const struct in6_addr *address, uint16_t port)
{
    struct sockaddr_storage socket_address;
    socklen_t length = address_to_sockaddr(address, port, &socket_address);
    int fd = -1;
    do
        fd = socket(socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    while (fd < 0 && accept_make_room(establishment, errno));
    if (fd >= 0 && (connect(fd, (struct sockaddr *)&socket_address, length) == 0 || errno == EINPROGRESS))
        return fd;
    int saved_errno = errno;
    descriptors_close(&fd);
    errno = saved_errno;
    return -1;
}

uint16_t dial_port(const struct establishment *establishment, const struct endpoint_connection *request)
{
    const struct peer *peer = &establishment->peer_table->peers[request->rank];
    return request->purpose == ENDPOINT_MESSAGES ? peer->message_port : peer->port;
}

static void start_dial(struct establishment *establishment, int index)
{
    struct dial *dial = &establishment->dials[index];
    const struct endpoint_connection *request = &establishment->requests[index];
    struct handshake *handshake = &establishment->handshakes.entries[index];
    const struct handshake_claim claim = {.purpose = (uint16_t)request->purpose,
                                          .tag = request->tag,
                                          .epoch = establishment->peer_table->epoch,
                                          .from = (uint32_t)establishment->peer_table->rank,
                                          .to = (uint32_t)request->rank};
    while (!dial->busy && clock_us() >= dial->not_before_us) {
        int fd =
            begin_connect(establishment, &dial->addresses[dial->next], dial_port(establishment, request));
        if (fd < 0) {
            dial_failed(establishment, index, strerror(errno));
            continue;
        }
        dial->busy = true;
        handshake_connect(handshake, establishment->peer_table->key, &claim, fd);
        if (dial->address_count > 1)
            handshake->deadline_us = clock_us() + CONNECT_US;
        handshake_table_watch(&establishment->handshakes, index);
    }
}

/* Whether the connection of request [index] is for this rank to begin, and not there yet. */
static bool is_wanted(const struct establishment *establishment, int index)
{
    return establishment->requests[index].connect && establishment->requests[index].fd < 0;
}

void dial_start_due(struct establishment *establishment)
{
    for (int i = 0; i < establishment->request_count; i++)
        if (is_wanted(establishment, i))
            start_dial(establishment, i);
}

/* How far a handshake came in this round decides how long it may take from here on. Once the other end has
 * our response it may have confirmed, and then takes the connection for made: giving that up would look to it
 * like the end of this rank. So wait for longer than the other end waits before it confirms, and then until
 * it finds the connection dead. */
static void extend_deadline(struct establishment *establishment, int index, enum handshake_state before)
{
    struct handshake *handshake = &establishment->handshakes.entries[index];
    int64_t now_us = clock_us();
    if (handshake->state == before)
        return;
    if (before == HANDSHAKE_CONNECTING) {
        establishment->dials[index].answered_us = now_us;
        handshake->deadline_us = now_us + HANDSHAKE_TIMEOUT_US;
    }
    if (handshake->state == HANDSHAKE_CONFIRMATION)
        handshake->deadline_us =
            now_us + 2 * (HANDSHAKE_TIMEOUT_US + endpoint_lease_us(establishment->endpoint));
}

bool dial_advance(struct establishment *establishment, int index)
{
    struct handshake *handshake = &establishment->handshakes.entries[index];
    enum handshake_state before = handshake->state;
    switch (handshake_advance(handshake)) {
    case HANDSHAKE_DONE:
        return true;
    case HANDSHAKE_FAILED:
        if (handshake->foreign)
            endpoint_warn_foreign(establishment->endpoint, handshake->fd, handshake->why);
        handshake_table_drop(&establishment->handshakes, index);
        dial_failed(establishment, index, handshake->why);
        return false;
    default:
        extend_deadline(establishment, index, before);
        handshake_table_watch(&establishment->handshakes, index);
        return false;
    }
}

int64_t dial_next_due(const struct establishment *establishment)
{
    int64_t due_us = INT64_MAX;
    for (int i = 0; i < establishment->request_count; i++) {
        const struct dial *dial = &establishment->dials[i];
        if (is_wanted(establishment, i) && !dial->busy && dial->not_before_us < due_us)
            due_us = dial->not_before_us;
    }
    return due_us;
}

int64_t dial_unanswered_us(const struct establishment *establishment, int index)
{
    const struct dial *dial = &establishment->dials[index];
    bool answers = dial->busy && establishment->handshakes.entries[index].state != HANDSHAKE_CONNECTING;
    return !is_wanted(establishment, index) || answers ? -1 : clock_us() - dial->answered_us;
}
