/* shm_team.h: one process set in the backend of shared memory: the batch that runs, and what is done with
 * each of its chunks. */
#ifndef BACKEND_SHM_SHM_TEAM_H
#define BACKEND_SHM_SHM_TEAM_H

#include "backend/shm/store_policy.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"
#include "backend/shm/shm_direct.h"
#include "backend/shm/shm_domains.h"
#include "node/slots.h"

/* What is done with each chunk: three phases through the batch, each at its own pace. */
enum shm_phase { PHASE_PUBLISH, PHASE_REDUCE, PHASE_COLLECT, PHASES };

enum shm_segment_kind { SEGMENT_PUT, SEGMENT_GET, SEGMENT_REDUCE };

/* Elements that lie together in shared memory. */
struct shm_segment {
    enum shm_segment_kind move;
    int64_t begin, count; /* put: of the input; get: of the output; reduce: of both */
    char *memory;         /* put: goes there; get: is there; reduce: the result goes there too, unless NULL */
    int64_t shift;        /* reduce: how many bytes into each member's slot the inputs begin */
};

/* Where a phase is in its chunk. */
struct shm_cursor {
    struct span_cursor spans;
    bool under_way;    /* the chunk is begun; what follows is of it */
    uint64_t position; /* of the chunk */
    int next;          /* number of the segment after this one */
    int64_t offset;    /* elements of the members whose segments are behind */
    struct shm_segment segment;
};

struct shm_team {
    struct team members;
    struct slots slots;
    struct shm_domains domains;
    struct shm_direct direct;
    bool by_domains;     /* the batch that runs; what follows is of batches that are not */
    uint64_t collected;  /* chunks whose results were collected */
    uint64_t turn;       /* alltoalls begun */
    int64_t chunk_bytes; /* where the job does not say; known to all from the first batch on. 0 until then */
    struct store_policy store_policy;
    const void **inputs; /* [size]: room for a list of them */
    /* the batch that runs */
    struct backend_batch batch;
    struct reduce_plan steps; /* of its reduction, where it has one */
    uint64_t begin, end;      /* its chunks; end is known once [agreed] */
    bool agreed;
    bool is_large; /* its results outgrow caches */
    bool whole;    /* allreduce: each member makes all of the result for itself */
    int64_t element_bytes;
    int64_t per_round; /* elements of one round: of the batch, or per member, as the kind has it */
    struct shm_cursor cursors[PHASES];
};

/* ---- shm_segments.c: what is done with a chunk ------------------------------------------------- */

/* Does this phase have anything to do in the batch that runs? */
bool shm_has_phase(const struct shm_team *team, enum shm_phase phase);

/* The next segment of the cursor, which may be empty; false where its chunk has no more. */
bool shm_next_segment(const struct shm_team *team, enum shm_phase phase, struct shm_cursor *cursor);

/* Cut the batch that begins into rounds. Returns how many there are, as far as this member knows: in an
 * alltoall others may have more. */
uint64_t shm_split(struct shm_team *team);

/* ---- shm_pipeline.c: the course of a batch ---------------------------------------------------- */

/* The team begins this batch. */
void shm_batch_begin(struct shm_team *team, const struct backend_batch *batch);

/* From here on the team's batch goes chunk by chunk through the slots. */
void shm_pipeline_begin(struct shm_team *team);

/* Further by some pieces, if that can be now: *movedp. HVD_OK: the batch is done. */
int shm_progress(struct shm_team *team, bool *movedp, struct hvd_error *err);

/* How far all have to come in each step that the batch can go on; 0: it does not wait for that. */
void shm_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS]);

#endif
