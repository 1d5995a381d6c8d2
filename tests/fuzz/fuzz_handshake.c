/* fuzz_handshake.c: the handshake with a peer that sends hostile bytes, at both ends and over both kinds of
 * sockets; and with a true peer whose messages are changed in one place. */
#include <assert.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "fuzz.h"

enum { AT_ACCEPTOR = 1, PACKETS = 2, TRUE_PEER = 4 }; /* bits of an input's first byte */

static const unsigned char key[HANDSHAKE_KEY_BYTES] = "a key that the peer may not have";

/* Whatever a handshake says must be complete. */
static void check_result(const struct handshake *handshake, enum handshake_result result)
{
    assert(handshake->length <= HANDSHAKE_ALL_BYTES);
    if (result == HANDSHAKE_FAILED)
        assert(handshake->why != NULL && handshake->why[0] != 0);
}

static void begin(struct handshake *handshake, bool acceptor, const struct handshake_claim *claim, int fd)
{
    if (acceptor)
        handshake_accept(handshake, key, fd);
    else
        handshake_connect(handshake, key, claim, fd);
}

/* A peer without the key sends these bytes, in pieces: it never gets in, and an acceptor tells it nothing but
 * a nonce. */
static void meet_stranger(unsigned how, const unsigned char *bytes, size_t length)
{
    struct handshake_claim claim = {.purpose = 1, .from = 2, .to = 3};
    struct handshake handshake;
    unsigned char heard[2 * HANDSHAKE_ALL_BYTES];
    size_t heard_bytes = 0;
    int fds[2];
    int type = ((how & PACKETS) != 0 ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_NONBLOCK;
    if (socketpair(AF_UNIX, type, 0, fds) < 0)
        return;
    begin(&handshake, (how & AT_ACCEPTOR) != 0, &claim, fds[0]);
    enum handshake_result result = handshake_advance(&handshake);
    check_result(&handshake, result);
    while (result == HANDSHAKE_WAITS && length > 1) {
        size_t piece = 1 + bytes[0] % 64;
        piece = piece < length - 1 ? piece : length - 1;
        if (send(fds[1], bytes + 1, piece, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        bytes += 1 + piece;
        length -= 1 + piece;
        result = handshake_advance(&handshake);
        check_result(&handshake, result);
    }
    assert(result == HANDSHAKE_WAITS || result == HANDSHAKE_FAILED);
    handshake_close(&handshake);
    for (ssize_t got = 1; got > 0; heard_bytes += got > 0 ? (size_t)got : 0)
        got = recv(fds[1], heard + heard_bytes, sizeof(heard) - heard_bytes, MSG_DONTWAIT);
    close(fds[1]);
    if ((how & AT_ACCEPTOR) != 0)
        assert(heard_bytes == HANDSHAKE_CHALLENGE_BYTES);
    else
        assert(heard_bytes == 0 || heard_bytes == HANDSHAKE_RESPONSE_BYTES);
}

/* Pass on what waits at [from] to [to], with the byte at *atp changed by [change]; *atp counts down. */
static void pass_on(int from, int to, size_t *atp, unsigned char change)
{
    unsigned char bytes[HANDSHAKE_ALL_BYTES];
    ssize_t got = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0)
        return;
    if (*atp < (size_t)got) {
        bytes[*atp] ^= change;
        *atp = SIZE_MAX;
    } else if (*atp != SIZE_MAX) {
        *atp -= (size_t)got;
    }
    assert(send(to, bytes, (size_t)got, MSG_NOSIGNAL) == got);
}

/* Two ends that hold the key, and one between them that changes a byte: both get in if it changed nothing,
 * and then agree on everything; otherwise not both do. */
static void meet_through_other(unsigned how, size_t at, unsigned char change,
                               const struct handshake_claim *claim)
{
    struct handshake ends[2];
    int outer[2], inner[2];
    int type = ((how & PACKETS) != 0 ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_NONBLOCK;
    enum handshake_result results[2] = {HANDSHAKE_WAITS, HANDSHAKE_WAITS};
    unsigned char keys[4][HANDSHAKE_KEY_BYTES];
    bool changes = at < HANDSHAKE_ALL_BYTES && change != 0;
    if (socketpair(AF_UNIX, type, 0, outer) < 0)
        return;
    if (socketpair(AF_UNIX, type, 0, inner) < 0) {
        close(outer[0]);
        close(outer[1]);
        return;
    }
    begin(&ends[0], true, claim, outer[0]);
    begin(&ends[1], false, claim, inner[0]);
    for (int i = 0; i < 8; i++) {
        for (int end = 0; end < 2; end++) {
            if (results[end] == HANDSHAKE_WAITS)
                results[end] = handshake_advance(&ends[end]);
            check_result(&ends[end], results[end]);
        }
        if (results[0] == HANDSHAKE_CLAIMED) {
            assert(ends[0].claim.purpose == claim->purpose && ends[0].claim.tag == claim->tag &&
                   ends[0].claim.epoch == claim->epoch && ends[0].claim.from == claim->from &&
                   ends[0].claim.to == claim->to && ends[0].claim.size == claim->size);
            handshake_admit(&ends[0]);
            results[0] = HANDSHAKE_WAITS;
        }
        pass_on(outer[1], inner[1], &at, change);
        pass_on(inner[1], outer[1], &at, change);
    }
    bool both = results[0] == HANDSHAKE_DONE && results[1] == HANDSHAKE_DONE;
    assert(both == !changes);
    if (both) {
        handshake_session_keys(&ends[0], keys[0], keys[1]);
        handshake_session_keys(&ends[1], keys[2], keys[3]);
        assert(memcmp(keys[0], keys[3], sizeof(keys[0])) == 0 &&
               memcmp(keys[1], keys[2], sizeof(keys[1])) == 0);
    }
    handshake_close(&ends[0]);
    handshake_close(&ends[1]);
    close(outer[1]);
    close(inner[1]);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct handshake_claim claim = {.purpose = 0};
    if (sodium_init() < 0 || length == 0)
        return 0;
    if ((bytes[0] & TRUE_PEER) == 0) {
        meet_stranger(bytes[0], bytes + 1, length - 1);
        return 0;
    }
    if (length < 3 + 6 * sizeof(uint32_t))
        return 0;
    uint32_t numbers[6];
    memcpy(numbers, bytes + 3, sizeof(numbers));
    claim.purpose = (uint16_t)numbers[0];
    claim.tag = numbers[1];
    claim.epoch = numbers[2];
    claim.from = numbers[3];
    claim.to = numbers[4];
    claim.size = numbers[5];
    meet_through_other(bytes[0], bytes[1], bytes[2], &claim);
    return 0;
}
