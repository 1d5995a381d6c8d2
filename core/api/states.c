/* states.c: the public calls that make and free elastic states; they are local. */
#include "api/states.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/context.h"
#include "api/state_disk.h"

/* The states of this process: they outlive jobs. */
static struct {
    pthread_mutex_t lock;
    struct state *first;
    hvd_state made; /* handles so far */
    int on_disk;    /* states that have used the folder so far */
} states = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct state *states_find(hvd_state handle, const char *call)
{
    pthread_mutex_lock(&states.lock);
    struct state *state = states.first;
    while (state != NULL && state->handle != handle)
        state = state->next;
    pthread_mutex_unlock(&states.lock);
    if (state == NULL)
        error_set(context_error(), HVD_ERR_INVALID,
                  "%s: there is no state %" PRIu64 "; pass one of hvd_state_create that is not freed", call,
                  handle);
    return state;
}

int states_count_on_disk(void)
{
    pthread_mutex_lock(&states.lock);
    int number = ++states.on_disk;
    pthread_mutex_unlock(&states.lock);
    return number;
}

int state_reserve(struct state *state, int copies, struct hvd_error *err)
{
    if (state->broadcasts == NULL)
        state->broadcasts = calloc((size_t)commits_count(state->commits) + 1, sizeof(*state->broadcasts));
    int rc = commits_reserve(state->commits, copies, err);
    if (rc == HVD_OK && state->broadcasts == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for the operations of a state");
    if (rc != HVD_OK) { /* parts may be added before the next attempt */
        free(state->broadcasts);
        state->broadcasts = NULL;
    }
    return rc;
}

enum hvd_status hvd_state_create(hvd_state *statep)
{
    if (statep == NULL)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_state_create: statep is NULL; pass the address of an hvd_state");
    struct state *state = calloc(1, sizeof(*state));
    if (state != NULL)
        state->commits = commits_create();
    if (state == NULL || state->commits == NULL) {
        free(state);
        return error_set(context_error(), HVD_ERR_NO_MEMORY, "hvd_state_create: no memory");
    }
    pthread_mutex_lock(&states.lock);
    state->handle = ++states.made;
    state->next = states.first;
    states.first = state;
    pthread_mutex_unlock(&states.lock);
    *statep = state->handle;
    return HVD_OK;
}

enum hvd_status hvd_state_free(hvd_state handle)
{
    struct state *state = states_find(handle, "hvd_state_free");
    if (state == NULL)
        return HVD_ERR_INVALID;
    if (state->runs)
        return error_set(context_error(), HVD_ERR_STATE,
                         "hvd_state_free: hvd_elastic_run uses this state; free it after that has returned");
    pthread_mutex_lock(&states.lock);
    struct state **link = &states.first;
    while (*link != state)
        link = &(*link)->next;
    *link = state->next;
    pthread_mutex_unlock(&states.lock);
    state_disk_close(state);
    commits_destroy(state->commits);
    free(state->broadcasts);
    free(state);
    return HVD_OK;
}

enum hvd_status hvd_state_add(hvd_state handle, const char *name, void *data, int64_t bytes)
{
    struct state *state = states_find(handle, "hvd_state_add");
    return state == NULL ? HVD_ERR_INVALID : commits_add(state->commits, name, data, bytes, context_error());
}

enum hvd_status hvd_state_on_reset(hvd_state handle, hvd_reset_f reset, void *arg)
{
    struct state *state = states_find(handle, "hvd_state_on_reset");
    if (state == NULL)
        return HVD_ERR_INVALID;
    state->reset = reset;
    state->reset_arg = arg;
    return HVD_OK;
}
