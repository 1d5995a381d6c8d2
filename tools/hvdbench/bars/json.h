/* json.h: write measurements as JSON, one object per line. */
#ifndef TOOLS_HVDBENCH_BARS_JSON_H
#define TOOLS_HVDBENCH_BARS_JSON_H

#include <stdint.h>
#include <stdio.h>

/* One JSON object on a line of its own. */
struct json {
    FILE *to;
    int fields;
};

struct json json_open(FILE *to, const char *case_name);
void json_text(struct json *json, const char *key, const char *text);
void json_count(struct json *json, const char *key, int64_t count);
void json_number(struct json *json, const char *key, double number); /* null if it is not finite */
void json_numbers(struct json *json, const char *key, const double *numbers, int count);
void json_close(struct json *json);

#endif
