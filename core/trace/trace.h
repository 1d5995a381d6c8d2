/* trace.h: what happened to this rank's operations, for people: the flight record, which is always kept, and
 * the timeline, which is written on request. This folder promises the others that it never blocks or fails an
 * operation. trace.c gives operations to flight (the ring of the last ones, in flight_memory, which
 * flight_file writes) and to timeline; signals has the record written before the process dies, and crash says
 * where; stop tells whether the process was asked to stop; clock_offset relates the clocks of ranks; strbuf
 * builds text, also in signal handlers, and sentence elsewhere; state_words says what a rank does. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backend_id.h"
#include "base/log.h"
#include "base/status.h"

/* The steps of an operation. It only moves forward, and may skip any but the first and the last. */
enum trace_step {
    TRACE_SUBMITTED,    /* waits for the other ranks */
    TRACE_DECIDED,      /* all ranks agreed: waits for its turn */
    TRACE_PACKING,      /* being copied into the fusion buffer */
    TRACE_TRANSFERRING, /* a backend carries it */
    TRACE_UNPACKING,
    TRACE_DONE,
    TRACE_STEP_COUNT
};

/* One operation, embedded in flow's request. The caller fills the first fields before trace_submitted; what
 * they point to must stay until trace_done. All calls ignore a zeroed one. */
struct trace_op {
    const char *kind; /* "allreduce"; a literal */
    const char *name; /* a first byte of 1, which marks hvd's own operations, is left out */
    int64_t bytes;    /* of all its tensors on this rank */
    int set;
    int tensors; /* how many tensors it has */
    /* trace's own */
    int row;         /* in the timeline; -1: it is not in one */
    uint64_t agreed; /* counts the decided operations of its set; the same on all members */
    uint64_t serial; /* counts this rank's operations from 1 */
    enum trace_step step;
    int64_t at_us[TRACE_STEP_COUNT]; /* clock_us when it reached the step; 0: it did not */
};

struct trace;

/* Copied by trace_create. */
struct trace_params {
    int rank, size;
    int first; /* the number of rank 0 in the launcher's job */
    uint32_t epoch;
    const char *host;
    const char *dump_dir;      /* a folder for the flight record, created where it is missing; "": none */
    const char *flight_memory; /* the launcher's file, see flight_memory.h; NULL: none */
    const struct hvd_log *log; /* outlives the trace */
};

/* SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT say where they came, and then have their earlier effect: in the
 * launcher's file, or else on standard error unless the program handles them itself. With a dump_dir these
 * and SIGUSR2, which then never ends the process, write the flight record. HVD_ERR_INVALID where dump_dir is
 * not writable, HVD_ERR_STATE where there is one and another trace of this process has the signals. */
int trace_create(struct trace **tracep, const struct trace_params *params, struct hvd_error *err);

/* This rank is a member of the new process set [set]. A NULL trace is fine. */
void trace_joins_set(struct trace *trace, int set);

/* hvd_shutdown begins. A NULL trace is fine. */
void trace_leaves(struct trace *trace);

/* Ends the timeline; signals have their earlier effect again. No thread is in another call. NULL is fine. */
void trace_destroy(struct trace *trace);

/* ---- Operations. Any thread, but one at a time for each operation. A NULL trace is fine. [now_us]:
 * clock_us, which the caller may read once for many operations. None of these allocates or blocks; trace_done
 * may write part of the timeline. ---- */

/* Is a timeline being written? Then the times of each operation should be exact. */
bool trace_is_recording(const struct trace *trace);

/* To be called before the operation is submitted: after that another thread may work on it. */
void trace_submitted(struct trace *trace, struct trace_op *op, int64_t now_us);

/* [agreed] counts the operations that were decided in its set, from 1; the same on all members, also on those
 * that have joined. */
void trace_decided(struct trace *trace, struct trace_op *op, uint64_t agreed, int64_t now_us);

/* PACKING, TRANSFERRING or UNPACKING. Of an operation in several batches the first one counts: a step back is
 * ignored. */
void trace_step(struct trace *trace, struct trace_op *op, enum trace_step step, int64_t now_us);

/* [status] is final. Also called where the submission failed. */
void trace_done(struct trace *trace, struct trace_op *op, int status, int64_t now_us);

/* A thread of the program begins and ends to wait for an operation. */
void trace_wait_begin(struct trace *trace);
void trace_wait_end(struct trace *trace);

/* ---- How much the rank has carried, for those who ask. By the loop's driver. A NULL trace is fine. ---- */

/* An operation was decided; [cached]: by the id of an earlier decision. */
void trace_count_decided(struct trace *trace, bool cached);

/* A batch is over. */
void trace_count_batch(struct trace *trace, enum backend_id backend, int tensors, int64_t bytes,
                       int64_t now_us);

/* hvd_state_commit has saved the state, or hvd_state_write has it. By any thread, but one at a time. */
void trace_count_commit(struct trace *trace, int64_t now_us);

/* ---- The flight record: the last operations of this rank ---- */

/* Note in the record why the job cannot go on. Only the first sentence is kept. */
void trace_job_failed(struct trace *trace, const char *sentence);

/* The launcher's verdict, which it tells before it ends other ranks: which one failed first, by its number in
 * the launcher's job. -1: the launcher has told nothing. */
int trace_verdict(const struct trace *trace);

/* Write the record to dump_dir/hvd-flight.<rank>.txt, replacing an older one, with [reason] in its head; and
 * write what the timeline has collected. Without a dump_dir, only the timeline. */
void trace_dump(struct trace *trace, const char *reason);

/* ---- The timeline ---- */

/* From now on write folder/rank-<rank>.json, replacing an older one. The folder is created where it is
 * missing. HVD_ERR_STATE where a timeline is being written. Any thread. */
int trace_timeline_start(struct trace *trace, const char *folder, struct hvd_error *err);

/* Write the rest and end the timeline; operations in flight are not in it. HVD_ERR_STATE where none is being
 * written, also because it could not be written. Any thread. */
int trace_timeline_stop(struct trace *trace, struct hvd_error *err);

/* The clock of rank 0 is ours + [offset_us], to within [error_us]. Applies to the current timeline and later
 * ones. */
void trace_set_clock_offset(struct trace *trace, int64_t offset_us, int64_t error_us);

#endif
