/* restarts.c: start a job again after a failure. */
#include "config.h"

#include "tools/hvdrun/restarts.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define DELAY_MAX_S 60

int restart_delay_s(int restart)
{
    int delay_s = 1;
    for (int i = 1; i < restart && delay_s < DELAY_MAX_S; i++)
        delay_s *= 2;
    return delay_s < DELAY_MAX_S ? delay_s : DELAY_MAX_S;
}

/* Wait before the next attempt. Returns 0, or the signal that ended the wait. */
static int pause_before(int restart, int max, const struct job_signals *signals)
{
    int delay_s = restart_delay_s(restart);
    fprintf(stderr, "hvdrun: starting all ranks again in %d s: restart %d of %d\n", delay_s, restart, max);
    int signal_number = job_signals_sleep(signals, clock_us() + INT64_C(1000000) * delay_s);
    if (signal_number != 0)
        fprintf(stderr, "hvdrun: interrupted by signal %d (%s) before restart %d of %d\n", signal_number,
                strsignal(signal_number), restart, max);
    return signal_number;
}

int restarts_run(int max, void (*run)(void *arg, int restart, struct attempt *attempt), void *arg,
                 const struct job_signals *signals)
{
    struct attempt attempt = {.may_restart = true};
    for (int restart = 0; restart <= max; restart++) {
        if (restart > 0) {
            int signal_number = pause_before(restart, max, signals);
            if (signal_number != 0)
                return 128 + signal_number;
        }
        attempt = (struct attempt){0, false};
        run(arg, restart, &attempt);
        if (attempt.exit_status == 0 && restart > 0)
            fprintf(stderr, "hvdrun: the job succeeded after restart %d of %d\n", restart, max);
        if (!attempt.may_restart)
            return attempt.exit_status;
    }
    if (max > 0)
        fprintf(stderr, "hvdrun: the job failed %d times, and no restart is left of --max-restarts=%d\n",
                max + 1, max);
    return attempt.exit_status;
}
