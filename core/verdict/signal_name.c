/* signal_name.c: the name of a signal, which the C library only tells since glibc 2.32. */
#include "verdict/signal_name.h"

#include <signal.h>
#include <stdio.h>

/* A signal and its name. */
#define NAMED(signal) [signal] = #signal

static const char *const names[] = {NAMED(SIGHUP),  NAMED(SIGINT),    NAMED(SIGQUIT), NAMED(SIGILL),
                                    NAMED(SIGTRAP), NAMED(SIGABRT),   NAMED(SIGBUS),  NAMED(SIGFPE),
                                    NAMED(SIGKILL), NAMED(SIGUSR1),   NAMED(SIGSEGV), NAMED(SIGUSR2),
                                    NAMED(SIGPIPE), NAMED(SIGALRM),   NAMED(SIGTERM), NAMED(SIGXCPU),
                                    NAMED(SIGXFSZ), NAMED(SIGVTALRM), NAMED(SIGPROF), NAMED(SIGSYS)};

#undef NAMED

const char *signal_name(int number, char name[SIGNAL_NAME_BYTES])
{
    const char *known = number > 0 && number < (int)(sizeof(names) / sizeof(names[0])) ? names[number] : NULL;
    if (known != NULL)
        snprintf(name, SIGNAL_NAME_BYTES, "%s", known);
    else
        snprintf(name, SIGNAL_NAME_BYTES, "signal %d", number);
    return name;
}
