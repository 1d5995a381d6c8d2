/* judge.h: who waits for whom, from what the records of a job's ranks say. Pure. */
#ifndef TOOLS_HVDINFO_PS_JUDGE_H
#define TOOLS_HVDINFO_PS_JUDGE_H

#include "tools/hvdinfo/ps/rank.h"

/* Sort the ranks by job, epoch and rank, and enter what is to be found. A rank stands still whose state is
 * no progress, and holds for [still_us]; one that is stopped does at once. HVD_OK, or HVD_ERR_NO_MEMORY. */
int judge_ranks(struct ranks *ranks, int64_t still_us);

/* Are both in one launcher's job, and in the same part of it? */
bool judge_same_job(const struct rank *a, const struct rank *b);

/* Is it a member of the process set, as far as its record says? And how many operations of the set were
 * decided, as far as it knows? */
bool judge_is_member(const struct rank *rank, int set);
uint32_t judge_last_agreed(const struct rank *rank, int set);

#endif
