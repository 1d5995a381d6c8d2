/* p2p_frame.c: encodes and decodes the frames of messages between two ranks. */
#include "p2p/p2p_frame.h"

#include <inttypes.h>

#include "base/codec.h"
#include "base/dtype.h"

void p2p_frame_encode(unsigned char bytes[P2P_FRAME_BYTES], const struct p2p_frame *frame)
{
    struct encoder encoder = {bytes, P2P_FRAME_BYTES, false};
    encode_number(&encoder, P2P_FRAME_MAGIC, 4);
    encode_number(&encoder, frame->type, 1);
    encode_number(&encoder, frame->dtype, 1);
    encode_number(&encoder, frame->other_dtype, 1);
    encode_number(&encoder, frame->direct, 1);
    encode_number(&encoder, (uint32_t)frame->set, 4);
    encode_number(&encoder, (uint32_t)frame->tag, 4);
    encode_number(&encoder, frame->id, 8);
    encode_number(&encoder, (uint64_t)frame->bytes, 8);
    encode_number(&encoder, (uint64_t)frame->other_bytes, 8);
    encode_number(&encoder, frame->address, 8);
}

/* Are the fields that its type uses in their range? */
static bool is_sound(const struct p2p_frame *frame)
{
    if (frame->direct && frame->type != P2P_OFFER && frame->type != P2P_TAKE && frame->type != P2P_DATA)
        return false;
    switch (frame->type) {
    case P2P_EAGER:
        return frame->bytes <= P2P_EAGER_BYTES;
    case P2P_OFFER:
    case P2P_DATA:
    case P2P_WITHDRAWAL:
    case P2P_TAKE:
    case P2P_TAKEN:
    case P2P_DEPARTURE:
        return frame->id > 0;
    case P2P_CREDIT:
        return frame->bytes > 0;
    default:
        return true;
    }
}

int p2p_frame_decode(const unsigned char bytes[P2P_FRAME_BYTES], unsigned allowed, struct p2p_frame *frame,
                     struct hvd_error *err)
{
    struct decoder decoder = {bytes, P2P_FRAME_BYTES, false};
    struct p2p_frame read = {0};
    if (decode_number(&decoder, 4) != P2P_FRAME_MAGIC)
        return error_set(err, HVD_ERR_SYSTEM, "bytes that are no frame of a message");
    uint64_t type = decode_number(&decoder, 1);
    if (type >= P2P_FRAME_TYPES || (allowed >> type & 1) == 0)
        return error_set(err, HVD_ERR_SYSTEM, "a frame of type %" PRIu64 ", which must not come there", type);
    read.type = (enum p2p_frame_type)type;
    read.dtype = (enum hvd_dtype)decode_at_most(&decoder, 1, DTYPE_COUNT - 1);
    read.other_dtype = (enum hvd_dtype)decode_at_most(&decoder, 1, DTYPE_COUNT - 1);
    read.direct = decode_at_most(&decoder, 1, 1) == 1;
    read.set = (hvd_set)decode_at_most(&decoder, 4, INT32_MAX);
    read.tag = (int)decode_at_most(&decoder, 4, INT32_MAX);
    read.id = decode_number(&decoder, 8);
    read.bytes = (int64_t)decode_at_most(&decoder, 8, BYTES_MAX);
    read.other_bytes = (int64_t)decode_at_most(&decoder, 8, BYTES_MAX);
    read.address = decode_number(&decoder, 8);
    if (decoder.failed || !is_sound(&read))
        return error_set(err, HVD_ERR_SYSTEM, "a frame of type %" PRIu64 " with a value out of range", type);
    *frame = read;
    return HVD_OK;
}
