/* flight.h: the flight record: the last operations of a rank, kept in a ring that any thread writes and that
 * a signal handler can read. */
#ifndef TRACE_FLIGHT_H
#define TRACE_FLIGHT_H

#include <stdatomic.h>

#include "base/cpu.h"
#include "trace/strbuf.h"
#include "trace/trace.h"

#define FLIGHT_SLOTS      256
#define FLIGHT_NAME_WORDS 8 /* of 8 bytes; longer names are cut */
#define FLIGHT_LINE_BYTES                                                            \
    1024 /* a line is not longer: 4 for each byte of the name, and what is around it \
          */

/* Atomic throughout, as a slot may be read, by another thread or by a signal handler, while it is written. */
struct flight_slot {
    _Atomic uint64_t name[FLIGHT_NAME_WORDS];
    /* the second cache line, the only one that steps touch */
    _Atomic uint64_t state; /* the operation and its step; 0: none */
    _Atomic(const char *) kind;
    _Atomic int64_t bytes;
    _Atomic int64_t submitted_us;
    _Atomic uint32_t
        after_us[TRACE_STEP_COUNT - 1]; /* of the steps from DECIDED on, + 1; 0: it did not come */
    _Atomic int16_t status;
    _Atomic uint16_t tensors; /* at most 65535 */
    _Atomic int set;
};

/* A zeroed one is empty. */
struct flight {
    _Alignas(CACHE_LINE_BYTES) struct flight_slot slots[FLIGHT_SLOTS];
    _Atomic uint64_t last; /* serial of the last operation */
};

/* op->serial and what it is, at TRACE_SUBMITTED. */
void flight_begin(struct flight *flight, struct trace_op *op);

/* op->step has come, and op->at_us of it. An operation that is not in the ring any more: nothing. */
void flight_step(struct flight *flight, const struct trace_op *op, int status);

/* Write the table, oldest first, through [strbuf], which has room for a line or more, to [fd]: 0, or -1 with
 * errno. Safe in signal handlers. */
int flight_write(struct flight *flight, struct strbuf *strbuf, int fd, int64_t now_us);

/* All bytes of [strbuf] to [fd], and empty it; the same. */
int strbuf_flush(struct strbuf *strbuf, int fd);

#endif
