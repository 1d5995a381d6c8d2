/* codec.h: little-endian numbers and texts in a bounded run of bytes; what does not fit is remembered, not
 * done. */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that are written. [failed]: something did not fit; nothing after it was written. */
struct writer {
    unsigned char *at;
    size_t left;
    bool failed;
};

/* Bytes of a peer that are read. [failed]: something was not there or did not fit; all later reads are 0. */
struct reader {
    const unsigned char *at;
    size_t left;
    bool failed;
};

static inline void write_raw(struct writer *writer, const void *bytes, size_t length)
{
    if (writer->failed || length > writer->left) {
        writer->failed = true;
        return;
    }
    if (length > 0)
        memcpy(writer->at, bytes, length);
    writer->at += length;
    writer->left -= length;
}

static inline void read_raw(struct reader *reader, void *bytes, size_t length)
{
    if (reader->failed || length > reader->left) {
        reader->failed = true;
        memset(bytes, 0, length);
        return;
    }
    if (length > 0)
        memcpy(bytes, reader->at, length);
    reader->at += length;
    reader->left -= length;
}

/* The low [count] bytes of [value]. */
static inline void write_number(struct writer *writer, uint64_t value, size_t count)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    write_raw(writer, bytes, count);
}

static inline uint64_t read_number(struct reader *reader, size_t count)
{
    unsigned char bytes[8] = {0};
    uint64_t value = 0;
    read_raw(reader, bytes, count);
    for (size_t i = 0; i < sizeof(bytes); i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* A text: two bytes of length, then as many, none of them 0. */
static inline void write_text(struct writer *writer, const char *text)
{
    size_t length = strlen(text);
    if (length > UINT16_MAX)
        writer->failed = true;
    write_number(writer, length, 2);
    write_raw(writer, text, length);
}

static inline void read_text(struct reader *reader, char *text, size_t text_bytes)
{
    size_t length = (size_t)read_number(reader, 2);
    if (length >= text_bytes) {
        reader->failed = true;
        length = 0;
    }
    read_raw(reader, text, length);
    text[length] = 0;
    if (memchr(text, 0, length) != NULL)
        reader->failed = true;
}

#endif
