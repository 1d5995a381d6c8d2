/* shm_team.h: a team of backend shm: the batch that runs, and what is done with each of its chunks. */
#ifndef BACKEND_SHM_SHM_TEAM_H
#define BACKEND_SHM_SHM_TEAM_H

#include "backend/shm/store_policy.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"
#include "backend/shm/shm_direct.h"
#include "node/slots.h"

/* What is done with each chunk: three phases through the batch, each at its own pace. */
enum shm_phase { PHASE_PUBLISH, PHASE_REDUCE, PHASE_COLLECT, PHASES };

enum shm_segment_kind { SEGMENT_PUT, SEGMENT_GET, SEGMENT_REDUCE };

/* Elements that are contiguous in shared memory. */
struct shm_segment {
    enum shm_segment_kind move;
    int64_t begin, count; /* put: in the input; get: in the output; reduce: in both */
    char *memory;         /* put: destination; get: source; reduce: a second place for the result, or NULL */
    int64_t shift;        /* reduce: how many bytes into each member's slot the inputs begin */
};

/* How far a phase has come in its chunk. */
struct shm_cursor {
    struct span_cursor spans;
    bool under_way;    /* the phase has begun its chunk; what follows is about that chunk */
    uint64_t position; /* of the chunk */
    int next;          /* number of the segment after this one */
    int64_t offset;    /* elements of the members whose segments came before */
    struct shm_segment segment;
};

struct shm_team {
    struct team members;
    struct slots slots;
    struct shm_direct direct;
    uint64_t collected;  /* chunks whose results were collected */
    uint64_t turn;       /* alltoalls begun */
    int64_t chunk_bytes; /* if the job sets none; 0 until the first batch, then equal on all members */
    struct store_policy store_policy;
    const void **inputs; /* [size]: the inputs of one reduction */
    /* the batch that runs */
    struct backend_batch batch;
    struct reduce_plan steps; /* how its elements are reduced, if they are */
    uint64_t begin, end;      /* its chunks; end is known once [agreed] */
    bool agreed;
    bool is_large; /* its results do not fit into caches */
    bool whole;    /* allreduce: each member reduces all of it for itself */
    int64_t element_bytes;
    int64_t per_round; /* elements of one round: of the batch or for each member, depending on the kind */
    struct shm_cursor cursors[PHASES];
};

/* ---- shm_segments.c: what is done with a chunk ------------------------------------------------- */

/* Has this member anything to do in this phase of the batch that runs? */
bool shm_has_phase(const struct shm_team *team, enum shm_phase phase);

/* Move the cursor to its next segment, which may be empty; false if its chunk has no more. */
bool shm_next_segment(const struct shm_team *team, enum shm_phase phase, struct shm_cursor *cursor);

/* Cut the batch that begins into rounds. Returns how many this member needs; in an alltoall others may need
 * more. */
uint64_t shm_split(struct shm_team *team);

/* ---- shm_pipeline.c: batches chunk by chunk ------------------------------------------------- */

/* From now on the team's batch goes through the pipeline. */
void shm_pipeline_begin(struct shm_team *team);

/* As shm_batch_progress and shm_batch_awaited. */
int shm_pipeline_progress(struct shm_team *team, bool *movedp, struct hvd_error *err);
void shm_pipeline_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS]);

/* ---- shm_batch.c: a batch, in place or through the pipeline --------------------------------- */

void shm_batch_begin(struct shm_team *team, const struct backend_batch *batch);

/* Advance the batch by some bursts; *movedp is set if something was done. HVD_OK: the batch is complete. */
int shm_batch_progress(struct shm_team *team, bool *movedp, struct hvd_error *err);

/* The position that all must reach in each counter before the batch can go on; 0: it does not wait for that
 * counter. */
void shm_batch_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS]);

#endif
