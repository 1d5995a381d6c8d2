/* job_signals.c: take the signals that hvdrun handles while a job runs. */
#include "tools/hvdrun/job_signals.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"

/* Threads that are created later inherit the blocked signals. A signal that was ignored when hvdrun started
 * (nohup, a background job of a script) stays ignored. */
int job_signals_take(struct job_signals *signals)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};
    sigset_t mask;
    sigset_t blocked;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++) {
        struct sigaction action;
        if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&mask, handled[i]);
    }
    blocked = mask;
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGPIPE); /* it and the next one: the write fails, and hvdrun says why */
    sigaddset(&blocked, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &blocked, &signals->original);
    signals->fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? -1 : 0;
}

void job_signals_stop(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    process_signal_self(SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

int job_signals_sleep(const struct job_signals *signals, int64_t deadline_us)
{
    while (clock_us() < deadline_us) {
        struct pollfd ready = {.fd = signals->fd, .events = POLLIN};
        struct signalfd_siginfo info;
        poll(&ready, 1, clock_ms_until(deadline_us));
        while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            int number = (int)info.ssi_signo;
            if (number == SIGTSTP)
                job_signals_stop();
            else if (number != SIGCONT && number != SIGUSR1 && number != SIGUSR2)
                return number;
        }
    }
    return 0;
}
