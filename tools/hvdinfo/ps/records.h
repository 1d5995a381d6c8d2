/* records.h: the ranks of one node, as lines of text that the hvdinfo of another node reads through srun.
 * Pure. */
#ifndef TOOLS_HVDINFO_PS_RECORDS_H
#define TOOLS_HVDINFO_PS_RECORDS_H

#include <stdio.h>

#include "base/status.h"
#include "tools/hvdinfo/ps/rank.h"

#define RECORDS_NODES 65536           /* at most */
#define RECORDS_MARK  "hvdinfo-ps-2 " /* each line begins so, with the version of the format */

/* Write the ranks, before they are judged. [node]: the number of this node among those that are asked. Of a
 * rank's operations only those that judge.c needs: a few hundred bytes a rank. HVD_OK, or HVD_ERR_NO_MEMORY.
 */
int records_write(FILE *to, const struct ranks *ranks, int64_t node);

/* Which nodes have answered? */
struct records {
    long asked, answered;
    char silent[256]; /* the names of those that have not, or as many as fit */
};

/* Add the ranks in [text], which is changed: what [asked] nodes have written, whose names are the list
 * [nodes]; lines of different nodes may be mixed, and others are passed over. The times become those of this
 * node's clock, at [now_us]. HVD_OK, HVD_ERR_INVALID where another version of hvdinfo wrote a line, or
 * HVD_ERR_NO_MEMORY. */
int records_read(char *text, const char *nodes, int64_t now_us, struct ranks *ranks, struct records *records);

#endif
