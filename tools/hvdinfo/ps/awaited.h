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

#endif
