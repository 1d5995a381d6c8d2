/* flight.h: the flight record: the last operations of a rank, in a ring that any thread writes and that a
 * signal handler can read. It lies in memory that others read: the launcher when the rank has ended, hvdinfo
 * while it runs. So it holds no pointer that a reader follows. There the launcher says what it knows, too. */
#ifndef TRACE_FLIGHT_H
#define TRACE_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/cpu.h"
#include "trace/flight_sums.h"
#include "trace/strbuf.h"
#include "trace/trace.h"

#define FLIGHT_SLOTS         256
#define FLIGHT_NAME_WORDS    8    /* of 8 bytes; longer names are cut */
#define FLIGHT_LINE_BYTES    1024 /* longest line: 4 bytes for each byte of the name, and the columns */
#define FLIGHT_KINDS         16   /* different kinds of operations; the last one stands for any other */
#define FLIGHT_KIND_BYTES    16
#define FLIGHT_CRASH_BYTES   1024
#define FLIGHT_FAILURE_BYTES 512
#define FLIGHT_HOST_BYTES    64
#define FLIGHT_TITLE_BYTES   320
#define FLIGHT_SET_WORDS     4 /* of 64 process sets; of more, only their operations are in the record */

/* All fields are atomic: another thread or a signal handler may read a slot while it is written. */
struct flight_slot {
    _Atomic uint64_t name[FLIGHT_NAME_WORDS];
    /* the second cache line; a step touches no other */
    _Atomic uint64_t state; /* serial and step of the operation; 0: none */
    _Atomic uint64_t kind;
    _Atomic int64_t bytes;
    _Atomic int64_t submitted_us;
    _Atomic uint32_t after_us[TRACE_STEP_COUNT - 1]; /* of the steps from DECIDED on, + 1; 0: not reached */
    _Atomic int16_t status;
    _Atomic uint16_t tensors; /* at most 65535 */
    _Atomic int set;
    _Atomic uint32_t agreed; /* the low bits of trace_op's; 0: not decided */
};

/* How far the rank is with its job. */
enum flight_phase {
    FLIGHT_NO_PHASE,
    FLIGHT_STARTS, /* in hvd_init */
    FLIGHT_WORKS,
    FLIGHT_LEAVES /* in hvd_shutdown */
};

/* Whose record it is: written once, before the phase. */
struct flight_rank {
    int rank, size; /* -1 and 0: not known yet */
    int first;      /* the number of rank 0 in the launcher's job, of which this job may be a part */
    uint32_t epoch;
    char host[FLIGHT_HOST_BYTES]; /* no final 0 if it is full */
};

/* A zeroed one is empty. */
struct flight {
    _Alignas(CACHE_LINE_BYTES) struct flight_slot slots[FLIGHT_SLOTS];
    _Atomic uint64_t last; /* serial of the last operation */
    uint64_t format;       /* of this layout; see flight_memory.c */
    _Atomic int owner;     /* the process that writes it; 0: none has */
    _Atomic int waiting;   /* threads of the program that wait for an operation */
    _Atomic uint8_t left;  /* 1: the rank has called hvd_shutdown; no bool, as others read what it wrote */
    _Atomic uint8_t phase; /* of enum flight_phase */
    struct flight_rank rank;
    _Atomic int64_t phase_us;                /* when the phase began */
    _Atomic uint64_t sets[FLIGHT_SET_WORDS]; /* bits: the process sets that the rank is or was a member of */
    _Atomic int verdict;                     /* 1 + the launcher's rank that failed first; 0: not known */
    _Atomic(const char *) kinds[FLIGHT_KINDS]; /* literals of the rank's process; NULL: free */
    _Atomic char kind_names[FLIGHT_KINDS]
                           [FLIGHT_KIND_BYTES]; /* another thread may read one as it is written */
    struct flight_sums sums;
    _Atomic size_t crash_bytes;
    char crash[FLIGHT_CRASH_BYTES]; /* where a fatal signal came; no final 0 */
    _Atomic size_t failure_bytes;
    char failure[FLIGHT_FAILURE_BYTES]; /* why the job cannot go on; no final 0 */
};

/* Enter whose record it is, and that it begins [phase]; NULL: that is entered already. */
void flight_enter_phase(struct flight *flight, const struct flight_rank *rank, enum flight_phase phase);

/* Enter that the rank is a member of [set]. */
void flight_enter_set(struct flight *flight, int set);

/* Enter an operation, at TRACE_SUBMITTED; sets op->serial. */
void flight_begin(struct flight *flight, struct trace_op *op);

/* Enter op->step and its time. Does nothing where the operation is not in the ring any more. */
void flight_step(struct flight *flight, const struct trace_op *op, int status);

/* Write the table to [fd], oldest operation first, through [strbuf], whose capacity is at least a line. 0, or
 * -1 with errno. Safe in signal handlers. */
int flight_write(struct flight *flight, struct strbuf *strbuf, int fd, int64_t now_us);

/* The oldest operation that is not done, or else the last one. */
struct flight_last {
    bool done;
    bool waits; /* not done, and a thread of the program waits */
    int status; /* if done */
    char title[FLIGHT_TITLE_BYTES];
};

/* False where the rank has submitted nothing. */
bool flight_find_last(struct flight *flight, struct flight_last *last);

/* Do two copies of a slot, made one after the other, hold the same operation? Then the second one is whole.
 */
bool flight_slots_agree(const struct flight_slot *before, const struct flight_slot *after);

/* An operation as a reader finds it. */
struct flight_operation {
    uint64_t serial;
    enum trace_step step;
    char kind[FLIGHT_KIND_BYTES];
    char name[FLIGHT_NAME_WORDS * 8 + 1];
    int64_t bytes;
    int set, tensors, status;
    uint32_t agreed;
    int64_t submitted_us;
    uint32_t after_us[TRACE_STEP_COUNT - 1];
};

/* The operations of the record, oldest first; returns how many. */
int flight_read(struct flight *flight, struct flight_operation operations[FLIGHT_SLOTS]);

/* When it took its last step. */
int64_t flight_step_us(const struct flight_operation *operation);

/* `allreduce "layer3.weight"`, and how many more tensors and which process set. Safe in signal handlers. */
void flight_add_title(struct strbuf *strbuf, const char *kind, const char *name, int tensors, int set);

/* That of [operation]. Returns [title]. */
const char *flight_title(const struct flight_operation *operation, char title[FLIGHT_TITLE_BYTES]);

#endif
