/* backend.h: how tensors travel. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/config.h"
#include "base/dtype.h"
#include "base/log.h"
#include "base/backend_id.h"
#include "node/arena.h"
#include "net/endpoint.h"
#include "base/tree_shape.h"
#include "node/windows.h"

/* What a batch does. Barriers need no backend: that all ranks agreed is the barrier. */
enum backend_kind { COLL_ALLREDUCE, COLL_BROADCAST, COLL_ALLGATHER, COLL_ALLTOALL, COLL_REDUCESCATTER };

static inline bool coll_reduces(enum backend_kind kind)
{
    return kind == COLL_ALLREDUCE || kind == COLL_REDUCESCATTER;
}

/* What decides whether a backend can carry something. Equal on all ranks. */
struct backend_need {
    enum backend_kind kind;
    enum hvd_dtype dtype;   /* of elements in memory */
    enum hvd_dtype partial; /* allreduce, reducescatter: of partial results on their way, see reduce.h */
    enum hvd_op op;         /* the same; not HVD_ADASUM, which flow makes of exchanges */
    int ranks;              /* of the team */
};

/* The members of a process set, as a backend sees them. [ranks]: borrowed, by member, ascending. */
struct team {
    hvd_set set;
    int slice; /* 0; from 1 on: these carry a slice of what a larger team of [set] does, see hier_team.c */
    int rank, size; /* this rank's place among them, from 0 */
    int each;       /* of these on each of several nodes, one after the other; 0: it is not like that */
    const int *ranks;
};

/* Inputs and results of a batch that are not just this member's own memory: it may stand for several ranks. A
 * backend that carries such batches goes by the schedule of chain.h, with chunks of [longest] elements, which
 * take at most BACKEND_SOURCE_BYTES, as partial results too. The chunks that get inputs here are numbered. */
#define BACKEND_SOURCE_BYTES BACKEND_SENDS_BYTES(2)

/* What is sent over a network goes in chunks of so many sends of 60 KiB. The kernel hands TCP's bytes on in
 * runs of whole segments, up to 64 KiB with their headers: of a chunk of 64 or 128 KiB a little is left over,
 * which goes by itself and wakes the receiver by itself, and that takes up to two thirds longer. */
#define BACKEND_SENDS_BYTES(count) ((int64_t)(count)*60 * 1024)

struct block_segment;
struct backend_source {
    void *arg;
    int64_t longest;
    /* Are the inputs of chunk [number] there? */
    bool (*ready)(void *arg, int64_t number);
    /* Of the next of these: out = left op inputs, as reduce_fold has it, with all inputs in the order of
     * ranks. left may be out and is overwritten; NULL: the chunk begins here. out is a place of results where
     * no more has to be done with them, and may be an input there. Without a reduction out = input. */
    void (*fold)(void *arg, void *out, void *left);
    /* Where the result of a chunk lies, until the batch is done. */
    void *(*place)(void *arg, const struct block_segment *span);
    /* The next of those results that come here from others, to stay, is in its place. */
    void (*arrived)(void *arg);
};

/* Input of an alltoall that comes piece by piece: its member stands for several ranks. Its chunks are
 * numbered in the order in which they become ready: first those for the member behind this one, then for the
 * next, round the end. What is for a member goes in two runs, from the element begins[] says to its end, and
 * from its beginning to there; no chunk is of two runs. The own part is not in it: it has a count of 0, and
 * output has its room for receive_counts of it all the same. */
struct backend_feed {
    void *arg;
    int64_t longest;               /* elements of a chunk, the last one of a run may have fewer; at most
                                      BACKEND_SOURCE_BYTES. The same on all members */
    const int64_t *begins;         /* by member: of what goes to it; none is behind the end */
    const int64_t *receive_begins; /* and of what comes from it, as it has it itself */
    /* Chunk [number], to be read until it is sent; NULL while it is not there. */
    const void *(*chunk)(void *arg, int64_t number);
    /* It is no longer read. Not always in order. */
    void (*sent)(void *arg, int64_t number);
};

/* A tensor of an allreduce whose memory is not put together first. */
struct backend_span {
    const void *input; /* may be output; otherwise they do not overlap */
    void *output;
    int64_t begin; /* elements of the batch before it */
    int64_t count; /* > 0 */
};

/* One batch: the same on all members but for the memory, and what alltoall sends to whom. */
struct backend_batch {
    struct backend_need need;
    int root;            /* broadcast: a member */
    int64_t chunk_bytes; /* for backends that look at it; 0: as they choose themselves */
    uint64_t sequence;   /* counts the batches of its team from 1; all members start them in this order */
    const void *input;   /* may be output, except as said below; otherwise they do not overlap */
    void *output;
    double prescale, postscale; /* allreduce, reducescatter */
    /* Elements, > 0 in all together:
     * - allreduce: [count] in input and output.
     * - broadcast: [count] in output; and in input, which is read on root only.
     * - reducescatter: [count] in input; counts[i] of them, in the order of members, are member i's share.
     *   Output has room for [count] too: at the end its own share is at its place there, and what is around
     *   it is undefined.
     * - allgather: counts[i] from member i; [count] in output, which are all of these in the order of
     *   members. Input is this member's part, which may be at its place in output already.
     * - alltoall: counts[i] to member i and receive_counts[i] from it; input and output are all of these in
     *   the order of members, and do not overlap. [count] is not used.
     * Members may have nothing to send or receive at all. */
    int64_t count;
    /* Allreduce, where backend_ops.spans: NULL, or what the batch is made of, in order; then input and output
     * are not used. Others may have theirs in one piece. */
    const struct backend_span *spans;
    int span_count;
    const int64_t *counts;
    const int64_t *receive_counts;
    /* NULL, or instead of input and output; not for alltoall. The batch may be a slice of one of more
     * members: need.ranks is their number. */
    const struct backend_source *source;
    /* Alltoall: NULL, or instead of input. */
    const struct backend_feed *feed;
};

