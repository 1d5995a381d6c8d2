/* option_type.c: how values of each option type are read, stored and written. */
#include "options/option_type.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "options/nic_filter.h"
#include "options/parse.h"

/* ---- Numbers --------------------------------------------------------------------------------------- */

static int check_range(const struct hvd_option *option, int64_t number, const char **whyp)
{
    if (number >= option->min && number <= option->max)
        return 0;
    *whyp = number < option->min ? "is too small" : "is too large";
    return -1;
}

static int read_size(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    int64_t *bytes = field;
    return parse_size(text, bytes, whyp) < 0 ? -1 : check_range(option, *bytes, whyp);
}

static int read_time(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    int64_t *us = field;
    return parse_time(text, us, whyp) < 0 ? -1 : check_range(option, *us, whyp);
}

static int read_number(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    int64_t *number = field;
    return parse_count(text, number, whyp) < 0 ? -1 : check_range(option, *number, whyp);
}

static void write_size(const struct hvd_option *option, const void *field, char *text, size_t text_bytes)
{
    (void)option;
    format_size(*(const int64_t *)field, text, text_bytes);
}

static void write_time(const struct hvd_option *option, const void *field, char *text, size_t text_bytes)
{
    (void)option;
    format_time(*(const int64_t *)field, text, text_bytes);
}

static void write_number(const struct hvd_option *option, const void *field, char *text, size_t text_bytes)
{
    (void)option;
    snprintf(text, text_bytes, "%" PRId64, *(const int64_t *)field);
}

static void describe_size(const struct hvd_option *option, char *text, size_t text_bytes)
{
    char low[32], high[32];
    format_size(option->min, low, sizeof(low));
    format_size(option->max, high, sizeof(high));
    snprintf(text, text_bytes, "bytes with an optional K, M, G or T, between %s and %s, such as %s", low,
             high, option->def);
}

static void describe_time(const struct hvd_option *option, char *text, size_t text_bytes)
{
    char low[32], high[32];
    format_time(option->min, low, sizeof(low));
    format_time(option->max, high, sizeof(high));
    snprintf(text, text_bytes, "a time with us, ms, s, min or h, between %s and %s, such as %s", low, high,
             option->def);
}

static void describe_number(const struct hvd_option *option, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "a whole number between %" PRId64 " and %" PRId64, option->min, option->max);
}

const struct option_type option_size = {
    .bytes = sizeof(int64_t), .parse = read_size, .format = write_size, .describe = describe_size};
const struct option_type option_time = {
    .bytes = sizeof(int64_t), .parse = read_time, .format = write_time, .describe = describe_time};
const struct option_type option_number = {
    .bytes = sizeof(int64_t), .parse = read_number, .format = write_number, .describe = describe_number};

/* ---- Choices --------------------------------------------------------------------------------------- */

static const char *const switch_choices[] = {"off", "on", NULL};

static int find_choice(const char *const *choices, const char *text, size_t length)
{
    for (int i = 0; choices[i] != NULL; i++) {
        if (strlen(choices[i]) == length && memcmp(choices[i], text, length) == 0)
            return i;
    }
    return -1;
}

static int choice_value(const struct hvd_option *option, int choice)
{
    return option->choice_values == NULL ? choice : option->choice_values[choice];
}

static void append_choices(const char *const *choices, char *text, size_t text_bytes)
{
    size_t used = strlen(text);
    for (int i = 0; choices[i] != NULL; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i == 0 ? "" : ", ", choices[i]);
}

static int read_choice(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    int choice = find_choice(option->choices, text, strlen(text));
    *whyp = "is not a choice";
    if (choice < 0)
        return -1;
    *(int *)field = choice_value(option, choice);
    return 0;
}

static void write_choice(const struct hvd_option *option, const void *field, char *text, size_t text_bytes)
{
    int choice = 0;
    while (option->choices[choice + 1] != NULL && choice_value(option, choice) != *(const int *)field)
        choice++;
    snprintf(text, text_bytes, "%s", option->choices[choice]);
}

static void describe_choice(const struct hvd_option *option, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "one of ");
    append_choices(option->choices, text, text_bytes);
}

static int read_switch(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    int choice = find_choice(switch_choices, text, strlen(text));
    (void)option;
    *whyp = "is not a choice";
    if (choice < 0)
        return -1;
    *(bool *)field = choice != 0;
    return 0;
}

static void write_switch(const struct hvd_option *option, const void *field, char *text, size_t text_bytes)
{
    (void)option;
    snprintf(text, text_bytes, "%s", switch_choices[*(const bool *)field]);
}

/* A list has one byte for each entry, the entry's index + 1, with the first entry in the lowest byte. The
 * order is a part of the value. */
