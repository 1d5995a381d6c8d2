/* job_signals.h: the signals that hvdrun handles while a job runs. */
#ifndef TOOLS_HVDRUN_JOB_SIGNALS_H
#define TOOLS_HVDRUN_JOB_SIGNALS_H

#include <signal.h>
#include <stdint.h>

struct job_signals {
    int fd;            /* readable while one has come: a signalfd */
    sigset_t original; /* the mask that hvdrun was started with; what it starts gets it */
};

/* Block them, once, before any thread is created. Returns 0, or -1. */
int job_signals_take(struct job_signals *signals);

/* Stop this process, as Ctrl-Z does. Returns when it goes on. */
void job_signals_stop(void);

/* Sleep until [deadline_us]. Returns 0, or the first of the signals that ask hvdrun to end. */
int job_signals_sleep(const struct job_signals *signals, int64_t deadline_us);

#endif
