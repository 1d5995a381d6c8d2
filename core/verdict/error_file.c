/* error_file.c: reads the exception that ended a Python program from the JSON that torch.distributed.elastic
 * defines:
 * {"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": "Traceback ..."}}}, or only
 * {"message": "..."}.
 *
 * A library for JSON would come with it into every process that loads the plug-in, so it walks through the
 * text itself: to a member by its name, over whatever lies before. */
#include "verdict/error_file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"

#define MOST_BYTES (1 << 20)

/* ---- JSON ----------------------------------------------------------------------------------------- */

/* What is left of a text. Where it is no JSON, no member is found. */
struct json_cursor {
    const char *at, *end;
};

static bool json_is(const struct json_cursor *json, char expected)
{
    return json->at < json->end && *json->at == expected;
}

static void skip_blanks(struct json_cursor *json)
{
    while (json_is(json, ' ') || json_is(json, '\t') || json_is(json, '\n') || json_is(json, '\r'))
        json->at++;
}

/* Skip a string; at its first quote. */
static void skip_string(struct json_cursor *json)
{
    for (json->at++; json->at < json->end && *json->at != '"'; json->at++)
        json->at += *json->at == '\\' && json->at + 1 < json->end;
    json->at += json->at < json->end;
}

/* Skip a value, whatever lies in it, and the blanks behind it. */
static void skip_value(struct json_cursor *json)
{
    int depth = 0;
    while (json->at < json->end && (depth > 0 || strchr(",}]", *json->at) == NULL)) {
        if (*json->at == '"') {
            skip_string(json);
        } else {
            depth += *json->at == '{' || *json->at == '[';
            depth -= *json->at == '}' || *json->at == ']';
            json->at++;
        }
        skip_blanks(json);
    }
}

/* Go to the value of the member [name] of the object here. False, and *json unchanged, where there is none.
 */
static bool enter_member(struct json_cursor *json, const char *name)
{
    struct json_cursor walk = *json;
    size_t length = strlen(name);
    skip_blanks(&walk);
    if (!json_is(&walk, '{'))
        return false;
    do {
        walk.at++;
        skip_blanks(&walk);
        if (!json_is(&walk, '"'))
            return false;
        const char *key = walk.at + 1;
        skip_string(&walk);
        bool found = walk.at - key == (ptrdiff_t)length + 1 && memcmp(key, name, length) == 0;
        skip_blanks(&walk);
        if (!json_is(&walk, ':'))
            return false;
        walk.at++;
        skip_blanks(&walk);
        if (found) {
            *json = walk;
            return true;
        }
        skip_value(&walk);
    } while (json_is(&walk, ','));
    return false;
}

/* The number of four hexadecimal digits, or -1. */
static int32_t read_hex(struct json_cursor *json)
{
    int32_t number = 0;
    if (json->end - json->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char digit = *json->at++;
        const char *found = strchr(digits, digit >= 'A' && digit <= 'F' ? digit + ('a' - 'A') : digit);
        if (found == NULL || digit == 0)
            return -1;
        number = number * 16 + (int32_t)(found - digits);
    }
    return number;
}

