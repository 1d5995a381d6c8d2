/* line_prefix.h: what stands before each line of a rank's output, as a template says. */
#ifndef TOOLS_HVDRUN_LINE_PREFIX_H
#define TOOLS_HVDRUN_LINE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define LINE_PREFIX_DEFAULT "[${rank}] "

struct line_prefix {
    const char *template; /* text, and ${rank}, ${local_rank} or ${role_name} in it */
    const char *role;     /* ROLE_NAME of the ranks */
};

/* A part of the prefix of one rank. A zeroed struct is the one before the first. */
struct line_prefix_part {
    const char *next; /* in the template; NULL: its start */
    const char *text; /* [length] bytes */
    size_t length;
    char number[12];
};

/* HVD_ERR_INVALID with a sentence if the template has a macro that is not known. [where]: who gave it. */
int line_prefix_check(const char *template, const char *where, struct hvd_error *err);

bool line_prefix_names_local_rank(const char *template);

/* Go on to the next part; false if there is none. Where a template names local ranks, all ranks are on one
 * machine, so that they are the ranks. */
bool line_prefix_next(const struct line_prefix *prefix, int rank, struct line_prefix_part *part);

/* How long the prefix of [rank] is. */
size_t line_prefix_length(const struct line_prefix *prefix, int rank);

#endif
