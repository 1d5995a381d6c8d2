/* start_report.h: tells all ranks how each rank fared in one step of the job's start, so that all go on or
 * all fail. */
#ifndef BOOTSTRAP_START_REPORT_H
#define BOOTSTRAP_START_REPORT_H

#include "bootstrap/wireup.h"
#include "net/peer_table.h"

#define START_REPORT_BYTES 1024 /* the longest encoded report */

struct start_report {
    const char *step;        /* the step, whose name is the report's key in wire-up; it is not encoded */
    int status;              /* HVD_OK, or why this rank cannot go on */
    bool attached;           /* this rank shares its node's memory */
    struct hvd_error reason; /* if status is not HVD_OK */
};

/* Encode, which returns the length; and decode: HVD_OK, or HVD_ERR_INVALID if the bytes are not a report.
 * Pure. */
size_t start_report_encode(const struct start_report *report, unsigned char bytes[START_REPORT_BYTES]);
int start_report_decode(struct start_report *report, const unsigned char *bytes, size_t length);

/* Publish [mine], and read the reports of all ranks on the same step. [attached] (room for all ranks, or
 * NULL) gets which ranks share their node's memory. Collective. If some ranks cannot go on, every rank
 * gets the status and the sentence of the lowest of them. */
int start_report_exchange(const struct peer_table *peer_table, const struct wireup *wireup,
                          const struct start_report *mine, bool *attached, int64_t deadline_us,
                          struct hvd_error *err);

#endif
