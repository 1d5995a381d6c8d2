/* parse.h: the one checked parser of numbers, sizes and times from outside. */
#ifndef OPTIONS_PARSE_H
#define OPTIONS_PARSE_H

#include <stddef.h>
#include <stdint.h>

/* Each reads the whole of [text], sets *valuep and returns 0; or returns -1, leaves *valuep unchanged and
 * points *whyp at a phrase that says what is wrong ("is empty", "is too large", ...). None accepts signs,
 * spaces, fractions or an empty text. */

/* Decimal digits. */
int parse_count(const char *text, int64_t *valuep, const char **whyp);

/* The count in [text]; [otherwise] if [text] is NULL or holds none. */
int64_t parse_count_or(const char *text, int64_t otherwise);

/* Bytes: digits and an optional K, M, G or T (powers of 1024). */
int parse_size(const char *text, int64_t *valuep, const char **whyp);

/* Microseconds: digits and one of us, ms, s, min, h. A plain 0 needs no unit. */
int parse_time(const char *text, int64_t *valuep, const char **whyp);

/* Write the exact size or time as a user would type it: format_size(67108864) writes "64M". */
void format_size(int64_t bytes, char *text, size_t text_bytes);
void format_time(int64_t us, char *text, size_t text_bytes);

#endif
