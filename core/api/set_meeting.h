/* set_meeting.h: the ranks that add a process set by themselves meet before they do so. */
#ifndef API_SET_MEETING_H
#define API_SET_MEETING_H

#include "api/context.h"

/* Long enough for a list of ranks that is cut, and its hash. */
#define SET_MEETING_TEXT_BYTES 160

/* Write [ranks] as a user would, "0-3,8", into [text] and return [text]. Lists that differ have different
 * texts. */
const char *set_meeting_text(const int *ranks, int count, char text[SET_MEETING_TEXT_BYTES]);

/* Wait until all of [ranks], which are ascending and of which this rank is one, call this with the same list.
 * [existing]: the process set that has these members already, or -1. HVD_ERR_MISMATCH, with a sentence that
 * begins with [what], if one of them has another list. One thread at a time. */
int set_meeting_hold(struct context *context, const int *ranks, int count, hvd_set existing,
                     const char *what);

#endif
