/* option_reader.c: read a program's options from its command line, by a table. */
#include "tools/common/option_reader.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "options/parse.h"

int option_value(char *const **atp, const char *attached, const char *where, const char *expected,
                 const char **valuep, struct hvd_error *err)
{
    if (attached == NULL && **atp == NULL)
        return error_set(err, HVD_ERR_INVALID, "%s needs a value: expected %s", where, expected);
    *valuep = attached != NULL ? attached : *(*atp)++;
    return HVD_OK;
}

static int find_value(char *const **atp, const char *attached, struct option_given *given,
                      struct hvd_error *err)
{
    const struct tool_option *option = given->option;
    char expected[256];
    if (option->arg == NULL && attached != NULL)
        return error_set(err, HVD_ERR_INVALID, "%s takes no value, but was given %.100s", given->where,
                         attached);
    if (option->arg == NULL)
        return HVD_OK;
    snprintf(expected, sizeof(expected), "%s: %s", option->arg, option->help);
    return option_value(atp, attached, given->where, expected, &given->value, err);
}

/* -n 4, -n4 */
static int read_letter(const struct tool_option *option, const char *word, char *const **atp,
                       struct option_given *given, struct hvd_error *err)
{
    if (option->arg == NULL && word[2] != 0)
        return HVD_ERR_UNSUPPORTED;
    *given = (struct option_given){option, option->letter, ""};
    return find_value(atp, word[2] != 0 ? word + 2 : NULL, given, err);
}

/* Is the option, whose name may be written with _ for -, in the first [length] bytes of [word]? */
static bool is_named(const struct tool_option *option, const char *word, size_t length)
{
    if (strlen(option->name) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        bool separates = i > 1 && (word[i] == '_' || word[i] == '-');
        if (word[i] != option->name[i] && !(separates && (option->name[i] == '_' || option->name[i] == '-')))
            return false;
    }
    return true;
}

int option_read(const struct tool_option *table, int count, const char *word, char *const **atp,
                struct option_given *given, struct hvd_error *err)
{
    size_t length = strcspn(word, "=");
    for (const struct tool_option *option = table; option < table + count; option++) {
        if (option->letter != NULL && word[0] == '-' && word[1] == option->letter[1])
            return read_letter(option, word, atp, given, err);
        if (!is_named(option, word, length))
            continue;
        *given = (struct option_given){option, option->name, ""};
        return find_value(atp, word[length] == '=' ? word + length + 1 : NULL, given, err);
    }
    return HVD_ERR_UNSUPPORTED;
}

int option_take_flag(void *to, const struct option_given *given, struct hvd_error *err)
{
    static const bool yes = true;
    (void)err;
    memcpy((char *)to + given->option->offset, &yes, sizeof(yes));
    return HVD_OK;
}

int option_take_text(void *to, const struct option_given *given, struct hvd_error *err)
{
    if (given->value[0] == 0)
        return error_set(err, HVD_ERR_INVALID, "%s is empty; expected %s: %s", given->where,
                         given->option->arg, given->option->help);
    memcpy((char *)to + given->option->offset, &given->value, sizeof(given->value));
    return HVD_OK;
}

/* Store a number that a parser has read, or say why there is none. [unit] is "number" or "size". */
static int store_number(void *to, const struct option_given *given, int64_t value, const char *why,
                        const char *unit, struct hvd_error *err)
{
    const struct tool_option *option = given->option;
    char min[32], max[32];
    if (why == NULL && value >= option->min && value <= option->max) {
        memcpy((char *)to + option->offset, &value, sizeof(value));
        return HVD_OK;
    }
    if (why == NULL)
        why = value < option->min ? "is too small" : "is too large";
    snprintf(min, sizeof(min), "%lld", (long long)option->min);
    snprintf(max, sizeof(max), "%lld", (long long)option->max);
    if (strcmp(unit, "size") == 0) {
        format_size(option->min, min, sizeof(min));
        format_size(option->max, max, sizeof(max));
    }
    return error_set(err, HVD_ERR_INVALID, "%s=%.100s: the %s %s; expected %s to %s", given->where,
                     given->value, unit, why, min, max);
}

int option_take_count(void *to, const struct option_given *given, struct hvd_error *err)
{
    const char *why = NULL;
    int64_t value = 0;
    parse_count(given->value, &value, &why);
    return store_number(to, given, value, why, "number", err);
}

int option_take_bytes(void *to, const struct option_given *given, struct hvd_error *err)
{
    const char *why = NULL;
    int64_t value = 0;
    parse_size(given->value, &value, &why);
    return store_number(to, given, value, why, "size", err);
}

const char *tool_option_spelling(const struct tool_option *option, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s%s%s%s%s", option->letter != NULL ? option->letter : "",
             option->letter != NULL ? ", " : "", option->name, option->arg != NULL ? "=" : "",
             option->arg != NULL ? option->arg : "");
    return text;
}
