/* process_end.c: end this process by SIGTERM, then by SIGKILL. */
#include "base/process_end.h"

#include <signal.h>

#include "base/clock.h"
#include "base/process_signal.h"

/* From SIGTERM to SIGKILL. */
#define GRACE_US INT64_C(5000000)

void process_end_init(struct process_end *end)
{
    *end = (struct process_end){.at_us = INT64_MAX, .signal_number = SIGTERM};
}

void process_end_check(struct process_end *end, const struct hvd_log *log, const char *why)
{
    if (clock_us() < end->at_us)
        return;
    log_write(log, LOG_ERROR, "job", "%s; ending this process with signal %d", why, end->signal_number);
    process_signal_self(end->signal_number);
    end->at_us = end->signal_number == SIGKILL ? INT64_MAX : clock_us() + GRACE_US;
    end->signal_number = SIGKILL;
}
