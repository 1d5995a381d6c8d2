/* flight_sums.h: how much a rank has carried since it joined its job, now and at earlier times, so that
 * others find rates in it. The loop's driver writes it, one thread at a time, without a locked instruction;
 * others read a copy that may have been made meanwhile. */
#ifndef TRACE_FLIGHT_SUMS_H
#define TRACE_FLIGHT_SUMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backend_id.h"

#define FLIGHT_MARKS   64
#define FLIGHT_MARK_US INT64_C(5000000) /* between two marks at least */

enum flight_sum {
    SUM_OPERATIONS, /* that were decided */
    SUM_CACHED,     /* of these, by the id of an earlier decision */
    SUM_BATCHES,
    SUM_TENSORS, /* in these batches */
    SUM_BYTES,   /* in these batches, by each backend */
    SUM_COUNT = SUM_BYTES + BACKEND_COUNT
};

struct flight_mark {
    _Atomic int64_t at_us; /* 0: it is being written */
    _Atomic int64_t sums[SUM_COUNT];
};

struct flight_sums {
    _Atomic int64_t sums[SUM_COUNT];
    struct flight_mark marks[FLIGHT_MARKS];
    int next_mark;
    int64_t marked_us; /* the last one */
    _Atomic int64_t commits, committed_us;
};

/* The rank has joined: the first mark. */
void flight_sums_begin(struct flight_sums *sums, int64_t now_us);

void flight_count_decided(struct flight_sums *sums, bool cached);

/* A batch is over. */
void flight_count_batch(struct flight_sums *sums, enum backend_id backend, int tensors, int64_t bytes,
                        int64_t now_us);

/* hvd_state_commit has saved the state. Any thread, but one at a time. */
void flight_count_commit(struct flight_sums *sums, int64_t now_us);

/* What a reader finds. */
struct flight_totals {
    int64_t sums[SUM_COUNT];
    int64_t commits, committed_us;
};
void flight_read_totals(const struct flight_sums *sums, struct flight_totals *totals);

/* What was added since about [since_us], or since the rank joined; *from_us: since when exactly. False: it
 * has not joined. */
bool flight_read_recent(const struct flight_sums *sums, int64_t since_us, int64_t recent[SUM_COUNT],
                        int64_t *from_us);

#endif
