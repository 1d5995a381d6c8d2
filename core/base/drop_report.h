/* drop_report.h: tells the user of connections that were dropped: the first at once, the next ones together,
 * once in an interval. So a flood of foreign connections does not become a flood of lines. */
#ifndef BASE_DROP_REPORT_H
#define BASE_DROP_REPORT_H

#include <stdint.h>

#include "base/log.h"

#define DROP_REPORT_INTERVAL_US INT64_C(10000000)

struct drop_report {
    int64_t next_us; /* no line before this time */
    long count;      /* dropped connections that are not reported yet */
    char last[400];  /* the sentence about the last of them */
};

/* A connection was dropped at [now_us]; the sentence says which, and why. A zeroed [report] is fine. */
void drop_report_add(struct drop_report *report, int64_t now_us, const struct hvd_log *log,
                     const char *component, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Write the line that is due at [now_us], if any. INT64_MAX: the line of all that were not told yet. */
void drop_report_tell(struct drop_report *report, int64_t now_us, const struct hvd_log *log,
                      const char *component);

#endif
