/* context.c: the job of this process, and the sentence of each thread's last error. */
#include "api/context.h"

#include <unistd.h>

static struct context *current;
static uint64_t starts; /* of this process that succeeded */
static bool was_shut_down;
static pid_t forked_from; /* != 0 in a child that inherited a job and has no part in it */
static _Thread_local struct hvd_error last_error;

void context_begin(struct context *context)
{
    context->start = ++starts;
    current = context;
    was_shut_down = false;
}

void context_end(void)
{
    current = NULL;
    was_shut_down = true;
}

void context_leave_to_parent(void)
{
    current = NULL;
    forked_from = getppid();
}

struct context *context_get(void)
{
    return current;
}

struct hvd_error *context_error(void)
{
    return &last_error;
}

int context_require_none(void)
{
    if (current != NULL)
        return error_set(&last_error, HVD_ERR_STATE,
                         "hvd_init was called twice; call hvd_shutdown in between");
    if (forked_from != 0)
        return error_set(&last_error, HVD_ERR_STATE,
                         "this process was forked from a rank (pid %d) and has no place in the job; use hvd "
                         "there, or exec",
                         (int)forked_from);
    return HVD_OK;
}

struct context *context_require(void)
{
    const char *why = "hvd is not initialised; call hvd_init first";
    if (forked_from != 0)
        why = "this process was forked from a rank and is not part of its job";
    else if (was_shut_down)
        why = "hvd was shut down; nothing can be submitted after hvd_shutdown";
    if (current == NULL)
        error_set(&last_error, HVD_ERR_STATE, "%s", why);
    return current;
}

struct context *context_require_for_handle(enum hvd_status *statusp)
{
    struct context *context = context_require();
    *statusp = HVD_ERR_STATE;
    if (context == NULL && was_shut_down && forked_from == 0)
        *statusp = error_set(&last_error, HVD_ERR_SHUTDOWN,
                             "hvd was shut down, which ended every operation that was pending");
    return context;
}
