/* json.h: write a JSON object, one member after the other. */
#ifndef TOOLS_COMMON_JSON_H
#define TOOLS_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An object that is being written. */
struct json {
    FILE *to;
    int members;
};

struct json json_open(FILE *to);
void json_text(struct json *json, const char *key, const char *text);
void json_count(struct json *json, const char *key, int64_t count);
void json_number(struct json *json, const char *key, double number); /* null if it is not finite */

void json_flag(struct json *json, const char *key, bool flag);

/* Microseconds, as seconds with all their digits; not negative. */
void json_seconds(struct json *json, const char *key, int64_t us);

/* An array: open it, add its texts, close it. */
void json_open_array(struct json *json, const char *key);
void json_add_text(struct json *json, int index, const char *text);
void json_close_array(struct json *json);

void json_close(struct json *json);

/* Close an object that has a line of its own, and flush the file. */
void json_close_line(struct json *json);

#endif
