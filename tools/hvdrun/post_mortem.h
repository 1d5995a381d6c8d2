/* post_mortem.h: what can be found out about a rank that has ended: what it was doing, and why it ended. */
#ifndef TOOLS_HVDRUN_POST_MORTEM_H
#define TOOLS_HVDRUN_POST_MORTEM_H

#include <limits.h>

#include "verdict/rank_traces.h"

/* Where the ranks of a job leave their traces, and what the system said before they started. */
struct post_mortem {
    char folder[PATH_MAX]; /* hvdrun's own; the caller removes it */
    bool user_error_file;  /* the user has named files for errors */
    struct memory_events memory_events;
};

/* [folder] need not exist yet. [environment] is the ranks'. */
void post_mortem_begin(struct post_mortem *post_mortem, const char *folder, char *const *environment);

/* The variables that tell a rank where to leave its traces: "NAME=value" strings that point into the struct.
 */
struct post_mortem_variables {
    char text[2][PATH_MAX + 64];
    char *strings[3];
};

void post_mortem_fill(const struct post_mortem *post_mortem, int rank,
                      struct post_mortem_variables *variables);

/* [rank] is started again: what its process before has left says nothing of the new one. */
void post_mortem_forget(const struct post_mortem *post_mortem, int rank);

/* Tell the ranks that run which one failed first; -1: none has. Call it before they are ended for that, or
 * one that sees others end takes one of those for the first. */
void post_mortem_tell_first(const struct post_mortem *post_mortem, int first, int size);

/* How [rank] left hvd's job, and what it waited for. */
void post_mortem_read_end(const struct post_mortem *post_mortem, int rank, struct verdict_end *end);

/* What is known of a rank that ended with [wait_status]. Call it before the folder is removed. [crash] gets
 * where a fatal signal came, or "". */
void post_mortem_read(const struct post_mortem *post_mortem, int rank, int wait_status,
                      struct verdict_facts *facts, char crash[CRASH_TEXT_BYTES]);

#endif
