/* start_report.h: tells all leaders how each node fared in one step of the job's start, so that all ranks go
 * on or all fail. */
#ifndef BOOTSTRAP_START_REPORT_H
#define BOOTSTRAP_START_REPORT_H

#include "bootstrap/leader_exchange.h"
#include "net/nic_offer.h"

#define START_REPORT_BYTES 4096 /* the longest encoded report */

struct start_report {
    const char *step;        /* the step, whose name is the report's key in wire-up; it is not encoded */
    int status;              /* HVD_OK, or why this node cannot go on */
    bool names_ranks;        /* the reason says by itself which ranks are concerned */
    struct hvd_error reason; /* if status is not HVD_OK */
    const void *result;      /* what the step found out, for the other leaders; decoded: in the bytes */
    size_t result_length;
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

/* On a leader: publish [mine]. */
int start_report_put(const struct leader_exchange *exchange, const struct start_report *mine,
                     struct hvd_error *err);

/* After the fences of leader_exchange.h: read the reports of all leaders on the same step into a zeroed
 * [reports], which the caller frees. If some cannot go on, each gets the status of the lowest of them. */
int start_report_read(const struct leader_exchange *exchange, const struct leader_list *leaders,
                      const char *step, struct blob_list *reports, struct hvd_error *err);

/* Decode one of them, with a sentence on failure. */
int start_report_of_entry(struct start_report *report, const char *step, const struct blob_entry *entry,
                          struct hvd_error *err);

#endif
