/* full_report.h: a report of a failed task in which nothing is empty. */
#ifndef TESTS_UNIT_FULL_REPORT_H
#define TESTS_UNIT_FULL_REPORT_H

#include "verdict/failure_report.h"

static inline struct failure_report full_report(void)
{
    struct failure_report report = {
        .rank = 3,
        .size = 6,
        .pid = 4711,
        .node = "n2",
        .after_us = 12300000,
        .failed_count = 2,
        .end = {.wait_status = 9, .stayed = true, .left = true, .lost = "barrier \"b\""},
        .facts = {.gpu = "GPU 0000:17:00.0",
                  .doing = "after allreduce \"x\"",
                  .error = "ValueError: no more data",
                  .memory = "out of memory",
                  .core = "core_pattern is core"},
        .crash = "SIGSEGV at address 0x0"};
    return report;
}

#endif
