/* handshake.c: one connection on its way from a bare socket to a peer that has proved who it is. */
#include "auth/handshake.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/address.h"

static enum handshake_result fail(struct handshake *handshake, const char *why, bool foreign)
{
    handshake->why = why;
    handshake->foreign = foreign;
    return HANDSHAKE_FAILED;
}

static void await_state(struct handshake *handshake, enum handshake_state state, size_t in_expected)
{
    handshake->state = state;
    handshake->in_expected = in_expected;
    handshake->in_have = 0;
}

static void send_later(struct handshake *handshake, const unsigned char *bytes, size_t length)
{
    memcpy(handshake->out, bytes, length);
    handshake->out_length = length;
    handshake->out_sent = 0;
}

int handshake_connect(struct handshake *handshake, const unsigned char *key, const struct auth_claim *claim,
                      const struct in6_addr *address, uint16_t port)
{
    struct sockaddr_storage socket_address;
    socklen_t length = address_to_sockaddr(address, port, &socket_address);
    *handshake = (struct handshake){.state = HANDSHAKE_CONNECTING,
                                    .deadline_us = clock_us() + HANDSHAKE_TIMEOUT_US,
                                    .key = key,
                                    .claim = *claim};
    handshake->fd = socket(socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (handshake->fd < 0) {
        handshake->why = strerror(errno);
        return -1;
    }
    if (connect(handshake->fd, (struct sockaddr *)&socket_address, length) < 0 && errno != EINPROGRESS) {
        handshake->why = strerror(errno);
        handshake_close(handshake);
        return -1;
    }
    return 0;
}

void handshake_accept(struct handshake *handshake, const unsigned char *key, int fd)
{
    *handshake = (struct handshake){.fd = fd, .deadline_us = clock_us() + HANDSHAKE_TIMEOUT_US, .key = key};
    auth_make_challenge(handshake->challenge);
    send_later(handshake, handshake->challenge, sizeof(handshake->challenge));
    await_state(handshake, HANDSHAKE_AWAITS_RESPONSE, AUTH_RESPONSE_BYTES);
}

short handshake_poll_events(const struct handshake *handshake)
{
    bool writes = handshake->state == HANDSHAKE_CONNECTING || handshake->out_sent < handshake->out_length;
    return writes ? POLLOUT : POLLIN;
}

/* Send what is to be said, then read what is awaited, and not a byte more: what follows is not ours. */
static enum handshake_result send_and_receive(struct handshake *handshake)
{
    while (handshake->out_sent < handshake->out_length) {
        ssize_t sent = send(handshake->fd, handshake->out + handshake->out_sent,
                            handshake->out_length - handshake->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? HANDSHAKE_WAITS : fail(handshake, strerror(errno), false);
        handshake->out_sent += (size_t)sent;
    }
    while (handshake->in_have < handshake->in_expected) {
        ssize_t got = recv(handshake->fd, handshake->in + handshake->in_have,
                           handshake->in_expected - handshake->in_have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? HANDSHAKE_WAITS : fail(handshake, strerror(errno), false);
        if (got == 0)
            return fail(handshake, "closed the connection", false);
        handshake->in_have += (size_t)got;
    }
    return HANDSHAKE_DONE;
}

static enum handshake_result on_connected(struct handshake *handshake)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(handshake->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error != 0)
        return fail(handshake, strerror(error), false);
    await_state(handshake, HANDSHAKE_AWAITS_CHALLENGE, AUTH_CHALLENGE_BYTES);
    return handshake_advance(handshake);
}

static enum handshake_result on_challenge(struct handshake *handshake)
{
    const char *why = auth_check_challenge(handshake->in, handshake->in_have);
    if (why != NULL)
        return fail(handshake, why, true);
    memcpy(handshake->challenge, handshake->in, sizeof(handshake->challenge));
    auth_make_response(handshake->key, handshake->challenge, &handshake->claim, handshake->response);
    send_later(handshake, handshake->response, sizeof(handshake->response));
    await_state(handshake, HANDSHAKE_AWAITS_CONFIRMATION, AUTH_CONFIRMATION_BYTES);
    return handshake_advance(handshake);
}

static enum handshake_result on_confirmation(struct handshake *handshake)
{
    const char *why = auth_check_confirmation(handshake->key, handshake->challenge, handshake->response,
                                              handshake->in, handshake->in_have);
    return why == NULL ? HANDSHAKE_DONE : fail(handshake, why, true);
}

static enum handshake_result on_response(struct handshake *handshake)
{
    const char *why = auth_check_response(handshake->key, handshake->challenge, handshake->in,
                                          handshake->in_have, &handshake->claim);
    if (why != NULL)
        return fail(handshake, why, true);
    memcpy(handshake->response, handshake->in, sizeof(handshake->response));
    await_state(handshake, HANDSHAKE_AWAITS_ADMISSION, 0);
    return HANDSHAKE_CLAIMED;
}

static enum handshake_result on_awaiting_admission(struct handshake *handshake)
{
    (void)handshake;
    return HANDSHAKE_CLAIMED;
}

/* The connector may have lost patience long ago; then it will come again. */
static enum handshake_result on_confirmation_sent(struct handshake *handshake)
{
    char byte;
    ssize_t got = recv(handshake->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return fail(handshake, "closed the connection", false);
    return HANDSHAKE_DONE;
}

/* What happens in each state once what it awaits is there. */
static enum handshake_result (*const handlers[HANDSHAKE_STATE_COUNT])(struct handshake *handshake) = {
    [HANDSHAKE_CONNECTING] = on_connected,
    [HANDSHAKE_AWAITS_CHALLENGE] = on_challenge,
    [HANDSHAKE_AWAITS_CONFIRMATION] = on_confirmation,
    [HANDSHAKE_AWAITS_RESPONSE] = on_response,
    [HANDSHAKE_AWAITS_ADMISSION] = on_awaiting_admission,
    [HANDSHAKE_SENDS_CONFIRMATION] = on_confirmation_sent,
};

enum handshake_result handshake_advance(struct handshake *handshake)
{
    enum handshake_result result = send_and_receive(handshake);
    return result == HANDSHAKE_DONE ? handlers[handshake->state](handshake) : result;
}

void handshake_admit(struct handshake *handshake)
{
    unsigned char confirmation[AUTH_CONFIRMATION_BYTES];
    auth_make_confirmation(handshake->key, handshake->challenge, handshake->response, confirmation);
    send_later(handshake, confirmation, sizeof(confirmation));
    await_state(handshake, HANDSHAKE_SENDS_CONFIRMATION, 0);
}

void handshake_close(struct handshake *handshake)
{
    if (handshake->fd >= 0)
        close(handshake->fd);
    handshake->fd = -1;
}