static int read_list(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    uint64_t list = 0;
    uint64_t seen = 0;
    int count = 0;
    *(uint64_t *)field = 0;
    if (strcmp(text, "auto") == 0)
        return 0;
    *whyp = "names something unknown";
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int choice = find_choice(option->choices, at, length);
        if (choice < 0)
            return -1;
        if ((seen >> choice & 1) != 0) {
            *whyp = "names something twice";
            return -1;
        }
        seen |= UINT64_C(1) << choice;
        list |= (uint64_t)(choice + 1) << (8 * count++);
        at += length;
        if (*at == 0)
            break;
    }
    *(uint64_t *)field = list;
    return 0;
}

int option_list_choice(uint64_t list, int i)
{
    return i >= 8 ? -1 : (int)(list >> (8 * i) & 0xff) - 1;
}

static void write_list(const struct hvd_option *option, const void *field, char *text, size_t text_bytes)
{
    uint64_t list = *(const uint64_t *)field;
    size_t used = (size_t)snprintf(text, text_bytes, "%s", list == 0 ? "auto" : "");
    for (int i = 0; option_list_choice(list, i) >= 0 && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i == 0 ? "" : ",",
                                 option->choices[option_list_choice(list, i)]);
}

static void describe_list(const struct hvd_option *option, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "auto, or some of these with commas between, each once: ");
    append_choices(option->choices, text, text_bytes);
}

const struct option_type option_choice = {
    .bytes = sizeof(int), .parse = read_choice, .format = write_choice, .describe = describe_choice};
const struct option_type option_switch = {.bytes = sizeof(bool),
                                          .parse = read_switch,
                                          .format = write_switch,
                                          .bare = "on",
                                          .expected = "one of off, on"};
const struct option_type option_list = {
    .bytes = sizeof(uint64_t), .parse = read_list, .format = write_list, .describe = describe_list};

/* ---- Texts ----------------------------------------------------------------------------------------- */

static int read_path(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    (void)option;
    *whyp = "is empty";
    snprintf(field, sizeof(option_text), "%s", text);
    return text[0] == 0 ? -1 : 0;
}

static int read_nics(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    (void)option;
    snprintf(field, sizeof(option_text), "%s", text);
    return nic_filter_check(text, whyp);
}

static int read_bind(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    (void)option;
    return bind_parse(text, field, whyp);
}

static int read_rs(const struct hvd_option *option, const char *text, void *field, const char **whyp)
{
    (void)option;
    return rs_parse(text, field, whyp);
}

const struct option_type option_file = {
    .bytes = sizeof(option_text), .parse = read_path, .expected = "the name of a file"};
const struct option_type option_folder = {
    .bytes = sizeof(option_text), .parse = read_path, .expected = "the name of a folder"};
const struct option_type option_nics = {
    .bytes = sizeof(option_text), .parse = read_nics, .expected = nic_filter_expected};
const struct option_type option_bind = {
    .bytes = sizeof(struct bind_options), .parse = read_bind, .expected = bind_expected};
const struct option_type option_rs = {
    .bytes = sizeof(struct rs_options), .parse = read_rs, .expected = rs_expected};

/* ---- One value ------------------------------------------------------------------------------------- */

void option_expected(const struct hvd_option *option, char *text, size_t text_bytes)
{
    if (option->retired != NULL)
        snprintf(text, text_bytes, "%s", option->retired);
    else if (option->type->expected != NULL)
        snprintf(text, text_bytes, "%s", option->type->expected);
    else
        option->type->describe(option, text, text_bytes);
}

/* The position of the first control character, or -1. The other ranks show values in sentences. */
static int find_control(const char *text)
{
    for (int i = 0; text[i] != 0; i++)
        if (!is_printable_byte((unsigned char)text[i]))
            return i;
    return -1;
}

int option_parse(const struct hvd_option *option, const char *where, const char *text,
                 struct hvd_config *config, struct hvd_error *err)
{
    union {
        int64_t number;
        option_text text;
        struct bind_options bind;
        struct rs_options rs;
    } value = {.text = ""};
    const char *why = "";
    if (option->retired != NULL)
        return error_set(err, HVD_ERR_INVALID, "%s: %s", where, option->retired);
    if (strlen(text) > OPTION_VALUE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s: the value is longer than %d bytes", where,
                         OPTION_VALUE_BYTES);
    int control = find_control(text);
    if (control >= 0)
        return error_set(err, HVD_ERR_INVALID,
                         "%s: byte %d of the value is the control character %d; use printable characters",
                         where, control, text[control]);
    if (option->type->parse(option, text, &value, &why) < 0) {
        char expected[256];
        option_expected(option, expected, sizeof(expected));
        return error_set(err, HVD_ERR_INVALID, "%s=%.64s: the value %s; expected %s", where, text, why,
                         expected);
    }
    if (config != NULL)
        memcpy((char *)config + option->offset, &value, option->type->bytes);
    return HVD_OK;
}
