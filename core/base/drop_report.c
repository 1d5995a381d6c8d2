/* drop_report.c: tells the user of connections that were dropped, with a count, once in an interval. */
#include "base/drop_report.h"

#include <stdarg.h>
#include <stdio.h>

void drop_report_add(struct drop_report *report, int64_t now_us, const struct hvd_log *log,
                     const char *component, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(report->last, sizeof(report->last), format, args);
    va_end(args);
    report->count++;
    drop_report_tell(report, now_us, log, component);
}

void drop_report_tell(struct drop_report *report, int64_t now_us, const struct hvd_log *log,
                      const char *component)
{
    if (report->count == 0 || now_us < report->next_us)
        return;
    if (report->count == 1)
        log_write(log, LOG_WARN, component, "%s", report->last);
    else
        log_write(log, LOG_WARN, component, "%s; it is the last of %ld such connections", report->last,
                  report->count);
    report->count = 0;
    report->next_us = now_us == INT64_MAX ? 0 : now_us + DROP_REPORT_INTERVAL_US;
}
