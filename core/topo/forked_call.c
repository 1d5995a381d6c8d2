/* forked_call.c: calls a function in a forked child, because it may crash or never return, as libraries do
 * with damaged data. */
#include "config.h"
#include "topo/forked_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"

/* A crash here must go unnoticed: the program's handlers do not run, and neither core file nor output is
 * left. */
static void be_quiet(void)
{
    const struct rlimit none = {0, 0};
    sigset_t no_signals;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&no_signals);
    sigprocmask(SIG_SETMASK, &no_signals, NULL);
    setrlimit(RLIMIT_CORE, &none);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
}

_Noreturn static void run_child(void (*work)(void *arg), void *arg, int out)
{
    const char done = 1;
    be_quiet();
    work(arg);
    _exit(write(out, &done, sizeof(done)) == sizeof(done) ? 0 : 1);
}

/* The child says that it is done; else the pipe ends with it. This works where the program lets its children
 * be reaped by themselves, too. */
static bool hears_done(int in, int64_t deadline_us)
{
    char done = 0;
    struct pollfd poller = {.fd = in, .events = POLLIN};
    int rc = poll(&poller, 1, clock_ms_until(deadline_us));
    while (rc < 0 && errno == EINTR)
        rc = poll(&poller, 1, clock_ms_until(deadline_us));
    return rc == 1 && read(in, &done, sizeof(done)) == sizeof(done);
}

int forked_call_run(void (*work)(void *arg), void *arg, int64_t deadline_us)
{
    int ends[2];
    sigset_t all, before;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    sigfillset(&all); /* the child must not run the program's handlers */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        run_child(work, arg, ends[1]);
    int saved_errno = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    bool done = child > 0 && hears_done(ends[0], deadline_us);
    close(ends[0]);
    if (child < 0) {
        errno = saved_errno;
        return -1;
    }
    process_signal(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    return done;
}
