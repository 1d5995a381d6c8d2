/* load.h: a model's tensors in the memory of one rank, and as many bytes in one piece beside them.
 */
#ifndef TOOLS_HVDBENCH_LOAD_H
#define TOOLS_HVDBENCH_LOAD_H

#include "tools/hvdbench/model.h"
#include "tools/hvdbench/pattern.h"

/* Elements of one type in the piece. */
struct load_block {
    enum hvd_dtype dtype;
    int64_t count;
    unsigned char *data;
};

/* Zero it first. */
struct load {
    const struct model *model; /* borrowed */
    int rank, size;
    /* The tensors in backward order, each in place and with memory of its own, as frameworks have them. */
    struct hvd_tensor *tensors;
    int64_t *counts; /* elements of each */
    int count;
    unsigned char *arena;
    /* The same bytes without gaps, by type. */
    unsigned char *whole;
    struct load_block runs[HVD_BOOL];
    int run_count;
    struct pattern patterns[HVD_BOOL];
};

/* Which ranks of the job there are, for the sums, and how many share this node's memory, of which each is
 * going to take [more_bytes] besides its load. */
struct load_job {
    int rank, size, local_size;
    int64_t more_bytes;
};

/* HVD_ERR_NO_MEMORY where the node has not enough for all its ranks. */
int load_init(struct load *load, const struct model *model, const struct load_job *job,
              struct hvd_error *err);
void load_fini(struct load *load); /* fine on a zeroed one */

/* The same tensors in other memory, at [arena], which has load_arena_bytes: into [tensors], as many as the
 * load has. They mean nothing without the load. */
void load_place_tensors(const struct load *load, unsigned char *arena, struct hvd_tensor *tensors);
int64_t load_arena_bytes(const struct model *model);

/* Write this rank's part: into the load's tensors, or the same elsewhere; into the piece; or into the piece
 * as float32 whatever its type, for floating-point work that meets no denormal numbers. */
void load_fill_tensors(const struct load *load, const struct hvd_tensor *tensors);
void load_fill_whole(const struct load *load);
void load_fill_floats(const struct load *load);

/* Is the sum over all ranks there? [who] begins the sentence where it is not. */
int load_check_tensors(const struct load *load, const struct hvd_tensor *tensors, const char *who,
                       struct hvd_error *err);
int load_check_whole(const struct load *load, const char *who, struct hvd_error *err);

/* Is what the rank before this one, round the end, has in its piece at [copy]? */
int load_check_previous(const struct load *load, const unsigned char *copy, struct hvd_error *err);

#endif
