/* trace.h: what became of this rank's operations: the flight record, which is always kept, and the timeline,
 * which is written on request. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"

/* Where an operation is. It only moves forward, and may pass over any but the first and the last. */
enum trace_step {
    TRACE_SUBMITTED,    /* waiting for the other ranks */
    TRACE_DECIDED,      /* all ranks agreed: waiting for its turn */
    TRACE_PACKING,      /* into the buffer that it shares with others */
    TRACE_TRANSFERRING, /* carried by a backend */
    TRACE_UNPACKING,
    TRACE_DONE,
    TRACE_STEP_COUNT
};

/* One operation, embedded in what flow keeps of it. The caller fills the first fields before trace_submitted;
 * what they point to is borrowed until trace_done. A zeroed one is of no operation, and no call looks at it.
 */
struct trace_op {
    const char *kind; /* "allreduce"; for ever */
    const char *name; /* as it is known by; a first byte of 1, of hvd's own, is left out */
    int64_t bytes;    /* of all its tensors on this rank */
    int set;
    int tensors; /* how many */
    /* trace's own */
    int row;         /* its row in the timeline; -1: it is not in there */
    uint64_t agreed; /* its number in its set, the same on all ranks */
    uint64_t serial; /* counts this rank's operations from 1 */
    enum trace_step step;
    int64_t at_us[TRACE_STEP_COUNT]; /* clock_us when it came there; 0: it did not */
};

struct trace;

/* Copied. */
struct trace_params {
    int rank, size;
    const char *host;
    const char *dump_dir;      /* a folder for the flight record, made where it is missing; "": none */
    const struct hvd_log *log; /* borrowed */
};

/* With a dump_dir SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT and SIGUSR2 write the flight record first and then
 * do what they did before; SIGUSR2 does nothing more where it would have ended the process. HVD_ERR_INVALID
 * where dump_dir cannot be written into, HVD_ERR_STATE where another trace of this process has one. */
int trace_create(struct trace **tracep, const struct trace_params *plan, struct hvd_error *err);

/* Ends the timeline; signals do again what they did. Nobody is in another call. NULL is fine. */
void trace_destroy(struct trace *trace);

/* ---- Operations. Any thread, but one at a time for each operation. A NULL trace is fine. [now_us]:
 * clock_us, which one look may tell for many operations. None of these allocates or waits; trace_done may
 * write a piece of the timeline. ---- */

/* Is a timeline being written, for which each operation's times should be its own? */
bool trace_is_recording(const struct trace *trace);

/* Before it is handed in: another thread may carry it on at once. */
void trace_submitted(struct trace *trace, struct trace_op *op, int64_t now_us);

/* [agreed] counts what was decided in its set, from 1: the same on all members, those that joined included.
 */
void trace_decided(struct trace *trace, struct trace_op *op, uint64_t agreed, int64_t now_us);

/* PACKING, TRAVELLING or UNPACKING. Of an operation that travels in several batches the first one counts:
 * going back is ignored. */
void trace_step(struct trace *trace, struct trace_op *op, enum trace_step step, int64_t now_us);

/* [status] is final; also where it could not be handed in. */
void trace_done(struct trace *trace, struct trace_op *op, int status, int64_t now_us);

/* ---- The flight record: the last operations of this rank ---- */

/* Write it to dump_dir/hvd-flight.<rank>.txt, over one that is there; [reason] is its first line. What the
 * timeline has not written yet is written too. Where there is no dump_dir, only that. */
void trace_dump(struct trace *trace, const char *reason);

/* ---- The timeline ---- */

/* Write folder/rank-<rank>.json, over one that is there, from now on. The folder is made where it is missing.
 * HVD_ERR_STATE where a timeline is being written. Any thread. */
int trace_timeline_start(struct trace *trace, const char *folder, struct hvd_error *err);

/* Write what is left and end it: operations that are in flight are not in it. HVD_ERR_STATE where there is
 * none, also where it ended because it could not be written. Any thread. */
int trace_timeline_stop(struct trace *trace, struct hvd_error *err);

/* The clock of rank 0 is ours + [offset_us], to within [error_us]. For this and later timelines. */
void trace_set_clock_offset(struct trace *trace, int64_t offset_us, int64_t error_us);

#endif
