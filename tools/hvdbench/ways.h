/* ways.h: the ways of reducing a load: hvd, MPI as one would use it by hand, and what memory allows.
 */
#ifndef TOOLS_HVDBENCH_WAYS_H
#define TOOLS_HVDBENCH_WAYS_H

#include "tools/hvdbench/exchange.h"
#include "tools/hvdbench/load.h"
#include "tools/hvdbench/turns.h"

#define WAYS_PIECE_BYTES ((int64_t)512 * 1024)

/* MPI's come one after another, best judged together. */
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

/* What they work on. Zero it first. */
struct ways {
    struct load load;
    struct hvd_tensor *given;    /* the load's tensors once more, in memory of hvd_alloc */
    void *alloc_arena;           /* that memory; NULL where this way is not among [list] */
    hvd_handle *handles;         /* one for each tensor */
    const struct bench_mpi *mpi; /* NULL: MPI's ways are not among [list] */
    struct exchange exchange;    /* where it is among [list] */
    struct way list[WAY_COUNT];
    int count;
};

/* [wanted]: 1 << enum way_id. MPI's are left out where the bench has no MPI, or MPI not all of the model's
 * types; [mpi_why] of the bench then says so. The exchange is left out where the ranks are not two or more of
 * one node. Collective. */
int ways_init(struct ways *ways, struct bench *bench, const struct model *model, unsigned wanted,
              struct hvd_error *err);
void ways_fini(struct ways *ways); /* fine on a zeroed one */

/* The way of that number, or NULL where it is not in the list. */
const struct way *ways_find(const struct ways *ways, enum way_id id);

/* hvd, by the memory that programs without hvd_alloc have, where that is in the list. */
const struct way *ways_hvd(const struct ways *ways);

/* The fastest of MPI's by their medians, or NULL. */
const struct way *ways_best_mpi(const struct ways *ways);

#endif
