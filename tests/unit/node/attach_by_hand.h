/* attach_by_hand.h: a rank of a test that attaches packet by packet. */
#ifndef TESTS_UNIT_NODE_ATTACH_BY_HAND_H
#define TESTS_UNIT_NODE_ATTACH_BY_HAND_H

#include "forked_ranks.h"
#include "node/attach.h"

/* Connect to the leader, rank 0, as soon as it listens. */
static inline int attach_connect(struct forked_rank *place)
{
    struct sockaddr_un address;
    socklen_t length = attach_address(&place->peer_table, 0, &address);
    int64_t deadline_us = clock_us() + FORKED_RANKS_WAIT_US;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    while (connect(fd, (struct sockaddr *)&address, length) != 0) {
        FORKED_RANK_CHECK(place, clock_us() < deadline_us);
        poll(NULL, 0, 1);
    }
    return fd;
}

static inline enum handshake_result finish_handshake(struct forked_rank *place, struct handshake *handshake)
{
    enum handshake_result result = handshake_advance(handshake);
    while (result == HANDSHAKE_WAITS) {
        struct pollfd wait = {.fd = handshake->fd, .events = handshake_poll_events(handshake)};
        FORKED_RANK_CHECK(place, poll(&wait, 1, 10000) == 1);
        result = handshake_advance(handshake);
    }
    return result;
}

/* Wait until another rank says that it has come to stage 1. */
static inline void await_rank(struct forked_rank *place, int rank)
{
    int64_t deadline_us = clock_us() + FORKED_RANKS_WAIT_US;
    while (atomic_load(&place->team->reports[rank].stage) == 0) {
        FORKED_RANK_CHECK(place, clock_us() < deadline_us);
        poll(NULL, 0, 1);
    }
}

#endif
