/* parse.c: the one checked parser of numbers, sizes and times from outside. */
#include "options/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct suffix {
    const char *suffix;
    int64_t factor;
};

/* Largest first: the first unit that divides a value is the one that a user would type. */
static const struct suffix size_units[] = {
    {"T", INT64_C(1) << 40},
    {"G", INT64_C(1) << 30},
    {"M", INT64_C(1) << 20},
    {"K", INT64_C(1) << 10},
    {"", 1},
};
static const struct suffix time_units[] = {
    {"h", INT64_C(3600000000)}, {"min", INT64_C(60000000)}, {"s", INT64_C(1000000)}, {"ms", 1000}, {"us", 1},
};
static const struct suffix count_units[] = {{"", 1}};

#define UNITS(table) table, sizeof(table) / sizeof((table)[0])

static int parse_number(const char *text, const struct suffix *units, size_t unit_count, int64_t *valuep,
                        const char **whyp)
{
    int64_t number = 0;
    const char *at = text;
    if (*at < '0' || *at > '9') {
        *whyp = *at == 0 ? "is empty" : "does not begin with a digit";
        return -1;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *at - '0', &number)) {
            *whyp = "is too large";
            return -1;
        }
    }
    for (size_t i = 0; i < unit_count; i++) {
        if (strcmp(at, units[i].suffix) != 0)
            continue;
        if (__builtin_mul_overflow(number, units[i].factor, &number)) {
            *whyp = "is too large";
            return -1;
        }
        *valuep = number;
        return 0;
    }
    *whyp = *at == 0 ? "has no unit" : unit_count == 1 ? "is not a whole number" : "has an unknown unit";
    return -1;
}

int parse_count(const char *text, int64_t *valuep, const char **whyp)
{
    return parse_number(text, UNITS(count_units), valuep, whyp);
}

int64_t parse_count_or(const char *text, int64_t otherwise)
{
    const char *why = NULL;
    int64_t number = otherwise;
    return text != NULL && parse_count(text, &number, &why) == 0 ? number : otherwise;
}

int parse_size(const char *text, int64_t *valuep, const char **whyp)
{
    return parse_number(text, UNITS(size_units), valuep, whyp);
}

int parse_time(const char *text, int64_t *valuep, const char **whyp)
{
    if (strcmp(text, "0") == 0) {
        *valuep = 0;
        return 0;
    }
    return parse_number(text, UNITS(time_units), valuep, whyp);
}

static void format_number(int64_t number, const struct suffix *units, size_t unit_count, char *text,
                          size_t text_bytes)
{
    size_t i = 0;
    while (i + 1 < unit_count && number % units[i].factor != 0)
        i++;
    if (number == 0)
        snprintf(text, text_bytes, "0");
    else
        snprintf(text, text_bytes, "%" PRId64 "%s", number / units[i].factor, units[i].suffix);
}

void format_size(int64_t bytes, char *text, size_t text_bytes)
{
    format_number(bytes, UNITS(size_units), text, text_bytes);
}

void format_time(int64_t us, char *text, size_t text_bytes)
{
    format_number(us, UNITS(time_units), text, text_bytes);
}
