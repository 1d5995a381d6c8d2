/* codec.h: the one encoder and decoder of what ranks, modules and launchers send each other: little-endian
 * numbers and texts in a bounded buffer. Neither ever writes or reads beyond its bounds. The first field that
 * does not fit, or is out of the range given at its call, sets [failed], and every later call does nothing.
 * The caller checks [failed] once, at the end and before it uses any value. */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A buffer to fill. [failed]: something did not fit, and nothing has been written since. */
struct encoder {
    unsigned char *at;
    size_t left;
    bool failed;
};

/* Bytes from a peer, which may be hostile. [failed]: they ended too early or broke a bound, and every read
 * since has returned 0 or an empty text. */
struct decoder {
    const unsigned char *at;
    size_t left;
    bool failed;
};

/* ---- Raw bytes ---- */

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

/* The address of the next [length] bytes in the buffer, or NULL if fewer are left. */
static inline const unsigned char *decode_view(struct decoder *decoder, size_t length)
{
    if (decoder->failed || length > decoder->left) {
        decoder->failed = true;
        return NULL;
    }
    const unsigned char *bytes = decoder->at;
    decoder->at += length;
    decoder->left -= length;
    return bytes;
}

static inline void decode_raw(struct decoder *decoder, void *bytes, size_t length)
{
    const unsigned char *from = decode_view(decoder, length);
    if (from == NULL)
        memset(bytes, 0, length);
    else if (length > 0)
        memcpy(bytes, from, length);
}

/* Fail unless [good]: for a rule about several fields. */
static inline void decode_check(struct decoder *decoder, bool good)
{
    decoder->failed = decoder->failed || !good;
}

/* ---- Numbers ---- */

/* The low [count] bytes of [value]; count is at most 8. */
static inline void encode_number(struct encoder *encoder, uint64_t value, size_t count)
{
    uint64_t bytes = htole64(value);
    encode_raw(encoder, &bytes, count);
}

static inline uint64_t decode_number(struct decoder *decoder, size_t count)
{
    uint64_t bytes = 0;
    decode_raw(decoder, &bytes, count);
    return le64toh(bytes);
}

/* Read a number of [count] bytes that may be at most [most]. For a larger one the decoder fails and 0 is
 * returned. */
static inline uint64_t decode_at_most(struct decoder *decoder, size_t count, uint64_t most)
{
    uint64_t value = decode_number(decoder, count);
    decode_check(decoder, value <= most);
    return decoder->failed ? 0 : value;
}

/* The 8 bytes of an IEEE double. */
static inline void encode_double(struct encoder *encoder, double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    encode_number(encoder, bits, 8);
}

static inline double decode_double(struct decoder *decoder)
{
    uint64_t bits = decode_number(decoder, 8);
    double value = 0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- Texts ---- */

/* False for control characters; bytes of UTF-8 pass. */
static inline bool is_printable_byte(unsigned char byte)
{
    return byte >= 0x20 && byte != 0x7f;
}

/* Read [length] bytes, none of them 0, into [text], which has room for [length] + 1, and terminate them with
 * a 0. */
static inline void decode_chars(struct decoder *decoder, char *text, size_t length)
{
    const unsigned char *bytes = decode_view(decoder, length);
    text[0] = 0;
    decode_check(decoder, bytes != NULL && memchr(bytes, 0, length) == NULL);
    if (decoder->failed)
        return;
    memcpy(text, bytes, length);
    text[length] = 0;
}

/* Two bytes of length, then the text. [text_bytes]: the size of the array that holds the text on both
 * sides. */
static inline void encode_text(struct encoder *encoder, const char *text, size_t text_bytes)
{
    size_t length = strnlen(text, text_bytes);
    encoder->failed = encoder->failed || length == text_bytes || length > UINT16_MAX;
    encode_number(encoder, length, 2);
    encode_raw(encoder, text, length);
}

static inline void decode_text(struct decoder *decoder, char *text, size_t text_bytes)
{
    decode_chars(decoder, text, (size_t)decode_at_most(decoder, 2, text_bytes - 1));
}

/* Read a text that may be shown in a sentence: one with control characters fails. */
static inline void decode_printable(struct decoder *decoder, char *text, size_t text_bytes)
{
    decode_text(decoder, text, text_bytes);
    for (const char *at = text; *at != 0; at++)
        decode_check(decoder, is_printable_byte((unsigned char)*at));
}

#endif
