/* token.h: split a value from outside into tokens, in place. Copies nothing, allocates nothing, and ignores
 * the locale. */
#ifndef OPTIONS_TOKEN_H
#define OPTIONS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Not terminated by a 0. */
struct token {
    const char *text;
    size_t length;
};

/* Take the token at [at], up to [separator] or the end, into *tokenp. Returns where the next one begins, or
 * NULL after the last. */
static inline const char *token_next(const char *at, char separator, struct token *tokenp)
{
    const char *end = at;
    while (*end != 0 && *end != separator)
        end++;
    *tokenp = (struct token){at, (size_t)(end - at)};
    return *end == 0 ? NULL : end + 1;
}

static inline bool token_equals(struct token token, const char *text)
{
    return strlen(text) == token.length && memcmp(token.text, text, token.length) == 0;
}

/* Does the token begin with [beginning]? If so, *restp is the rest. */
static inline bool token_strip_prefix(struct token token, const char *beginning, struct token *restp)
{
    size_t length = strlen(beginning);
    if (token.length < length || memcmp(token.text, beginning, length) != 0)
        return false;
    *restp = (struct token){token.text + length, token.length - length};
    return true;
}

/* The index of the token in the NULL-terminated [choices], or -1. */
static inline int token_find_choice(struct token token, const char *const *choices)
{
    for (int i = 0; choices[i] != NULL; i++)
        if (token_equals(token, choices[i]))
            return i;
    return -1;
}

/* Read decimal digits as a number between [min] and [max], both at least 0. Returns 0, or -1 with *valuep
 * unchanged and a phrase in *whyp. */
static inline int token_parse_number(struct token token, int min, int max, int *valuep, const char **whyp)
{
    int value = 0;
    *whyp = "has a word whose number is not a whole one";
    if (token.length == 0)
        return -1;
    for (size_t i = 0; i < token.length; i++) {
        int digit = token.text[i] - '0';
        if (digit < 0 || digit > 9)
            return -1;
        if (value > (max - digit) / 10) {
            *whyp = "has a number that is too large";
            return -1;
        }
        value = value * 10 + digit;
    }
    *whyp = "has a number that is too small";
    if (value < min)
        return -1;
    *valuep = value;
    return 0;
}

#endif