/* Write a character as UTF-8, which takes no more room than the escape that it was. */
static char *put_character(char *to, int32_t character)
{
    if (character < 0x80) {
        *to++ = (char)character;
        return to;
    }
    if (character < 0x800) {
        *to++ = (char)(0xc0 | character >> 6);
    } else if (character < 0x10000) {
        *to++ = (char)(0xe0 | character >> 12);
        *to++ = (char)(0x80 | (character >> 6 & 0x3f));
    } else {
        *to++ = (char)(0xf0 | character >> 18);
        *to++ = (char)(0x80 | (character >> 12 & 0x3f));
        *to++ = (char)(0x80 | (character >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (character & 0x3f));
    return to;
}

/* The character of an escape, after its backslash; '?' for half of a pair and what is no escape. */
static int32_t read_escape(struct json_cursor *json)
{
    static const char letters[] = "bfnrt";
    static const char meanings[] = "\b\f\n\r\t";
    char letter = *json->at++;
    const char *found = strchr(letters, letter);
    if (letter != 'u')
        return found != NULL && letter != 0 ? meanings[found - letters] : letter;
    int32_t character = read_hex(json);
    if (character >= 0xd800 && character < 0xdc00 && json->end - json->at >= 6 && json->at[0] == '\\' &&
        json->at[1] == 'u') {
        json->at += 2;
        int32_t low = read_hex(json);
        return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00) : '?';
    }
    return character <= 0 || (character >= 0xd800 && character < 0xe000) ? '?' : character;
}

/* The string here, which the caller frees; NULL where there is none. */
static char *copy_string(struct json_cursor json)
{
    if (!json_is(&json, '"'))
        return NULL;
    char *copy = malloc((size_t)(json.end - json.at));
    char *to = copy;
    for (json.at++; copy != NULL && json.at < json.end && *json.at != '"';) {
        char byte = *json.at++;
        if (byte == '\\' && json.at < json.end)
            to = put_character(to, read_escape(&json));
        else
            *to++ = byte;
    }
    if (copy != NULL)
        *to = 0;
    return copy;
}

/* ---- The file ------------------------------------------------------------------------------------- */

/* Copy one line, without what a terminal might obey. */
static void copy_line(const char *from, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (; *from != 0 && *from != '\n' && used + 1 < text_bytes; from++) {
        unsigned char byte = (unsigned char)*from;
        text[used++] = byte < ' ' || byte == 0x7f ? '?' : *from;
    }
    text[used] = 0;
}

/* The last `File "/home/me/train.py", line 31` of a traceback, as train.py:31. */
static void add_place(const char *traceback, char *text, size_t text_bytes)
{
    static const char start[] = "File \"";
    char path[256];
    char name[256];
    int line = 0;
    const char *last = NULL;
    for (const char *at = strstr(traceback, start); at != NULL; at = strstr(at + 1, start))
        last = at;
    if (last == NULL || sscanf(last, "File \"%255[^\"]\", line %d", path, &line) != 2)
        return;
    const char *slash = strrchr(path, '/');
    copy_line(slash != NULL ? slash + 1 : path, name, sizeof(name));
    size_t used = strlen(text);
    snprintf(text + used, text_bytes - used, " (%s:%d)", name, line);
}

void error_file_compose(const char *message, const char *traceback, char *text, size_t text_bytes)
{
    copy_line(message, text, text_bytes * 3 / 4);
    if (text[0] != 0)
        add_place(traceback, text, text_bytes);
}

void error_file_parse(const char *bytes, size_t length, char *text, size_t text_bytes)
{
    struct json_cursor json = {bytes, bytes + length};
    text[0] = 0;
    if (!enter_member(&json, "message"))
        return;
    struct json_cursor traceback_at = json;
    enter_member(&json, "message");
    bool has_traceback =
        enter_member(&traceback_at, "extraInfo") && enter_member(&traceback_at, "py_callstack");
    char *message = copy_string(json);
    char *traceback = has_traceback ? copy_string(traceback_at) : NULL;
    if (message != NULL)
        error_file_compose(message, traceback == NULL ? "" : traceback, text, text_bytes);
    free(message);
    free(traceback);
}

void error_file_read(int fd, char *text, size_t text_bytes)
{
    char *bytes = malloc(MOST_BYTES);
    ssize_t length = bytes == NULL ? 0 : descriptors_read_at(fd, bytes, MOST_BYTES, 0);
    text[0] = 0;
    if (length > 0)
        error_file_parse(bytes, (size_t)length, text, text_bytes);
    free(bytes);
}

void error_file_read_path(const char *path, char *text, size_t text_bytes)
{
    text[0] = 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    error_file_read(fd, text, text_bytes);
    close(fd);
}
