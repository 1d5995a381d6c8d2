/* trace.c: gives this rank's operations to the flight record and the timeline. */
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace/crash.h"
#include "trace/flight.h"
#include "trace/flight_file.h"
#include "trace/flight_memory.h"
#include "trace/signals.h"
#include "trace/timeline.h"

struct trace {
    char host[256];
    const struct hvd_log *log;
    struct timeline *timeline;
    struct signals_handler handler;
    struct flight_memory flight_memory;
    struct flight *flight; /* in there */
    bool dumps;            /* there is a dump_dir */
    struct flight_file flight_file;
    atomic_flag in_signal; /* a thread is in on_signal, and uses: */
    char line[PATH_MAX + 1024];
};

/* ---- Signals ------------------------------------------------------------------------------------ */

/* Written to the flight record in two parts: the second one takes locks of the dynamic linker, so that it may
 * not come to its end. */
static void describe_crash(struct trace *trace, const struct signals_event *event)
{
    struct flight *flight = trace->flight;
    struct strbuf strbuf = {flight->crash, 0, sizeof(flight->crash)};
    crash_add_signal(&strbuf, event->name, event->info);
    atomic_store(&flight->crash_bytes, strbuf.used);
    crash_add_frames(&strbuf, event->context);
    atomic_store(&flight->crash_bytes, strbuf.used);
}

/* Begin a line with the name of this rank. It is built in the trace, since the stack may be a small signal
 * stack. */
static struct strbuf begin_line(struct trace *trace)
{
    struct strbuf line = {trace->line, 0, sizeof(trace->line) - 1};
    strbuf_add_text(&line, "hvd: ");
    strbuf_add_text(&line, trace->flight_file.head);
    strbuf_add_text(&line, ": ");
    return line;
}

static void print_line(struct strbuf *line)
{
    line->capacity++;
    strbuf_add_text(line, "\n");
    strbuf_flush(line, STDERR_FILENO);
}

static void print_crash(struct trace *trace)
{
    struct strbuf line = begin_line(trace);
    strbuf_add_bytes(&line, trace->flight->crash, atomic_load(&trace->flight->crash_bytes));
    print_line(&line);
}

static void write_flight_file(struct trace *trace, const char *signal_name)
{
    bool written = flight_file_write(&trace->flight_file, signal_name) == 0;
    struct strbuf line = begin_line(trace);
    strbuf_add_text(&line, signal_name);
    strbuf_add_text(&line, written ? ": its last operations are in "
                                   : ": its last operations could not be written to ");
    strbuf_add_text(&line, trace->flight_file.path);
    print_line(&line);
}

/* In a signal handler. */
static void on_signal(void *arg, const struct signals_event *event)
{
    struct trace *trace = arg;
    if (atomic_flag_test_and_set(&trace->in_signal))
        return; /* another thread is in here */
    if (event->fatal)
        describe_crash(trace, event);
    if (event->fatal && !trace->flight_memory.of_launcher && (trace->dumps || !event->handled))
        print_crash(trace);
    if (trace->dumps)
        write_flight_file(trace, event->name);
    if (event->fatal)
        timeline_flush_in_signal(trace->timeline);
    atomic_flag_clear(&trace->in_signal);
}

/* Several ranks in one process, as in tests, share its signals: the first one has them. */
static int watch_signals(struct trace *trace, struct hvd_error *err)
{
    crash_prepare();
    int rc = signals_install(&trace->handler, trace->dumps, err);
    return trace->dumps ? rc : HVD_OK;
}

/* ---- Start and end ------------------------------------------------------------------------------ */

static void begin_to_work(struct flight *flight, const struct trace_params *params)
{
    struct flight_rank rank = {
        .rank = params->rank, .size = params->size, .first = params->first, .epoch = params->epoch};
    memcpy(rank.host, params->host, strnlen(params->host, sizeof(rank.host)));
    flight_sums_begin(&flight->sums, clock_us());
    flight_enter_phase(flight, &rank, FLIGHT_WORKS);
}

int trace_create(struct trace **tracep, const struct trace_params *params, struct hvd_error *err)
{
    struct trace *trace = calloc(1, sizeof(*trace));
    if (trace == NULL || flight_memory_create(&trace->flight_memory, params->flight_memory) != HVD_OK) {
        free(trace);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the trace of operations");
    }
    trace->flight = trace->flight_memory.flight;
    struct trace_params own_params = *params;
    snprintf(trace->host, sizeof(trace->host), "%s", params->host);
    own_params.host = trace->host;
    trace->log = params->log;
    trace->dumps = params->dump_dir[0] != 0;
    trace->handler = (struct signals_handler){on_signal, trace};
    atomic_flag_clear(&trace->in_signal);
    int rc = timeline_create(&trace->timeline, &own_params, err);
    if (rc == HVD_OK)
        rc = flight_file_open(&trace->flight_file, &own_params, trace->flight, err);
    if (rc == HVD_OK)
        rc = watch_signals(trace, err);
    if (rc != HVD_OK) {
        trace_destroy(trace);
        return rc;
    }
    begin_to_work(trace->flight, params);
    *tracep = trace;
    return HVD_OK;
}

