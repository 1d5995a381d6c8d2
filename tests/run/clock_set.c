/* clock_set.c: a library to preload for which the time of day is CLOCK_AHEAD seconds ahead; without that
 * variable somebody sets it at each look: a day back, right, a day ahead. */
#include "config.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SEEN        __attribute__((visibility("default")))
#define DAY_SECONDS 86400

SEEN int clock_gettime(clockid_t clock, struct timespec *now)
{
    static _Thread_local unsigned looks;
    int (*real)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))(uintptr_t)dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(clock, now);
    const char *ahead = getenv("CLOCK_AHEAD");
    if (clock == CLOCK_REALTIME && ahead != NULL)
        now->tv_sec += strtol(ahead, NULL, 10);
    else if (clock == CLOCK_REALTIME)
        now->tv_sec += ((int)(looks++ % 3) - 1) * DAY_SECONDS;
    return rc;
}
