/* domains.c: a library to preload that makes the ranks of a job believe that they are on several NUMA
 * domains.
 *
 * The first DOMAINS_EACH ranks of hvdrun are on domain 0, the next DOMAINS_EACH on domain 1, and so on. It
 * also hides which cores the ranks may run on: on a machine with fewer cores than ranks they would find
 * themselves oversubscribed. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number_of(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : strtol(text, NULL, 10);
}

static void tell_domain(unsigned int *domain)
{
    *domain = (unsigned int)(number_of("PMIX_RANK") / number_of("DOMAINS_EACH"));
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long (*real)(long, ...) = NULL;
    void *found = dlsym(RTLD_NEXT, "syscall");
    long words[6];
    va_list list;
    memcpy(&real, &found, sizeof(real));
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_sched_getaffinity) {
        errno = ENOSYS;
        return -1;
    }
    long answer = real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_getcpu && answer == 0) {
        unsigned int *domain;
        memcpy(&domain, &words[1], sizeof(domain));
        tell_domain(domain);
    }
    return answer;
}
