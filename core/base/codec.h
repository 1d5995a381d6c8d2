/* codec.h: little-endian numbers and texts in a bounded run of bytes; what does not fit is remembered, not
 * done. */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that are written. [failed]: something did not fit; nothing after it was written. */
struct encoder {
    unsigned char *at;
    size_t left;
    bool failed;
};

/* Bytes of a peer that are read. [failed]: something was not there or did not fit; all later reads are 0. */
struct decoder {
    const unsigned char *at;
    size_t left;
    bool failed;
};

static inline void encode_raw(struct encoder *encoder, const void *bytes, size_t length)
{
    if (encoder->failed || length > encoder->left) {
        encoder->failed = true;
        return;
    }
    if (length > 0)
        memcpy(encoder->at, bytes, length);
    encoder->at += length;
    encoder->left -= length;
}

static inline void decode_raw(struct decoder *decoder, void *bytes, size_t length)
{
    if (decoder->failed || length > decoder->left) {
        decoder->failed = true;
        memset(bytes, 0, length);
        return;
    }
    if (length > 0)
        memcpy(bytes, decoder->at, length);
    decoder->at += length;
    decoder->left -= length;
}

/* The low [count] bytes of [value]. */
static inline void encode_number(struct encoder *encoder, uint64_t value, size_t count)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    encode_raw(encoder, bytes, count);
}

static inline uint64_t decode_number(struct decoder *decoder, size_t count)
{
    unsigned char bytes[8] = {0};
    uint64_t value = 0;
    decode_raw(decoder, bytes, count);
    for (size_t i = 0; i < sizeof(bytes); i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* A text: two bytes of length, then as many, none of them 0. */
static inline void encode_text(struct encoder *encoder, const char *text)
{
    size_t length = strlen(text);
    if (length > UINT16_MAX)
        encoder->failed = true;
    encode_number(encoder, length, 2);
    encode_raw(encoder, text, length);
}

static inline void decode_text(struct decoder *decoder, char *text, size_t text_bytes)
{
    size_t length = (size_t)decode_number(decoder, 2);
    if (length >= text_bytes) {
        decoder->failed = true;
        length = 0;
    }
    decode_raw(decoder, text, length);
    text[length] = 0;
    if (memchr(text, 0, length) != NULL)
        decoder->failed = true;
}

#endif
