/* ways.h: the ways of reducing a load that hvdbench compares: hvd, MPI as one would call it directly, and
 * plain copies. */
#ifndef TOOLS_HVDBENCH_WAYS_H
#define TOOLS_HVDBENCH_WAYS_H

#include "tools/hvdbench/exchange.h"
#include "tools/hvdbench/load.h"
#include "tools/hvdbench/turns.h"

/* MPI's ways are consecutive: ways_best_mpi iterates over them. */
enum way_id {
    WAY_HVD,
    WAY_HVD_ALLOC,
    WAY_MPI_ONE,
    WAY_MPI_PIECES,
    WAY_MPI_EACH,
    WAY_EXCHANGE,
    WAY_MEMCPY,
    WAY_TOUCH,
    WAY_COUNT
};

/* The data that the ways work on. Zero it first. */
struct ways {
    struct load load;
    struct hvd_tensor *alloc_tensors; /* the load's tensors a second time, in memory of hvd_alloc */
    void *alloc_arena;                /* that memory; NULL if WAY_HVD_ALLOC is not in [list] */
    hvd_handle *handles;              /* one per tensor */
    const struct bench_mpi *mpi;      /* NULL: MPI's ways are not in [list] */
    struct exchange exchange;         /* open if WAY_EXCHANGE is in [list] */
    struct way list[WAY_COUNT];
    int count;
};

/* Collective. [wanted] has the bits 1 << enum way_id. MPI's ways are left out if there is no MPI, or if it
 * lacks one of the model's types; bench->mpi_why then has the reason. The exchange is left out unless there
 * are two or more ranks, all on one node. */
int ways_init(struct ways *ways, struct bench *bench, const struct model *model, unsigned wanted,
              struct hvd_error *err);
void ways_fini(struct ways *ways); /* does nothing on a zeroed struct */

/* Returns the way with this id, or NULL if it is not in the list. */
const struct way *ways_find(const struct ways *ways, enum way_id id);

/* Returns WAY_HVD or, if that is not in the list, WAY_HVD_ALLOC. */
const struct way *ways_hvd(const struct ways *ways);

/* Returns MPI's way with the smallest median, or NULL. */
const struct way *ways_best_mpi(const struct ways *ways);

#endif
