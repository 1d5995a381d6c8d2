/* backend.h: how tensors travel: what every backend offers, and the batches that it is given.
 *
 * backend/ promises to flow/ one table of backends behind one struct of calls. backends.h has the backends of
 * a process and its process sets; local.c is the smallest backend and shows what each call owes. The others
 * are folders: shm/ (inside a node), tcp/, mpi/, and hier/ (shm inside nodes, another backend between them).
 * They share sched/, who sends which chunk to whom and when, and arith/, the arithmetic; both know no
 * transport. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backend_id.h"
#include "base/status.h"

/* What a batch does. A barrier needs no backend: once all ranks have agreed on it, it is complete. */
enum backend_kind { COLL_ALLREDUCE, COLL_BROADCAST, COLL_ALLGATHER, COLL_ALLTOALL, COLL_REDUCESCATTER };

static inline bool coll_reduces(enum backend_kind kind)
{
    return kind == COLL_ALLREDUCE || kind == COLL_REDUCESCATTER;
}

/* What decides whether a backend supports a batch. Equal on all ranks. */
struct backend_need {
    enum backend_kind kind;
    enum hvd_dtype dtype;   /* of elements in memory */
    enum hvd_dtype partial; /* reductions: of partial results on their way, see reduce.h */
    enum hvd_op op;         /* reductions; never HVD_ADASUM, which flow builds from alltoalls */
    int ranks;              /* of the team */
};

/* A team: the members of a process set as a backend sees them. */
struct team {
    hvd_set set;
    int slice;      /* 0: the process set itself. From 1 on: these ranks carry one slice of what the whole set
                       does, see hier_team.c */
    int rank, size; /* this rank's place among the members, from 0 */
    int ppn;        /* members on each node, where the team spans several nodes with equally many members, one
                       node's after the other's, and more than one; otherwise 0 */
    const int *ranks; /* the rank in the job of each member, ascending; not copied */
};

/* Chunks that cross a network are a multiple of 60 KiB. The kernel passes TCP's bytes on in runs of whole
 * segments of up to 64 KiB, headers included: a chunk of 64 or 128 KiB leaves a small remainder, which
 * travels alone and wakes the receiver once more, and the chunk takes up to two thirds longer. */
#define BACKEND_SENDS_BYTES(count) ((int64_t)(count)*60 * 1024)

/* A source: the inputs and results of a batch whose member stands for several ranks, so that they are not
 * just this member's own memory. A backend that carries such batches follows the schedule of chain.h, in
 * chunks of [longest] elements, which take at most BACKEND_SOURCE_BYTES, also as partial results. The chunks
 * that get inputs at this member are numbered from 0. */
#define BACKEND_SOURCE_BYTES BACKEND_SENDS_BYTES(2)

struct block_segment;
struct backend_source {
    void *arg;
    int64_t longest;
    /* Are the inputs of chunk [number] available? */
    bool (*ready)(void *arg, int64_t number);
    /* For the next chunk in order: out = left op inputs, as reduce_fold does it, with all inputs in the order
     * of ranks. left may be out and is overwritten; NULL: the chunk begins here. out is where a result stays
     * if nothing is left to be done with it, and may be an input there. Without a reduction out = input. */
    void (*fold)(void *arg, void *out, void *left);
    /* The place of a chunk's result, valid until the batch is complete. */
    void *(*place)(void *arg, const struct block_segment *segment);
    /* The next result that stays at this member is complete and in its place. */
    void (*arrived)(void *arg);
};

/* A feed: the input of an alltoall that becomes available chunk by chunk, because its member stands for
 * several ranks. Chunks are numbered in the order in which they become ready: first those for the next member
 * of the ring, then for the one after it, and so on. What goes to one member goes in two runs: from element
 * begins[] to the end, then from the start to begins[]; no chunk spans both. The member's own part is not in
 * the feed: its count is 0, but output has room for receive_counts of it. */
struct backend_feed {
    void *arg;
    int64_t longest;               /* elements of a chunk, of which the last of a run may have fewer; at most
                                      BACKEND_SOURCE_BYTES. The same on all members */
    const int64_t *begins;         /* by receiving member; none is behind the end */
    const int64_t *receive_begins; /* by sending member: that member's begins[] for this one */
    /* Chunk [number], readable until sent() is called for it; NULL while it is not available. */
    const void *(*chunk)(void *arg, int64_t number);
    /* Chunk [number] is no longer read. Calls need not come in order. */
    void (*sent)(void *arg, int64_t number);
};

/* One tensor of an allreduce whose tensors are not packed into one buffer. */
struct backend_span {
    const void *input; /* may be output; otherwise they do not overlap */
    void *output;
    int64_t begin; /* elements of the batch before this tensor */
    int64_t count; /* > 0 */
};

