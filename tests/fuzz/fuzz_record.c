/* fuzz_record.c: sealed records, as connections between ranks and the channel of wire-up receive them: of a
 * stranger, who sends hostile bytes; and of a true peer, with one byte changed on the way. */
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "auth/record.h"
#include "fuzz.h"
#include "fuzz_channel.h"
#include "net/seal.h"
#include "pmix_shim/secure_channel.h"

enum { TRUE_PEER = 1, BY_CHANNEL = 2 }; /* bits of an input's first byte */

/* How many bytes the receiver got out, into [got]: 0 if none can be had. */
static size_t receive(bool by_channel, struct handshake *end, unsigned char got[4096])
{
    size_t length = 0;
    if (by_channel) {
        struct secure_channel channel;
        const unsigned char *message = NULL;
        struct hvd_error err = {""};
        assert(secure_channel_open(&channel, end, NULL) == HVD_OK);
        int rc = secure_channel_receive(&channel, &message, &length, &err);
        assert(rc == HVD_OK || rc == HVD_IN_PROGRESS || err.text[0] != 0);
        length = rc == HVD_OK ? length : 0;
        assert(length <= 4096);
        if (length > 0)
            memcpy(got, message, length);
        secure_channel_close(&channel);
        return length;
    }
    struct seal *seal = seal_create(end);
    struct iovec parts[2] = {{got, 100}, {got + 100, 4096 - 100}};
    ssize_t rc = seal == NULL ? 0 : seal_receive(seal, end->fd, parts, 2);
    assert(rc >= 0 || errno == EBADMSG || errno == EAGAIN);
    seal_free(seal);
    return rc > 0 ? (size_t)rc : 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    unsigned char record[4096 + RECORD_EXTRA_BYTES], got[4096];
    struct handshake ends[2];
    struct record_key send_key, other_key;
    if (sodium_init() < 0 || length < 4 || length > 4000 || !make_ends(ends))
        return 0;
    unsigned how = bytes[0];
    size_t at = bytes[1], contents = length - 3;
    unsigned char change = bytes[2];
    if ((how & TRUE_PEER) != 0) {
        assert(record_keys(&ends[0], &send_key, &other_key, NULL) == HVD_OK);
        assert(record_seal(&send_key, record, bytes + 3, contents));
        record_keys_wipe(&send_key, &other_key);
        at %= contents + RECORD_EXTRA_BYTES;
        record[at] ^= change;
        assert(send(ends[0].fd, record, contents + RECORD_EXTRA_BYTES, 0) > 0);
    } else {
        assert(send(ends[0].fd, bytes + 3, contents, 0) > 0);
    }
    size_t received = receive((how & BY_CHANNEL) != 0, &ends[1], got);
    if ((how & TRUE_PEER) != 0 && change == 0)
        assert(received == contents && memcmp(got, bytes + 3, contents) == 0);
    else
        assert(received == 0);
    handshake_close(&ends[0]);
    handshake_close(&ends[1]);
    return 0;
}
