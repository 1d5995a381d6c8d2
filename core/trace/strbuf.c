/* strbuf.c: builds text in fixed memory, also in signal handlers. */
#include "trace/strbuf.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/ulimit.h"

static void add_byte(struct strbuf *strbuf, char byte)
{
    if (strbuf->used < strbuf->capacity)
        strbuf->bytes[strbuf->used++] = byte;
}

static void add_digit(struct strbuf *strbuf, uint64_t digit)
{
    add_byte(strbuf, "0123456789abcdef"[digit]);
}

static void add_hex(struct strbuf *strbuf, unsigned char byte)
{
    add_digit(strbuf, byte >> 4);
    add_digit(strbuf, byte & 15);
}

void strbuf_add_bytes(struct strbuf *strbuf, const void *bytes, size_t count)
{
    size_t left = strbuf->capacity - strbuf->used;
    if (count > left)
        count = left;
    memcpy(strbuf->bytes + strbuf->used, bytes, count);
    strbuf->used += count;
}

void strbuf_add_text(struct strbuf *strbuf, const char *text)
{
    strbuf_add_bytes(strbuf, text, strlen(text));
}

/* Writes two digits at a time: most of a timeline is numbers. */
void strbuf_add_number(struct strbuf *strbuf, int64_t number)
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
    strbuf_add_bytes(strbuf, digits + first, sizeof(digits) - first);
}

void strbuf_add_hex(struct strbuf *strbuf, uint64_t number)
{
    int shift = 60;
    strbuf_add_text(strbuf, "0x");
    while (shift > 0 && number >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        add_digit(strbuf, number >> shift & 15);
}

void strbuf_pad_to(struct strbuf *strbuf, size_t start, size_t column)
{
    do
        add_byte(strbuf, ' ');
    while (strbuf->used < start + column && strbuf->used < strbuf->capacity);
}

/* Length of the character at [at]; 0 where it is not UTF-8: truncated, overlong, a surrogate, or above
 * U+10FFFF. */
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

/* Bytes at [at] that need no escape: printable ASCII but for the two that JSON escapes. */
static size_t plain_length(const unsigned char *at)
{
    size_t length = 0;
    while (at[length] >= ' ' && at[length] < 0x7f && at[length] != '"' && at[length] != '\\')
        length++;
    return length;
}

/* Add one other character: UTF-8 unchanged; a control character or a byte that is not UTF-8 as [escape] and
 * its number. Returns its length. */
static size_t add_character(struct strbuf *strbuf, const unsigned char *at, const char *escape)
{
    size_t length = utf8_length(at);
    if (length == 0 || *at < ' ' || *at == 0x7f) {
        strbuf_add_text(strbuf, escape);
        add_hex(strbuf, *at);
        return 1;
    }
    strbuf_add_bytes(strbuf, at, length);
    return length;
}

void strbuf_add_json(struct strbuf *strbuf, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    add_byte(strbuf, '"');
    for (;;) {
        size_t length = plain_length(at);
        strbuf_add_bytes(strbuf, at, length);
        at += length;
        if (*at == 0)
            break;
        if (*at == '"' || *at == '\\')
            add_byte(strbuf, '\\');
        at += add_character(strbuf, at, "\\u00");
    }
    add_byte(strbuf, '"');
}

void strbuf_add_printable(struct strbuf *strbuf, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at != 0) {
        size_t length = plain_length(at);
        strbuf_add_bytes(strbuf, at, length);
        at += length;
        if (*at != 0)
            at += add_character(strbuf, at, "\\x");
    }
}

int strbuf_flush(struct strbuf *strbuf, int fd)
{
    size_t written = 0;
    while (written < strbuf->used) {
        off_t at = lseek(fd, 0, SEEK_CUR); /* -1: no file, but a pipe or a terminal */
        if (at >= 0 && !ulimit_allows_file(at + 1))
            return -1;
        ssize_t count = write(fd, strbuf->bytes + written, strbuf->used - written);
        if (count < 0 && errno != EINTR)
            return -1;
        written += count > 0 ? (size_t)count : 0;
    }
    strbuf->used = 0;
    return 0;
}
