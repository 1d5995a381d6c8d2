/* awaited.h: for which ranks each rank of a job waits. Pure. */
#ifndef TOOLS_HVDINFO_PS_AWAITED_H
#define TOOLS_HVDINFO_PS_AWAITED_H

#include "tools/hvdinfo/ps/rank.h"

/* Enter into the [count] ranks of [job], which are in [ranks] and in ascending order, for whom each waits,
 * and which operation those that are awaited have not submitted. They have been judged alone. HVD_OK, or
 * HVD_ERR_NO_MEMORY. */
int awaited_find(struct ranks *ranks, struct rank *job, int count);

/* Does it involve two ranks only, so that nobody agrees on it? */
bool awaited_is_message(const struct flight_operation *operation);

/* Is [number] in the list? NULL: an empty one. */
bool awaited_has(const struct awaited_list *list, int number);

/* Write "0-3,8", the ranks that [rank] waits for, as rank_list_text does. Returns [text]. */
const char *awaited_text(const struct rank *rank, char text[RANK_LIST_TEXT_BYTES]);

#endif