void trace_joins_set(struct trace *trace, int set)
{
    if (trace != NULL)
        flight_enter_set(trace->flight, set);
}

void trace_leaves(struct trace *trace)
{
    if (trace != NULL)
        flight_enter_phase(trace->flight, NULL, FLIGHT_LEAVES);
}

void trace_destroy(struct trace *trace)
{
    if (trace == NULL)
        return;
    signals_restore(&trace->handler);
    timeline_destroy(trace->timeline);
    atomic_store(&trace->flight->left, true);
    flight_memory_destroy(&trace->flight_memory);
    free(trace);
}

/* ---- Operations --------------------------------------------------------------------------------- */

bool trace_is_recording(const struct trace *trace)
{
    return trace != NULL && timeline_is_on(trace->timeline);
}

void trace_submitted(struct trace *trace, struct trace_op *op, int64_t now_us)
{
    if (trace == NULL)
        return;
    memset(op->at_us, 0, sizeof(op->at_us));
    op->at_us[TRACE_SUBMITTED] = now_us;
    op->step = TRACE_SUBMITTED;
    op->agreed = 0;
    op->row = -1;
    if (timeline_is_on(trace->timeline))
        timeline_begin(trace->timeline, op);
    flight_begin(trace->flight, op);
}

static void advance_op(struct trace *trace, struct trace_op *op, enum trace_step step, int status,
                       int64_t now_us)
{
    op->step = step;
    op->at_us[step] = now_us;
    flight_step(trace->flight, op, status);
}

void trace_decided(struct trace *trace, struct trace_op *op, uint64_t agreed, int64_t now_us)
{
    op->agreed = agreed;
    trace_step(trace, op, TRACE_DECIDED, now_us);
}

void trace_step(struct trace *trace, struct trace_op *op, enum trace_step step, int64_t now_us)
{
    if (trace != NULL && op->serial != 0 && step > op->step)
        advance_op(trace, op, step, HVD_IN_PROGRESS, now_us);
}

void trace_done(struct trace *trace, struct trace_op *op, int status, int64_t now_us)
{
    if (trace == NULL || op->serial == 0 || op->step == TRACE_DONE)
        return;
    advance_op(trace, op, TRACE_DONE, status, now_us);
    if (op->row >= 0)
        timeline_end(trace->timeline, op, status);
}

void trace_wait_begin(struct trace *trace)
{
    if (trace != NULL)
        atomic_fetch_add_explicit(&trace->flight->waiting, 1, memory_order_relaxed);
}

void trace_wait_end(struct trace *trace)
{
    if (trace != NULL)
        atomic_fetch_sub_explicit(&trace->flight->waiting, 1, memory_order_relaxed);
}

void trace_count_decided(struct trace *trace, bool cached)
{
    if (trace != NULL)
        flight_count_decided(&trace->flight->sums, cached);
}

void trace_count_batch(struct trace *trace, enum backend_id backend, int tensors, int64_t bytes,
                       int64_t now_us)
{
    if (trace != NULL)
        flight_count_batch(&trace->flight->sums, backend, tensors, bytes, now_us);
}

void trace_count_commit(struct trace *trace, int64_t now_us)
{
    if (trace != NULL)
        flight_count_commit(&trace->flight->sums, now_us);
}

/* ---- Writing ------------------------------------------------------------------------------------ */

void trace_job_failed(struct trace *trace, const char *sentence)
{
    if (trace == NULL || atomic_load(&trace->flight->failure_bytes) > 0)
        return;
    size_t length = strnlen(sentence, sizeof(trace->flight->failure));
    memcpy(trace->flight->failure, sentence, length);
    atomic_store(&trace->flight->failure_bytes, length);
}

int trace_verdict(const struct trace *trace)
{
    return trace == NULL ? -1 : atomic_load(&trace->flight->verdict) - 1;
}

void trace_dump(struct trace *trace, const char *reason)
{
    if (trace == NULL)
        return;
    timeline_flush(trace->timeline);
    if (trace->flight_file.path[0] == 0)
        return;
    if (flight_file_write(&trace->flight_file, reason) == 0)
        log_write(trace->log, LOG_WARN, "trace", "the last operations are in %s", trace->flight_file.path);
    else if (errno != EBUSY)
        log_write(trace->log, LOG_WARN, "trace", "the last operations could not be written to %s: %s",
                  trace->flight_file.path, error_text(errno));
}

int trace_timeline_start(struct trace *trace, const char *folder, struct hvd_error *err)
{
    return timeline_start(trace->timeline, folder, err);
}

int trace_timeline_stop(struct trace *trace, struct hvd_error *err)
{
    return timeline_stop(trace->timeline, err);
}

void trace_set_clock_offset(struct trace *trace, int64_t offset_us, int64_t error_us)
{
    timeline_set_clock(trace->timeline, offset_us, error_us);
}
