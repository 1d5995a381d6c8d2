/* stages.h: what the stages of the loop share: its state, and how one hands on to the next. All of it belongs
 * to the holder of the progress, unless it is atomic or locks. */
#ifndef FLOW_STAGES_H
#define FLOW_STAGES_H

#include <stdatomic.h>

#include "base/clock.h"
#include "control/control.h"
#include "flow/batch.h"
#include "flow/progress.h"
#include "flow/finish.h"
#include "flow/fuse.h"
#include "negotiate/negotiate.h"
#include "flow/tensor_queue.h"
#include "flow/set_registry.h"

/* What one unit of decisions holds, until it is cut into batches. */
struct decided_unit {
    struct fuse_item *items;
    struct request_tensor **tensors; /* of each item */
    int count, capacity;
};

/* What the search for better settings is told: on the root, where --hvd-autotune asks for it. */
struct trials {
    bool on;
    struct autotuner search;
    uint32_t marker;      /* number of the operation with which a step begins; WIRE_NO_ID: none yet */
    uint32_t next_marker; /* the one after it, which came so often since then */
    int next_marker_count;
    int64_t bytes;        /* that were carried in this step */
    int64_t busy_us;      /* how long there was something to carry in it, */
    int64_t busy_from_us; /* not counting from here on; 0: there is nothing to carry */
};

struct loop {
    struct control *control;
    struct backends backends;
    struct set_registry *set_registry;
    struct negotiate *negotiate;
    struct tensor_queue *queue;
    struct tuned_settings settings; /* for what is decided from here on: this rank decides only while fewer
                                      than settings.inflight batches wait, so that a backlog makes larger ones
                                      and a lone tensor never waits */
    struct trials trials;
    struct trace *trace; /* borrowed; NULL: none */
    struct progress *progress;
    int epoll_fd;
    struct decided_unit decided;
    struct batch *batches, **batch_tail; /* in the agreed order; the first one runs */
    int batch_count;
    void *buffer; /* for fused batches; grows to what was needed */
    int64_t buffer_bytes;
    int64_t now_us; /* clock_us when the stage at work began, where there is a trace to tell it */
    _Atomic int64_t burst_us, burst_tick_us; /* clock_us and clock_coarse_us at a submission */
    bool any_finished;                       /* in this round: callers must look */
    _Atomic bool leave_requested;
    bool leave_submitted;
    bool all_left;         /* all ranks said so */
    bool farewell_sent;    /* we need nobody any more */
    _Atomic bool has_left; /* and our last words are out */
    bool failing;          /* the abort is on its way */
    _Atomic int failed;    /* HVD_OK, or why the job cannot go on */
    struct hvd_error failure;
    int64_t suspect_at_us; /* when to believe the backend; INT64_MAX: it suspects nobody */
    int suspect_rank;
    struct hvd_error suspicion;
    int64_t stall_check_at_us; /* when to look after what waits too long; INT64_MAX: nothing does */
    int64_t kill_at_us;        /* when to end this process; INT64_MAX: not */
    int kill_signal;
};

/* ---- 1 queue -> 2 negotiate -> 3 batches (decide.c) ---- */

/* Hand what was submitted to the negotiation. */
bool negotiation_submit(struct loop *loop, struct hvd_error *err, int *rcp);

/* Put what is decided into batches, and end what never will run. */
int negotiation_take_decisions(struct loop *loop, struct hvd_error *err);

/* Nothing that is decided will become a batch: end it. */
void negotiation_abandon(struct loop *loop, int status, const char *reason);

/* Tell of an operation that waits too long, or end the job for it (stall_inspector_report.c). */
void stall_inspector_report(struct loop *loop, const struct decision *decision);

/* ---- 3 batches -> 4 backend -> 5 finish (run.c) ---- */

/* One step of the batch whose turn it is. */
bool run_batch(struct loop *loop, struct hvd_error *err, int *rcp);

/* The running batch touches no memory any more, and all batches end with [status]. */
void run_abandon(struct loop *loop, int status, const char *reason);

/* Take all batches apart without a word to anybody. */
void run_discard(struct loop *loop);

/* ---- Better settings (trials.c) ---- */

void trials_begin(struct loop *loop);

/* An operation was decided: maybe a step is over. */
void trials_decided(struct loop *loop, const struct decision *decision);

/* There is something to carry; [bytes] of it were; there is nothing any more. */
void trials_busy(struct loop *loop);
void trials_carried(struct loop *loop, int64_t bytes);

/* ---- Process sets (sets.c) ---- */

/* HVD_ALL_RANKS. */
int set_change_init(struct loop *loop, struct hvd_error *err);

/* It is the turn of a batch that makes or removes one. May block. */
int set_change_add(struct loop *loop, const struct batch *batch, struct hvd_error *err);
void set_change_remove(struct loop *loop, struct batch *batch);

/* All batches were taken apart. */
void set_change_close(struct loop *loop);

/* ---- 5 finish ---- */

/* One look at the clock for all operations that it works on. */
static inline void stage_begin(struct loop *loop)
{
    loop->now_us = loop->trace == NULL ? 0 : clock_us();
}

static inline void end_request(struct loop *loop, struct request *request, int status, const char *reason)
{
    loop->any_finished = true;
    finish_request(loop->queue, loop->trace, request, status, reason, loop->now_us);
}

/* One tensor of a request is done; the last one ends it. [reason]: NULL for HVD_OK. */
void end_tensor(struct loop *loop, struct request_tensor *tensor, int status, const char *reason);

/* End what was not decided in [set], or TENSOR_QUEUE_ALL_SETS. */
static inline void end_undecided(struct loop *loop, hvd_set set, int status, const char *reason)
{
    loop->any_finished = true;
    finish_undecided(loop->queue, loop->trace, set, status, reason);
}

/* ---- The end of a job that cannot go on (fail.c) ---- */

/* Every rank hears of it, this one by the event that comes back. */
void fail_job(struct loop *loop, int status, int rank, const char *sentence);

/* The same, for what went wrong here. */
void fail_local(struct loop *loop, int status, const char *sentence);

/* A backend lost [rank]: not believed at once, see fail.c. */
void fail_suspect(struct loop *loop, int rank, const struct hvd_error *why);

/* The event came: everything in flight ends. */
void fail_on_abort(struct loop *loop, const struct control_event *event);

/* Rounds after that: our last words still have to go out, and nobody else's matter. */
bool fail_round(struct loop *loop);

/* Believe a suspicion whose time has come. */
bool fail_check_suspicion(struct loop *loop);

#endif