/* What a backend is opened with; what it points to lives longer than the backend. */
struct backend_env {
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_job *job;
    const struct peer_table *peer_table;
    const struct tree_shape *shape;
    struct endpoint *endpoint;
    struct arena arena;            /* what this rank shares with the others of its node */
    const struct windows *windows; /* where its program's memory may be that they reach; NULL: nowhere */
    bool oversubscribed;           /* ranks of this node share cores: who waits yields its own */
    bool no_spare_core; /* some have no second one: a thread beside the program's gives way to it */
    int epoll_fd; /* a backend adds what wakes a sleeper: edge-triggered, data is not looked at. -1: none
                   * wanted
                   */
};

/* Calls come from the holder of the progress, one at a time (threads change). All calls are mandatory
 * but where it says otherwise. */
struct backend_ops {
    enum backend_id id;
    /* Whether this process could open it, without side effects. Otherwise a phrase for "backend mpi: ...". */
    bool (*available)(const struct backend_env *env, const char **whyp);
    /* Called by all ranks of the job at the same place in the agreed order: at hvd_init where opens_early
     * says so, otherwise before the first batch of all ranks that goes here, or the first process set that
     * may. May block, until [deadline_us]. */
    int (*open)(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err);
    bool opens_early;
    /* Optional, with opens_early: what of opening is for the later moment all the same. Teams are added
     * before it, so that it is agreed who has no room for one. May block, until [deadline_us]. */
    int (*open_late)(void *state, int64_t deadline_us, struct hvd_error *err);
    /* No descriptor says when it can go on: while a batch runs, test is called again and again. */
    bool polled;
    /* It takes the tensors of an allreduce where they lie, so that they need not be packed. */
    bool spans;
    /* May this backend carry it? No side effects; after a yes start fails only for what happens at run time.
     */
    bool (*can)(const struct backend_need *need);
    /* Optional. Also in teams with such an [each], see team? */
    bool (*supports_ppn)(const struct backend_need *need, int each);
    /* Optional. May it carry between these? Known on every rank without talking, from the peer_table.
     * Otherwise a phrase such as "the ranks are on several nodes". */
    bool (*reaches)(const struct backend_env *env, const struct team *team, const char **whyp);
    /* Called by all members of [team] (copied, but for its list) after open, at the same place in the agreed
     * order; a team of all ranks is the first. May block, until [deadline_us]. HVD_ERR_UNSUPPORTED: there is
     * no room for it, and other backends are to carry for it. */
    int (*add_team)(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                    struct hvd_error *err);
    /* Free it. A running batch is given up: from here on its memory is not touched. */
    void (*remove_team)(void *state, void *team);
    /* Optional. Will start of this batch connect ranks of the team first? The same on all members. Then it
     * may block for as long as start-timeout says, and is called when no rank can be waiting for words of
     * this one.
     */
    bool (*connects)(const void *team, const struct backend_batch *batch);
    /* Begin a batch. Must not block otherwise. One batch runs at a time in each backend. */
    int (*start)(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err);
    /* Carry on with it for at most about 100 us: HVD_IN_PROGRESS, or HVD_OK when the output is complete and
     * nothing is still read from input, or an error: HVD_ERR_RANK_LOST with *rankp the rank of the job that
     * is gone. *movedp: something was done. */
    int (*test)(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err);
    /* Optional. Armed: from now on a test that finds nothing to do has seen to it that epoll_fd wakes a
     * sleeper when there is something. Disarmed: it need not. */
    void (*arm)(void *state, bool armed);
    /* In a forked child: close descriptors, those of teams too, touch nothing else. */
    void (*after_fork)(void *state);
    /* Free everything; all teams were removed. */
    void (*close)(void *state);
};

extern const struct backend_ops
    backend_local;                           /* teams of one: output = input; the contract in readable form */
extern const struct backend_ops backend_shm; /* through the memory that the ranks of a node share */
extern const struct backend_ops backend_tcp; /* a chunked pipeline along the ring of ranks, over sockets */
extern const struct backend_ops backend_mpi; /* stands for the module backend_mpi.so, opened at run time */
extern const struct backend_ops backend_hier_mpi; /* shared memory inside nodes, mpi between them */
extern const struct backend_ops backend_hier_tcp; /* shared memory inside nodes, tcp between them */

/* By enum backend_id. */
extern const struct backend_ops *const backend_table[BACKEND_COUNT];

#endif
