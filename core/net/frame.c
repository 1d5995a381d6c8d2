/* frame.c: encodes and decodes frames, the records on the byte streams of the control tree. Pure. */
#include "config.h"
#include "net/frame.h"

#include <inttypes.h>
#include <string.h>

#include "base/codec.h"

#define ABORT_FIXED_BYTES (FRAME_ABORT_BYTES - FRAME_SENTENCE_BYTES)

/* The longest payload that a frame of [type] may have. */
static uint64_t max_payload_bytes(enum frame_type type)
{
    switch (type) {
    case FRAME_MESSAGE:
        return FRAME_MESSAGE_BYTES;
    case FRAME_ABORT:
        return FRAME_ABORT_BYTES;
    case FRAME_FAREWELL:
    case FRAME_BEAT:
        break;
    }
    return 0;
}

void frame_encode(unsigned char header[FRAME_HEADER_BYTES], enum frame_type type, uint32_t epoch,
                  size_t length)
{
    struct encoder encoder = {header, FRAME_HEADER_BYTES, false};
    encode_number(&encoder, FRAME_MAGIC, 4);
    encode_number(&encoder, FRAME_VERSION, 2);
    encode_number(&encoder, type, 2);
    encode_number(&encoder, epoch, 4);
    encode_number(&encoder, 0, 4);
    encode_number(&encoder, length, 8);
}

int frame_decode(const void *bytes, size_t have, unsigned allowed, struct frame *frame, struct hvd_error *err)
{
    struct decoder decoder = {bytes, have, false};
    if (have < FRAME_HEADER_BYTES)
        return HVD_IN_PROGRESS;
    uint32_t magic = (uint32_t)decode_number(&decoder, 4);
    unsigned version = (unsigned)decode_number(&decoder, 2);
    unsigned type = (unsigned)decode_number(&decoder, 2);
    uint32_t epoch = (uint32_t)decode_number(&decoder, 4);
    uint32_t zero = (uint32_t)decode_number(&decoder, 4);
    uint64_t length = decode_number(&decoder, 8);
    if (magic != FRAME_MAGIC)
        return error_set(err, HVD_ERR_SYSTEM,
                         "bytes that are no frame: they begin with 0x%08" PRIx32 ", expected 0x%08" PRIx32,
                         magic, FRAME_MAGIC);
    if (version != FRAME_VERSION)
        return error_set(err, HVD_ERR_SYSTEM,
                         "a frame of protocol version %u, expected %d: all ranks need the same libhvd",
                         version, FRAME_VERSION);
    if (type < FRAME_MESSAGE || type > FRAME_BEAT || (allowed & FRAME_ALLOW(type)) == 0)
        return error_set(err, HVD_ERR_SYSTEM, "a frame of type %u, which is not allowed here", type);
    if (zero != 0)
        return error_set(err, HVD_ERR_SYSTEM, "a frame with 0x%08" PRIx32 " where zero was expected", zero);
    if (length > max_payload_bytes((enum frame_type)type))
        return error_set(err, HVD_ERR_SYSTEM,
                         "a frame of type %u and %" PRIu64 " bytes, expected at most %" PRIu64, type, length,
                         max_payload_bytes((enum frame_type)type));
    const unsigned char *payload = decode_view(&decoder, (size_t)length);
    if (payload == NULL)
        return HVD_IN_PROGRESS;
    *frame = (struct frame){
        .type = (enum frame_type)type, .epoch = epoch, .payload = payload, .length = (size_t)length};
    return HVD_OK;
}

void frame_abort_set(struct frame_abort *abort, int status, int rank, const char *sentence)
{
    abort->status = status >= HVD_ERR_SYSTEM && status <= HVD_ERR_INVALID ? status : HVD_ERR_SYSTEM;
    abort->rank = rank;
    size_t length = strnlen(sentence, FRAME_SENTENCE_BYTES + 1);
    bool cut = length > FRAME_SENTENCE_BYTES;
    if (cut)
        length = FRAME_SENTENCE_BYTES;
    for (size_t i = 0; i < length; i++)
        abort->sentence[i] = is_printable_byte((unsigned char)sentence[i]) ? sentence[i] : '?';
    abort->sentence[length] = 0;
    if (cut)
        memcpy(abort->sentence + length - 3, "...", 3);
}

size_t frame_abort_encode(unsigned char payload[FRAME_ABORT_BYTES], const struct frame_abort *abort)
{
    size_t length = strnlen(abort->sentence, FRAME_SENTENCE_BYTES);
    struct encoder encoder = {payload, FRAME_ABORT_BYTES, false};
    encode_number(&encoder, (uint32_t)abort->status, 4);
    encode_number(&encoder, (uint32_t)abort->rank, 4);
    encode_raw(&encoder, abort->sentence, length);
    return FRAME_ABORT_BYTES - encoder.left;
}

int frame_abort_decode(const void *payload, size_t length, int size, struct frame_abort *abort,
                       struct hvd_error *err)
{
    struct decoder decoder = {payload, length, false};
    if (length < ABORT_FIXED_BYTES || length > FRAME_ABORT_BYTES)
        return error_set(err, HVD_ERR_SYSTEM, "an abort of %zu bytes, expected %d to %d", length,
                         ABORT_FIXED_BYTES, FRAME_ABORT_BYTES);
    int32_t status = (int32_t)decode_number(&decoder, 4);
    int32_t rank = (int32_t)decode_number(&decoder, 4);
    size_t text_length = decoder.left; /* at most FRAME_SENTENCE_BYTES, as length was checked */
    const unsigned char *text = decode_view(&decoder, text_length);
    if (status < HVD_ERR_SYSTEM || status > HVD_ERR_INVALID)
        return error_set(err, HVD_ERR_SYSTEM, "an abort with status %d, expected %d to %d", status,
                         HVD_ERR_SYSTEM, HVD_ERR_INVALID);
    if (rank < 0 || rank >= size)
        return error_set(err, HVD_ERR_SYSTEM, "an abort about rank %d, expected 0 to %d", rank, size - 1);
    for (size_t i = 0; i < text_length; i++) {
        if (!is_printable_byte(text[i]))
            return error_set(err, HVD_ERR_SYSTEM,
                             "an abort whose sentence holds the byte 0x%02x, expected text", text[i]);
    }
    abort->status = status;
    abort->rank = rank;
    memcpy(abort->sentence, text, text_length);
    abort->sentence[text_length] = 0;
    return HVD_OK;
}
