/* option_reader.h: read a program's options from its command line, by a table. */
#ifndef TOOLS_COMMON_OPTION_READER_H
#define TOOLS_COMMON_OPTION_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct option_given;

/* One option of a program. */
struct tool_option {
    const char *letter; /* "-n"; NULL: none */
    const char *name;   /* "--ranks" */
    const char *arg;    /* name of its value, for the help; NULL: it takes none */
    const char *help;
    /* Store the value in the program's options, [to]. Returns HVD_OK, or an error with a sentence. */
    int (*take)(void *to, const struct option_given *given, struct hvd_error *err);
    size_t offset; /* of its field in [to], for the functions below */
    int64_t min, max;
};

/* An option as the command line has it. */
struct option_given {
    const struct tool_option *option;
    const char *where; /* its letter or its name, whichever was used */
    const char *value; /* "" if it takes none */
};

/* Find the option [word] in [table], where _ and - are the same in names, and its value: "--ranks=4" and
 * "-n4" have it in the word; otherwise it is the next word, **atp, and *atp moves on. Returns HVD_OK,
 * HVD_ERR_INVALID with a sentence, or HVD_ERR_UNSUPPORTED without one if the table has no such option. */
int option_read(const struct tool_option *table, int count, const char *word, char *const **atp,
                struct option_given *given, struct hvd_error *err);

/* The value of the option [where]: [attached] to it, or if that is NULL, the next word. Returns HVD_OK, or
 * HVD_ERR_INVALID with a sentence. */
int option_value(char *const **atp, const char *attached, const char *where, const char *expected,
                 const char **valuep, struct hvd_error *err);

/* For [take]. They store true in a bool; a text that is not empty in a const char *; a number of [min] to
 * [max] in an int64_t; and a number of bytes, such as 64K, in the same. */
int option_take_flag(void *to, const struct option_given *given, struct hvd_error *err);
int option_take_text(void *to, const struct option_given *given, struct hvd_error *err);
int option_take_count(void *to, const struct option_given *given, struct hvd_error *err);
int option_take_bytes(void *to, const struct option_given *given, struct hvd_error *err);

/* Write "-n, --ranks=N" into [text]; without a letter "--ranks=N". Returns [text]. */
const char *tool_option_spelling(const struct tool_option *option, char *text, size_t text_bytes);

#endif
