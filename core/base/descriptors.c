/* descriptors.c: how many descriptors this process may have open, and the sentence when all of them are. */
#include "base/descriptors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Enough for every job. Where the hard limit is far higher, programs that close every number up to their
 * limit would take seconds. */
#define MOST_DESCRIPTORS 1000000

void descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t wanted = limit.rlim_max < MOST_DESCRIPTORS ? limit.rlim_max : MOST_DESCRIPTORS;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

bool descriptors_are_used_up(int error)
{
    return error == EMFILE || error == ENFILE;
}

int descriptors_error(struct hvd_error *err, int error, const char *what, int more)
{
    char wanted[80] = "";
    struct rlimit limit = {0, 0};
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "%s: %s; see fs.file-max of sysctl(8) on this node", what,
                         strerror(error));
    if (more > 0)
        snprintf(wanted, sizeof(wanted), " to at least %llu",
                 (unsigned long long)limit.rlim_cur + (unsigned)more);
    return error_set(
        err, HVD_ERR_NO_MEMORY,
        "%s: all %llu descriptors that this process may have are open; raise `ulimit -n`%s, the hard "
        "limit too",
        what, (unsigned long long)limit.rlim_cur, wanted);
}

int descriptors_check(int count, const char *what, struct hvd_error *err)
{
    int opened = 0, rc = HVD_OK;
    int *fds = malloc((size_t)count * sizeof(*fds));
    if (fds == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "%s: no memory for a list of %d descriptors", what, count);
    while (rc == HVD_OK && opened < count) {
        fds[opened] = eventfd(0, EFD_CLOEXEC);
        if (fds[opened] >= 0)
            opened++;
        else if (descriptors_are_used_up(errno))
            rc = descriptors_error(err, errno, what, count - opened);
        else
            break; /* it is not the descriptors that are missing */
    }
    for (int i = 0; i < opened; i++)
        close(fds[i]);
    free(fds);
    return rc;
}
