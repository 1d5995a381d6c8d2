/* json.c: write a JSON object, one member after the other. */
#include "tools/common/json.h"

#include <math.h>
#include <string.h>

#include "trace/strbuf.h"

#define PART_BYTES   256 /* of a text, escaped at once */
#define ESCAPE_BYTES 6   /* that a byte takes at most */

/* A part never ends inside a UTF-8 character, which has at most 3 bytes behind its first. */
static size_t part_length(const char *text)
{
    size_t length = strnlen(text, PART_BYTES);
    while (length > PART_BYTES - 3 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

static void put_string(FILE *to, const char *text)
{
    putc('"', to);
    while (*text != 0) {
        char part[PART_BYTES + 1], escaped[ESCAPE_BYTES * PART_BYTES + 2];
        struct strbuf strbuf = {.bytes = escaped, .capacity = sizeof(escaped)};
        size_t length = part_length(text);
        memcpy(part, text, length);
        part[length] = 0;
        strbuf_add_json(&strbuf, part);
        fwrite(escaped + 1, 1, strbuf.used - 2, to); /* without its quotes */
        text += length;
    }
    putc('"', to);
}

static void put_key(struct json *json, const char *key)
{
    if (json->members++ > 0)
        putc(',', json->to);
    put_string(json->to, key);
    putc(':', json->to);
}

struct json json_open(FILE *to)
{
    putc('{', to);
    return (struct json){to, 0};
}

void json_text(struct json *json, const char *key, const char *text)
{
    put_key(json, key);
    put_string(json->to, text);
}

void json_count(struct json *json, const char *key, int64_t count)
{
    put_key(json, key);
    fprintf(json->to, "%lld", (long long)count);
}

void json_number(struct json *json, const char *key, double number)
{
    put_key(json, key);
    if (!isfinite(number))
        fputs("null", json->to);
    else if (fabs(number) < 1e15 &&
             number == (double)(int64_t)number) /* all digits, as of a count of bytes */
        fprintf(json->to, "%.0f", number);
    else
        fprintf(json->to, "%.6g", number);
}

void json_flag(struct json *json, const char *key, bool flag)
{
    put_key(json, key);
    fputs(flag ? "true" : "false", json->to);
}

void json_seconds(struct json *json, const char *key, int64_t us)
{
    put_key(json, key);
    fprintf(json->to, "%lld.%06lld", (long long)(us / 1000000), (long long)(us % 1000000));
}

void json_open_array(struct json *json, const char *key)
{
    put_key(json, key);
    putc('[', json->to);
}

void json_add_text(struct json *json, int index, const char *text)
{
    if (index > 0)
        putc(',', json->to);
    put_string(json->to, text);
}

void json_close_array(struct json *json)
{
    putc(']', json->to);
}

void json_close(struct json *json)
{
    putc('}', json->to);
}

void json_close_line(struct json *json)
{
    fputs("}\n", json->to);
    fflush(json->to);
}
