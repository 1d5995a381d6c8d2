/* start_report.h: tells all leaders how each node fared in one step of the job's start, so that all ranks go
 * on or all fail. */
#ifndef BOOTSTRAP_START_REPORT_H
#define BOOTSTRAP_START_REPORT_H

#include "bootstrap/wireup.h"
#include "net/peer_table.h"

#define START_REPORT_BYTES 1024 /* the longest encoded report */

/* The ranks that act for their nodes in the start, ascending. */
struct leader_list {
    int *ranks; /* owned by whoever keeps the list */
    int count;
    uint64_t warnings; /* hvd_config.warnings of the first of them */
};

struct start_report {
    const char *step;        /* the step, whose name is the report's key in wire-up; it is not encoded */
    int status;              /* HVD_OK, or why this node cannot go on */
    bool names_ranks;        /* the reason says by itself which ranks are concerned */
    struct hvd_error reason; /* if status is not HVD_OK */
};

/* Encode, which returns the length; and decode: HVD_OK, or HVD_ERR_INVALID if the bytes are not a report.
 * Pure. */
size_t start_report_encode(const struct start_report *report, unsigned char bytes[START_REPORT_BYTES]);
int start_report_decode(struct start_report *report, const unsigned char *bytes, size_t length);

/* Write what [report], of [rank], means for this one into [err], and return its status: rank 0 and [rank]
 * itself say why the job cannot start, and the others that rank 0 does. */
int start_report_result(const struct peer_table *peer_table, int rank, const struct start_report *report,
                        struct hvd_error *err);

/* The sentence of the others. Returns [status]. */
int start_report_refer(const struct peer_table *peer_table, int status, struct hvd_error *err);

/* On a leader: publish [mine], pass a fence, and read the reports of all leaders on the same step. If some
 * cannot go on, each gets the status of the lowest of them. */
int start_report_exchange(const struct leader_list *leaders, const struct peer_table *peer_table,
                          const struct wireup *wireup, const struct start_report *mine, int64_t deadline_us,
                          struct hvd_error *err);

#endif
