/* memory_budget.h: checks that a node's memory can hold the fusion buffers of its ranks. */
#ifndef BOOTSTRAP_MEMORY_BUDGET_H
#define BOOTSTRAP_MEMORY_BUDGET_H

#include <stdint.h>

#include "base/status.h"

/* The memory that the ranks of one node may use together; INT64_MAX if it is not known. */
struct memory_budget {
    int64_t node_bytes;   /* physical memory */
    int64_t cgroup_bytes; /* the lowest limit of this process's cgroup and those above it */
};

void memory_budget_read(struct memory_budget *budget);

/* For tests: the memory limit of the cgroup that [cgroup_file] (/proc/self/cgroup) names, mounted at [mount]
 * (/sys/fs/cgroup); cgroup versions 1 and 2. */
int64_t memory_budget_cgroup_bytes(const char *cgroup_file, const char *mount);

/* HVD_OK, or HVD_ERR_NO_MEMORY if [rank_count] fusion buffers do not fit. Pure. */
int memory_budget_check(const struct memory_budget *budget, int64_t fusion_bytes, int rank_count,
                        const char *host, struct hvd_error *err);

#endif
