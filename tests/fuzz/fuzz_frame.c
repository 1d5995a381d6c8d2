/* fuzz_frame.c: frames of the control tree and their aborts from hostile bytes. */
#include <assert.h>
#include <string.h>

#include "net/frame.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct frame frame;
    struct frame_abort abort;
    struct hvd_error err;
    unsigned all = FRAME_ALLOW(FRAME_MESSAGE) | FRAME_ALLOW(FRAME_ABORT) | FRAME_ALLOW(FRAME_FAREWELL);
    if (frame_decode(bytes, length, all, &frame, &err) == HVD_OK) {
        assert(frame.length <= length);
        if (frame.type == FRAME_ABORT &&
            frame_abort_decode(frame.payload, frame.length, 100, &abort, &err) == HVD_OK)
            assert(abort.rank >= 0 && abort.rank < 100 && abort.status < 0 &&
                   strlen(abort.sentence) <= FRAME_SENTENCE_BYTES);
    }
    return 0;
}
