/* strbuf.c: text put together in fixed memory, also in signal handlers. */
#include "trace/strbuf.h"

#include <string.h>

static void put(struct pad *pad, char byte)
{
    if (pad->used < pad->room)
        pad->bytes[pad->used++] = byte;
}

static void put_hex(struct pad *pad, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    put(pad, digits[byte >> 4]);
    put(pad, digits[byte & 15]);
}

void pad_bytes(struct pad *pad, const void *bytes, size_t count)
{
    size_t left = pad->room - pad->used;
    if (count > left)
        count = left;
    memcpy(pad->bytes + pad->used, bytes, count);
    pad->used += count;
}

void pad_text(struct pad *pad, const char *text)
{
    pad_bytes(pad, text, strlen(text));
}

/* Two digits at a time: most of a timeline is numbers. */
void pad_number(struct pad *pad, int64_t number)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    char digits[20];
    size_t first = sizeof(digits);
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    for (; left >= 100; left /= 100) {
        first -= 2;
        memcpy(digits + first, pairs + left % 100 * 2, 2);
    }
    if (left >= 10)
        digits[--first] = pairs[left * 2 + 1];
    digits[--first] = left >= 10 ? pairs[left * 2] : (char)('0' + left);
    if (number < 0)
        digits[--first] = '-';
    pad_bytes(pad, digits + first, sizeof(digits) - first);
}

void pad_to(struct pad *pad, size_t start, size_t column)
{
    do
        put(pad, ' ');
    while (pad->used < start + column && pad->used < pad->room);
}

/* Bytes of the character at [at], or 0 where it is not UTF-8: cut short, longer than need be, a surrogate, or
 * beyond the last one. */
static size_t utf8_length(const unsigned char *at)
{
    size_t length = at[0] < 0x80   ? 1
                    : at[0] < 0xc2 ? 0
                    : at[0] < 0xe0 ? 2
                    : at[0] < 0xf0 ? 3
                    : at[0] < 0xf5 ? 4
                                   : 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

/* Bytes at [at] that are shown as they are: printable ASCII, and not what JSON escapes. */
static size_t plain_length(const unsigned char *at)
{
    size_t length = 0;
    while (at[length] >= ' ' && at[length] < 0x7f && at[length] != '"' && at[length] != '\\')
        length++;
    return length;
}

/* One character that is not among these: in UTF-8, or a byte that is none, shown as its number after
 * [escape]. */
static size_t put_character(struct pad *pad, const unsigned char *at, const char *escape)
{
    size_t length = utf8_length(at);
    if (length == 0 || *at < ' ' || *at == 0x7f) {
        pad_text(pad, escape);
        put_hex(pad, *at);
        return 1;
    }
    pad_bytes(pad, at, length);
    return length;
}

void pad_json(struct pad *pad, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    put(pad, '"');
    for (;;) {
        size_t length = plain_length(at);
        pad_bytes(pad, at, length);
        at += length;
        if (*at == 0)
            break;
        if (*at == '"' || *at == '\\')
            put(pad, '\\');
        at += put_character(pad, at, "\\u00");
    }
    put(pad, '"');
}

void pad_plain(struct pad *pad, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at != 0) {
        size_t length = plain_length(at);
        pad_bytes(pad, at, length);
        at += length;
        if (*at != 0)
            at += put_character(pad, at, "\\x");
    }
}