/* One batch. Everything is the same on all members, except memory and what an alltoall sends to whom. */
struct backend_batch {
    struct backend_need need;
    int root;            /* broadcast: a member; other kinds do not look at it */
    int64_t chunk_bytes; /* for backends that use it; 0: the backend chooses */
    uint64_t sequence; /* counts the batches of a process set from 1; all members start them in this order */
    const void *input; /* may be output where nothing else is said below; otherwise they do not overlap */
    void *output;
    double prescale, postscale; /* reductions */
    /* Elements, more than 0 over all members:
     * - allreduce: [count] in input and output.
     * - broadcast: [count] in output; and in input, which only root reads.
     * - reducescatter: [count] in input, of which counts[i], in the order of members, are member i's share.
     *   Output also has room for [count]: at the end this member's share is in its place there, and the rest
     * is undefined.
     * - allgather: counts[i] from member i; [count] in output, which holds all blocks in the order of
     * members. Input is this member's block, which may already be in its place in output.
     * - alltoall: counts[i] to member i and receive_counts[i] from it; input and output hold these in the
     * order of members, and do not overlap. [count] is not used. A member may have nothing to send or to
     * receive. */
    int64_t count;
    /* Allreduce of at least backend_ops.spans_from bytes: the tensors of the batch, in order, instead of
     * input and output; or NULL. Other members may have theirs in one buffer. */
    const struct backend_span *spans;
    int span_count;
    const int64_t *counts;
    const int64_t *receive_counts;
    /* Input and output are on a GPU, for a backend that takes_gpu, without reductions: it does not touch them
     * itself, and leaves this member's own part to the caller. Other members may have theirs in host memory.
     */
    bool on_gpu;
    /* Instead of input and output, or NULL; not for alltoall. The batch may then be a slice of a batch with
     * more members: need.ranks is the number of those. */
    const struct backend_source *source;
    /* Alltoall: instead of input, or NULL. */
    const struct backend_feed *feed;
};

struct backend_env;

/* All calls are made by the progress driver, one at a time; the thread that drives may change. All calls are
 * mandatory unless marked optional. */
struct backend_ops {
    enum backend_id id;
    /* Could this process open the backend? No side effects. If not, *whyp is a phrase that follows
     * "backend mpi: ". */
    bool (*available)(const struct backend_env *env, const char **whyp);
    /* All ranks of the job call it at the same place in the agreed order: at hvd_init where opens_early is
     * set; otherwise before the first batch of all ranks that uses this backend, or before the first process
     * set that may. May block until [deadline_us]. */
    int (*open)(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err);
    bool opens_early;
    /* Optional, with opens_early: the part of opening that waits for the later moment all the same. Teams are
     * added before it, so that all members know which team found no room. May block until [deadline_us]. */
    int (*open_late)(void *state, int64_t deadline_us, struct hvd_error *err);
    /* No descriptor says when a batch can go on: the driver calls test again and again while one runs. */
    bool polled;
    /* The backend takes the tensors of an allreduce of at least so many bytes where they lie, so they need
     * not be packed. 0: it never does. */
    int64_t spans_from;
    /* Does the backend support such a batch? No side effects; after a yes, start fails only for what happens
     * at run time. */
    bool (*supports)(const struct backend_need *need);
    /* Optional. Does it support the batch in teams with this ppn too, see team? */
    bool (*supports_ppn)(const struct backend_need *need, int ppn);
    /* Optional. Can it carry between these members? Every rank can tell from the peer table, without
     * communication. If not, *whyp is a phrase such as "the ranks are on several nodes". */
    bool (*reaches)(const struct backend_env *env, const struct team *team, const char **whyp);
    /* Optional. Does it take memory of GPUs on this rank, as batch.on_gpu says? Called after open. */
    bool (*takes_gpu)(const void *state);
    /* All members of [team] call it after open, at the same place in the agreed order; a team of all ranks
     * comes first. [team] is copied, but not its list of ranks. Must not wait for other members, but may wait
     * until [deadline_us] for a lock in the memory of the node. HVD_ERR_UNSUPPORTED: there is no room for
     * this team, and other backends carry for it. */
    int (*add_team)(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                    struct hvd_error *err);
    /* Free the team. A running batch is given up: after this call its memory is not touched any more. */
    void (*remove_team)(void *state, void *team);
    /* Begin a batch. Must not block: where members must connect first, test does that, so that control is
     * watched meanwhile. Each backend runs one batch at a time. */
    int (*start)(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err);
    /* Advance the batch for at most about 100 us. HVD_IN_PROGRESS; or HVD_OK when the output is complete and
     * the input is no longer read; or an error, of which HVD_ERR_RANK_LOST sets *rankp to the rank of the job
     * that was lost. *movedp: something was done. */
    int (*test)(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err);
    /* Optional. When test has something to do for the running batch though no descriptor says so: clock_us
     * time, or INT64_MAX. */
    int64_t (*deadline)(const void *state, const void *team);
    /* Optional. The rank of the job that the running batch waits for now, as far as this member can tell: one
     * of those that have not done or sent what it needs next. -1: it waits for none, or does not know. Called
     * while a batch runs that does not advance; no side effects. */
    int (*waits_for)(const void *state, void *team);
    /* Optional. Armed: from now on a test that finds nothing to do makes sure that epoll_fd wakes the driver
     * when there is something. Disarmed: it need not. */
    void (*arm)(void *state, bool armed);
    /* In a forked child: close descriptors, those of teams too, and touch nothing else. */
    void (*after_fork)(void *state);
    /* Free everything. All teams have been removed. */
    void (*close)(void *state);
};

extern const struct backend_ops backend_local; /* teams of one rank: output = input */
extern const struct backend_ops backend_shm;   /* the memory that the ranks of a node share */
extern const struct backend_ops backend_tcp;   /* sockets */
extern const struct backend_ops
    backend_mpi; /* stands for the module backend_mpi.so, which is opened at run time */
extern const struct backend_ops backend_hier_mpi; /* shared memory inside nodes, mpi between them */
extern const struct backend_ops backend_nccl;     /* a row without calls: see nccl/nccl.h */
extern const struct backend_ops backend_hier_tcp; /* shared memory inside nodes, tcp between them */

/* By enum backend_id. */
extern const struct backend_ops *const backend_table[BACKEND_COUNT];

#endif
