/* first_host.c: look up the name of rank 0's node in a child of slurmstepd. */
#include "config.h"
#include "spank/first_host.h"

#include <stdlib.h>

#include "base/clock.h"
#include "options/node_address.h"
#include "spank/user_child.h"

/* The work of the child. Its exit status is 0 unless the name has no address that leads to the node. */
static int look_up(void *arg, const struct hvd_error *failure)
{
    const struct first_host *first = arg;
    return failure != NULL || node_name_leads(first->name, first->here) ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool first_host_resolves(spank_t spank, struct first_host *first)
{
    struct user_child child = {.work = look_up, .arg = first};
    struct hvd_error err;
    int status = EXIT_FAILURE;
    if (step_user_find(spank, &child.user, &err) != HVD_OK)
        return true;
    pid_t pid = user_child_fork(&child);
    return pid < 0 ||
           (user_child_wait(pid, clock_us() + FIRST_HOST_LOOKUP_US, &status) && status == EXIT_SUCCESS);
}
