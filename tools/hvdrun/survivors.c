/* survivors.c: an elastic job goes on without ranks that failed, as long as enough are left, and starts them
 * again. */
#include "config.h"
#include "tools/hvdrun/survivors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/secret.h"
#include "pmix_shim/provider.h"
#include "tools/hvdrun/restarts.h"

struct slot_restarts {
    int count;        /* of restarts so far */
    int64_t start_us; /* when the next is due; SURVIVORS_NEVER: none */
};

static int make_slots(struct survivors *survivors, struct hvd_error *err)
{
    survivors->slots = calloc((size_t)survivors->size, sizeof(*survivors->slots));
    if (survivors->slots == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for an elastic job of %d ranks", survivors->size);
    for (int rank = 0; rank < survivors->size; rank++)
        survivors->slots[rank].start_us = SURVIVORS_NEVER;
    return HVD_OK;
}

int survivors_open(struct survivors *survivors, int size, const struct survivors_wish *wish,
                   char *const *environment, struct hvd_error *err)
{
    static char name[] = "hvdrun";
    uint32_t start = 0;
    if (wish->fewest == 0)
        return HVD_OK;
    if (wish->fewest > size)
        return error_set(err, HVD_ERR_INVALID, "--min-np %d: the job has only %d ranks; expected 1 to %d",
                         wish->fewest, size, size);
    int rc = provider_read_epoch(environment, &start, err);
    survivors->log = (struct hvd_log){LOG_WARN, log_to_stderr, name};
    survivors->wish = *wish;
    survivors->size = size;
    if (rc == HVD_OK)
        rc = make_slots(survivors, err);
    if (rc != HVD_OK)
        return rc;
    const struct elastic_job elastic_job = {.slots = size,
                                            .members = size,
                                            .fewest = wish->fewest,
                                            .start = start,
                                            .secret = environment_value(environment, SECRET_VARIABLE),
                                            .log = &survivors->log};
    return epoch_server_open(&survivors->server, &elastic_job, err);
}

void survivors_close(struct survivors *survivors)
{
    epoch_server_close(survivors->server);
    free(survivors->slots);
    survivors->server = NULL;
    survivors->slots = NULL;
}

/* ---- Ends ----------------------------------------------------------------------------------------- */

static bool has_failed(const struct verdict_end *end)
{
    return end->wait_status != 0 || end->stayed;
}

/* A rank has done its work, so the others do it as well. */
static void finish(struct survivors *survivors)
{
    survivors->finished++;
    epoch_server_finish(survivors->server);
    for (int rank = 0; rank < survivors->size; rank++)
        survivors->slots[rank].start_us = SURVIVORS_NEVER;
}

static void plan_restart(struct survivors *survivors, int rank)
{
    struct slot_restarts *slot = &survivors->slots[rank];
    slot->count++;
    slot->start_us = clock_us() + INT64_C(1000000) * restart_delay_s(slot->count);
    epoch_server_expect(survivors->server, rank);
}

/* [go_on]: how many ranks are left beside it. */
static void say_that_it_goes_on(const struct survivors *survivors, int rank, const struct verdict_end *end,
                                int go_on)
{
    char how[300], again[100] = "";
    const struct slot_restarts *slot = &survivors->slots[rank];
    bool waits = go_on < survivors->wish.fewest;
    verdict_describe_end(end, how, sizeof(how));
    if (slot->start_us != SURVIVORS_NEVER)
        snprintf(again, sizeof(again), "%s in %d s, restart %d of %d",
                 waits ? ", which starts again" : "; it starts again", restart_delay_s(slot->count),
                 slot->count, survivors->wish.max_restarts);
    fprintf(stderr, "hvdrun: rank %d %s; %d of %d ranks %s%s\n", rank, how, go_on, survivors->size,
            waits ? "wait for it" : "go on", again);
}

/* May the job go on without a rank that has failed? [member]: it was in the epoch. One that fails before it
 * joins the first epoch shows a fault that all may have. */
static bool goes_on(struct survivors *survivors, int rank, bool member, const struct verdict_end *end)
{
    int left = epoch_server_left(survivors->server) + survivors->finished;
    if (survivors->slots[rank].count == 0 && !end->joined)
        return false;
    if (survivors->finished > 0 && !member)
        return true; /* nobody needs it any more */
    if (survivors->finished == 0 && survivors->slots[rank].count < survivors->wish.max_restarts)
        plan_restart(survivors, rank);
    if (epoch_server_left(survivors->server) + survivors->finished < survivors->wish.fewest)
        return false;
    say_that_it_goes_on(survivors, rank, end, left);
    return true;
}

void survivors_enter(struct survivors *survivors, int rank, const struct verdict_end *end,
                     struct verdict *verdict)
{
    bool elastic = survivors->server != NULL;
    bool member = elastic && epoch_server_is_member(survivors->server, rank);
    if (elastic)
        epoch_server_lose(survivors->server, rank);
    if (!elastic || verdict_is_failure(verdict)) {
        verdict_ended(verdict, rank, end);
    } else if (!has_failed(end)) {
        verdict_ended(verdict, rank, end);
        if (member)
            finish(survivors);
    } else if (goes_on(survivors, rank, member, end)) {
        verdict_survived(verdict, rank, end);
    } else {
        verdict_gave_up(verdict);
        verdict_ended(verdict, rank, end);
    }
}

/* ---- Restarts ------------------------------------------------------------------------------------- */

/* The rank whose restart is due first; -1: none. */
static int first_to_start(const struct survivors *survivors)
{
    int first = -1;
    for (int rank = 0; survivors->slots != NULL && rank < survivors->size; rank++) {
        int64_t start_us = survivors->slots[rank].start_us;
        if (start_us != SURVIVORS_NEVER && (first < 0 || start_us < survivors->slots[first].start_us))
            first = rank;
    }
    return first;
}

int64_t survivors_start_us(const struct survivors *survivors)
{
    int rank = first_to_start(survivors);
    return rank < 0 ? SURVIVORS_NEVER : survivors->slots[rank].start_us;
}

int survivors_take_start(struct survivors *survivors)
{
    int rank = first_to_start(survivors);
    if (rank < 0 || survivors->slots[rank].start_us > clock_us())
        return -1;
    survivors->slots[rank].start_us = SURVIVORS_NEVER;
    return rank;
}

int survivors_restarts_of(const struct survivors *survivors, int rank)
{
    return survivors->slots == NULL ? 0 : survivors->slots[rank].count;
}

bool survivors_are_done(const struct survivors *survivors)
{
    return survivors->finished > 0 && epoch_server_members(survivors->server) == 0;
}
