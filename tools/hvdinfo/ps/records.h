/* records.h: the ranks of one node, as lines of text that the hvdinfo of another node reads through srun.
 * Pure. */
#ifndef TOOLS_HVDINFO_PS_RECORDS_H
#define TOOLS_HVDINFO_PS_RECORDS_H

#include <stdio.h>

#include "base/status.h"
#include "tools/hvdinfo/ps/rank.h"

#define RECORDS_NODES 65536 /* at most */

/* Each line begins so, with the version of the format. */
#define RECORDS_NAME "hvdinfo-ps-"
#define RECORDS_MARK RECORDS_NAME "3 "

/* Which nodes have answered? */
struct records {
    long asked, answered;
    char silent[256]; /* the names of those that have not, or as many as fit */
};

/* Write the ranks. [each]: each by itself, in about half a kilobyte; otherwise they have been judged, and
 * those in the same state go together, as merge.h says. [node]: the number of this node among those that are
 * asked. [records]: of all nodes that it answers for. HVD_OK, or HVD_ERR_NO_MEMORY. */
int records_write(FILE *to, const struct ranks *ranks, bool each, int64_t node,
                  const struct records *records);

/* Add the ranks in [text], which is changed: what [asked] nodes have written, whose names are the list
 * [nodes]; lines of different nodes may be mixed, and others are passed over. The times become those of this
 * node's clock, at [now_us]. HVD_OK, HVD_ERR_INVALID where another version of hvdinfo wrote a line, or
 * HVD_ERR_NO_MEMORY. */
int records_read(char *text, const char *nodes, int64_t now_us, struct ranks *ranks, struct records *records);

#endif
