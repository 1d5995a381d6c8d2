/* json.c: write measurements as JSON, one object per line. */
#include "tools/hvdbench/bars/json.h"

#include <math.h>

static void put_string(FILE *to, const char *text)
{
    putc('"', to);
    for (const unsigned char *at = (const unsigned char *)text; *at != 0; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(to, "\\u%04x", *at);
        else
            putc(*at, to);
    }
    putc('"', to);
}

static void put_key(struct json *json, const char *key)
{
    fputs(json->fields++ == 0 ? "{" : ", ", json->to);
    put_string(json->to, key);
    fputs(": ", json->to);
}

struct json json_open(FILE *to, const char *case_name)
{
    struct json json = {to, 0};
    json_text(&json, "case", case_name);
    return json;
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

/* Write integers, such as byte counts, with all digits. */
static void put_number(FILE *to, double number)
{
    if (!isfinite(number))
        fputs("null", to);
    else if (fabs(number) < 1e15 && number == (double)(int64_t)number)
        fprintf(to, "%.0f", number);
    else
        fprintf(to, "%.6g", number);
}

void json_number(struct json *json, const char *key, double number)
{
    put_key(json, key);
    put_number(json->to, number);
}

void json_numbers(struct json *json, const char *key, const double *numbers, int count)
{
    put_key(json, key);
    for (int i = 0; i < count; i++) {
        fputs(i == 0 ? "[" : ", ", json->to);
        put_number(json->to, numbers[i]);
    }
    fputs(count == 0 ? "[]" : "]", json->to);
}

void json_close(struct json *json)
{
    fputs("}\n", json->to);
    fflush(json->to);
}
