/* handshake.c: one connection on its way from a bare socket to a peer that has proved who it is. */
#include "auth/handshake.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/address.h"

static enum greeting_result fail(struct greeting *greeting, const char *why, bool stranger)
{
    greeting->why = why;
    greeting->stranger = stranger;
    return GREETING_FAILED;
}

static void await(struct greeting *greeting, enum greeting_state state, size_t in_awaited)
{
    greeting->state = state;
    greeting->in_awaited = in_awaited;
    greeting->in_have = 0;
}

static void say(struct greeting *greeting, const unsigned char *bytes, size_t length)
{
    memcpy(greeting->out, bytes, length);
    greeting->out_length = length;
    greeting->out_sent = 0;
}

int greeting_connect(struct greeting *greeting, const unsigned char *key, const struct handshake_claim *claim,
                     const struct in6_addr *address, uint16_t port)
{
    struct sockaddr_storage socket_address;
    socklen_t length = address_socket(address, port, &socket_address);
    *greeting = (struct greeting){.state = GREETING_CONNECTING,
                                  .limit_us = clock_us() + GREETING_LIMIT_US,
                                  .key = key,
                                  .claim = *claim};
    greeting->fd = socket(socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (greeting->fd < 0) {
        greeting->why = strerror(errno);
        return -1;
    }
    if (connect(greeting->fd, (struct sockaddr *)&socket_address, length) < 0 && errno != EINPROGRESS) {
        greeting->why = strerror(errno);
        greeting_end(greeting);
        return -1;
    }
    return 0;
}

void greeting_accept(struct greeting *greeting, const unsigned char *key, int fd)
{
    *greeting = (struct greeting){.fd = fd, .limit_us = clock_us() + GREETING_LIMIT_US, .key = key};
    handshake_challenge(greeting->challenge);
    say(greeting, greeting->challenge, sizeof(greeting->challenge));
    await(greeting, GREETING_AWAITS_ANSWER, HANDSHAKE_ANSWER_BYTES);
}

short greeting_events(const struct greeting *greeting)
{
    bool writes = greeting->state == GREETING_CONNECTING || greeting->out_sent < greeting->out_length;
    return writes ? POLLOUT : POLLIN;
}

/* Send what is to be said, then read what is awaited, and not a byte more: what follows is not ours. */
static enum greeting_result exchange(struct greeting *greeting)
{
    while (greeting->out_sent < greeting->out_length) {
        ssize_t sent = send(greeting->fd, greeting->out + greeting->out_sent,
                            greeting->out_length - greeting->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? GREETING_WAITS : fail(greeting, strerror(errno), false);
        greeting->out_sent += (size_t)sent;
    }
    while (greeting->in_have < greeting->in_awaited) {
        ssize_t got =
            recv(greeting->fd, greeting->in + greeting->in_have, greeting->in_awaited - greeting->in_have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? GREETING_WAITS : fail(greeting, strerror(errno), false);
        if (got == 0)
            return fail(greeting, "closed the connection", false);
        greeting->in_have += (size_t)got;
    }
    return GREETING_DONE;
}

static enum greeting_result step_connecting(struct greeting *greeting)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(greeting->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error != 0)
        return fail(greeting, strerror(error), false);
    await(greeting, GREETING_AWAITS_CHALLENGE, HANDSHAKE_CHALLENGE_BYTES);
    return greeting_advance(greeting);
}

static enum greeting_result step_challenged(struct greeting *greeting)
{
    const char *why = handshake_check_challenge(greeting->in, greeting->in_have);
    if (why != NULL)
        return fail(greeting, why, true);
    memcpy(greeting->challenge, greeting->in, sizeof(greeting->challenge));
    handshake_answer(greeting->key, greeting->challenge, &greeting->claim, greeting->answer);
    say(greeting, greeting->answer, sizeof(greeting->answer));
    await(greeting, GREETING_AWAITS_WELCOME, HANDSHAKE_WELCOME_BYTES);
    return greeting_advance(greeting);
}

static enum greeting_result step_welcomed(struct greeting *greeting)
{
    const char *why = handshake_check_welcome(greeting->key, greeting->challenge, greeting->answer,
                                              greeting->in, greeting->in_have);
    return why == NULL ? GREETING_DONE : fail(greeting, why, true);
}

static enum greeting_result step_answered(struct greeting *greeting)
{
    const char *why = handshake_check_answer(greeting->key, greeting->challenge, greeting->in,
                                             greeting->in_have, &greeting->claim);
    if (why != NULL)
        return fail(greeting, why, true);
    memcpy(greeting->answer, greeting->in, sizeof(greeting->answer));
    await(greeting, GREETING_AWAITS_CONSENT, 0);
    return GREETING_ASKS;
}

static enum greeting_result step_asks(struct greeting *greeting)
{
    (void)greeting;
    return GREETING_ASKS;
}

/* The connector may have lost patience long ago; then it will come again. */
static enum greeting_result step_said_welcome(struct greeting *greeting)
{
    char byte;
    ssize_t got = recv(greeting->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return fail(greeting, "closed the connection", false);
    return GREETING_DONE;
}

/* What happens in each state once what it awaits is there. */
static enum greeting_result (*const steps[GREETING_STATE_COUNT])(struct greeting *greeting) = {
    [GREETING_CONNECTING] = step_connecting,   [GREETING_AWAITS_CHALLENGE] = step_challenged,
    [GREETING_AWAITS_WELCOME] = step_welcomed, [GREETING_AWAITS_ANSWER] = step_answered,
    [GREETING_AWAITS_CONSENT] = step_asks,     [GREETING_SENDS_WELCOME] = step_said_welcome,
};

enum greeting_result greeting_advance(struct greeting *greeting)
{
    enum greeting_result result = exchange(greeting);
    return result == GREETING_DONE ? steps[greeting->state](greeting) : result;
}

void greeting_admit(struct greeting *greeting)
{
    unsigned char welcome[HANDSHAKE_WELCOME_BYTES];
    handshake_welcome(greeting->key, greeting->challenge, greeting->answer, welcome);
    say(greeting, welcome, sizeof(welcome));
    await(greeting, GREETING_SENDS_WELCOME, 0);
}

void greeting_end(struct greeting *greeting)
{
    if (greeting->fd >= 0)
        close(greeting->fd);
    greeting->fd = -1;
}
