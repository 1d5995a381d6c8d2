/* frame.c: how records are cut into frames on the byte streams of the control tree. Pure. */
#include "config.h"
#include "net/frame.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define ABORT_FIXED_BYTES (FRAME_ABORT_BYTES - FRAME_SENTENCE_BYTES)

static void put16(unsigned char *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof(value));
}

static void put32(unsigned char *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void put64(unsigned char *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
}

static uint16_t get16(const unsigned char *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof(value));
    return le16toh(value);
}

static uint32_t get32(const unsigned char *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static uint64_t get64(const unsigned char *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

/* Longest payload of a type. */
static uint64_t max_payload_bytes(enum frame_type type)
{
    switch (type) {
    case FRAME_MESSAGE:
        return CONTROL_MESSAGE_BYTES;
    case FRAME_ABORT:
        return FRAME_ABORT_BYTES;
    case FRAME_FAREWELL:
        break;
    }
    return 0;
}

static bool is_printable(unsigned char byte)
{
    return byte >= ' ' && byte != 0x7f;
}

void frame_encode(unsigned char header[FRAME_HEADER_BYTES], enum frame_type type, uint32_t epoch,
                  size_t length)
{
    put32(header, FRAME_MAGIC);
    put16(header + 4, FRAME_VERSION);
    put16(header + 6, (uint16_t)type);
    put32(header + 8, epoch);
    put32(header + 12, 0);
    put64(header + 16, length);
}

int frame_decode(const void *bytes, size_t have, unsigned allowed, struct frame *frame, struct hvd_error *err)
{
    const unsigned char *header = bytes;
    if (have < FRAME_HEADER_BYTES)
        return HVD_IN_PROGRESS;
    if (get32(header) != FRAME_MAGIC)
        return error_set(err, HVD_ERR_SYSTEM,
                         "bytes that are no frame: they begin with 0x%08" PRIx32 ", expected 0x%08" PRIx32,
                         get32(header), FRAME_MAGIC);
    if (get16(header + 4) != FRAME_VERSION)
        return error_set(err, HVD_ERR_SYSTEM,
                         "a frame of protocol version %d, expected %d: all ranks need the same libhvd",
                         get16(header + 4), FRAME_VERSION);
    unsigned type = get16(header + 6);
    if (type < FRAME_MESSAGE || type > FRAME_FAREWELL || (allowed & FRAME_ALLOW(type)) == 0)
        return error_set(err, HVD_ERR_SYSTEM, "a frame of type %u, which may not come here", type);
    if (get32(header + 12) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "a frame with 0x%08" PRIx32 " where zero was expected",
                         get32(header + 12));
    uint64_t length = get64(header + 16);
    if (length > max_payload_bytes((enum frame_type)type))
        return error_set(err, HVD_ERR_SYSTEM,
                         "a frame of type %u and %" PRIu64 " bytes, expected at most %" PRIu64, type, length,
                         max_payload_bytes((enum frame_type)type));
    if (have - FRAME_HEADER_BYTES < length)
        return HVD_IN_PROGRESS;
    *frame = (struct frame){.type = (enum frame_type)type,
                            .epoch = get32(header + 8),
                            .payload = header + FRAME_HEADER_BYTES,
                            .length = (size_t)length};
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
        abort->sentence[i] = is_printable((unsigned char)sentence[i]) ? sentence[i] : '?';
    abort->sentence[length] = 0;
    if (cut)
        memcpy(abort->sentence + length - 3, "...", 3);
}

size_t frame_abort_encode(unsigned char payload[FRAME_ABORT_BYTES], const struct frame_abort *abort)
{
    size_t length = strnlen(abort->sentence, FRAME_SENTENCE_BYTES);
    put32(payload, (uint32_t)abort->status);
    put32(payload + 4, (uint32_t)abort->rank);
    memcpy(payload + ABORT_FIXED_BYTES, abort->sentence, length);
    return ABORT_FIXED_BYTES + length;
}

int frame_abort_decode(const void *payload, size_t length, int size, struct frame_abort *abort,
                       struct hvd_error *err)
{
    const unsigned char *bytes = payload;
    if (length < ABORT_FIXED_BYTES || length > FRAME_ABORT_BYTES)
        return error_set(err, HVD_ERR_SYSTEM, "an abort of %zu bytes, expected %d to %d", length,
                         ABORT_FIXED_BYTES, FRAME_ABORT_BYTES);
    int32_t status = (int32_t)get32(bytes);
    int32_t rank = (int32_t)get32(bytes + 4);
    if (status < HVD_ERR_SYSTEM || status > HVD_ERR_INVALID)
        return error_set(err, HVD_ERR_SYSTEM, "an abort with status %d, expected %d to %d", status,
                         HVD_ERR_SYSTEM, HVD_ERR_INVALID);
    if (rank < 0 || rank >= size)
        return error_set(err, HVD_ERR_SYSTEM, "an abort about rank %d, expected 0 to %d", rank, size - 1);
    for (size_t i = ABORT_FIXED_BYTES; i < length; i++) {
        if (!is_printable(bytes[i]))
            return error_set(err, HVD_ERR_SYSTEM,
                             "an abort whose sentence holds the byte 0x%02x, expected text", bytes[i]);
    }
    abort->status = status;
    abort->rank = rank;
    memcpy(abort->sentence, bytes + ABORT_FIXED_BYTES, length - ABORT_FIXED_BYTES);
    abort->sentence[length - ABORT_FIXED_BYTES] = 0;
    return HVD_OK;
}
