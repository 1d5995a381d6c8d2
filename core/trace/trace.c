/* trace.c: gives this rank's operations to the flight record and the timeline. */
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/flight.h"
#include "trace/flight_file.h"
#include "trace/signals.h"
#include "trace/timeline.h"

struct trace {
    char host[256];
    const struct hvd_log *log;
    struct timeline *timeline;
    struct signals_handler handler;
    struct flight flight;
    struct flight_file flight_file;
};

/* In a signal handler. */
static void on_signal(void *arg, const char *name, bool fatal)
{
    struct trace *trace = arg;
    char line[1200]; /* not larger: the stack may be a small signal stack */
    struct strbuf strbuf = {line, 0, sizeof(line)};
    bool written = flight_file_write(&trace->flight_file, name) == 0;
    if (fatal)
        timeline_flush_in_signal(trace->timeline);
    strbuf_add_text(&strbuf, "hvd: ");
    strbuf_add_text(&strbuf, trace->flight_file.head);
    strbuf_add_text(&strbuf, ": ");
    strbuf_add_text(&strbuf, name);
    strbuf_add_text(&strbuf, written ? ": its last operations are in "
                                     : ": its last operations could not be written to ");
    strbuf_add_text(&strbuf, trace->flight_file.path);
    strbuf_add_text(&strbuf, "\n");
    strbuf_flush(&strbuf, STDERR_FILENO);
}

int trace_create(struct trace **tracep, const struct trace_params *params, struct hvd_error *err)
{
    struct trace *trace = aligned_alloc(_Alignof(struct trace), sizeof(*trace));
    if (trace == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the trace of operations");
    memset(trace, 0, sizeof(*trace));
    struct trace_params own_params = *params;
    snprintf(trace->host, sizeof(trace->host), "%s", params->host);
    own_params.host = trace->host;
    trace->log = params->log;
    trace->handler = (struct signals_handler){on_signal, trace};
    int rc = timeline_create(&trace->timeline, &own_params, err);
    if (rc == HVD_OK)
        rc = flight_file_open(&trace->flight_file, &own_params, &trace->flight, err);
    if (rc == HVD_OK && params->dump_dir[0] != 0)
        rc = signals_install(&trace->handler, err);
    if (rc != HVD_OK) {
        trace_destroy(trace);
        return rc;
    }
    *tracep = trace;
    return HVD_OK;
}

void trace_destroy(struct trace *trace)
{
    if (trace == NULL)
        return;
    signals_restore(&trace->handler);
    timeline_destroy(trace->timeline);
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
    flight_begin(&trace->flight, op);
}

static void advance(struct trace *trace, struct trace_op *op, enum trace_step step, int status,
                    int64_t now_us)
{
    op->step = step;
    op->at_us[step] = now_us;
    flight_step(&trace->flight, op, status);
}

void trace_decided(struct trace *trace, struct trace_op *op, uint64_t agreed, int64_t now_us)
{
    op->agreed = agreed;
    trace_step(trace, op, TRACE_DECIDED, now_us);
}

void trace_step(struct trace *trace, struct trace_op *op, enum trace_step step, int64_t now_us)
{
    if (trace != NULL && op->serial != 0 && step > op->step)
        advance(trace, op, step, HVD_IN_PROGRESS, now_us);
}

void trace_done(struct trace *trace, struct trace_op *op, int status, int64_t now_us)
{
    if (trace == NULL || op->serial == 0 || op->step == TRACE_DONE)
        return;
    advance(trace, op, TRACE_DONE, status, now_us);
    if (op->row >= 0)
        timeline_end(trace->timeline, op, status);
}

/* ---- Writing ------------------------------------------------------------------------------------ */

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
