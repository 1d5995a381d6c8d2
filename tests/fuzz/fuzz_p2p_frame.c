/* fuzz_p2p_frame.c: frames of messages between two ranks from hostile bytes. */
#include <assert.h>
#include <string.h>

#include "base/dtype.h"
#include "fuzz.h"
#include "p2p/p2p_frame.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    const unsigned allowed[] = {P2P_FROM_SENDER, P2P_FROM_RECEIVER};
    unsigned char again[P2P_FRAME_BYTES];
    struct p2p_frame frame;
    struct hvd_error err;
    if (length < P2P_FRAME_BYTES)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (p2p_frame_decode(bytes, allowed[i], &frame, &err) != HVD_OK)
            continue;
        assert(frame.set >= 0 && frame.tag >= 0 && frame.bytes >= 0 && frame.bytes <= BYTES_MAX);
        assert(frame.type != P2P_EAGER || frame.bytes <= P2P_EAGER_BYTES);
        p2p_frame_encode(again, &frame);
        assert(memcmp(again, bytes, sizeof(again)) == 0);
    }
    return 0;
}
