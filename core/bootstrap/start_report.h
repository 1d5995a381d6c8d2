/* start_report.h: how a rank fared in one step of the job's start, told to all, so that all go on or all fail
 * alike. */
#ifndef BOOTSTRAP_START_REPORT_H
#define BOOTSTRAP_START_REPORT_H

#include "bootstrap/wireup.h"
#include "net/peer_table.h"

#define START_REPORT_BYTES 1024 /* no report is longer */

struct start_report {
    const char *step;        /* what it is about: names it in wire-up; not in its bytes */
    int status;              /* HVD_OK, or why this rank cannot go on */
    bool attached;           /* it shares its node's memory */
    struct hvd_error reason; /* where status is not HVD_OK */
};

/* To bytes, returns how many; and back: HVD_OK, or HVD_ERR_INVALID where they are not a report. Pure. */
size_t start_report_encode(const struct start_report *report, unsigned char bytes[START_REPORT_BYTES]);
int start_report_decode(struct start_report *report, const unsigned char *bytes, size_t length);

/* Tell all ranks [mine], and hear theirs of the same step; [attached] (room for all ranks; NULL:
 * not wanted) is what they say of their memory. Collective. Where some rank cannot go on, every rank gets the
 * status and the sentence of the first that cannot. */
int start_report_exchange(const struct peer_table *peer_table, const struct wireup *wireup,
                          const struct start_report *mine, bool *attached, int64_t deadline_us,
                          struct hvd_error *err);

#endif
