/* survivors.c: an elastic job goes on without ranks that failed, as long as enough are left, and starts them
 * again. It grows into empty slots when hosts have more of them, and leaves slots that hosts have no more. */
#include "config.h"
#include "tools/hvdrun/survivors.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/secret.h"
#include "options/parse.h"
#include "pmix_shim/provider.h"
#include "tools/hvdrun/restarts.h"

#define GATHER_US INT64_C(10000000) /* how long newcomers wait for others that were started with them */

struct survivor_slot {
    enum {
        SLOT_EMPTY, /* a rank may be started in it when there is room */
        SLOT_USED,  /* by a process that runs, or that will be started */
        SLOT_PARTS, /* there is no room for its process, which is to leave when all ranks part */
        SLOT_LEFT,  /* and which has left, and is to end */
        SLOT_OVER   /* its rank has done its work, or failed for the last time */
    } use;
    bool late;        /* its process, if it is not a restart, was started after the start of the job */
    int restarts;     /* so far */
    int64_t start_us; /* when a process is due to be started; SURVIVORS_NEVER: none */
    int64_t begun_us; /* when the last newcomer was started */
    int64_t end_us;   /* PARTS: when it must end at the latest; LEFT: when its process is due to be signalled;
                         SURVIVORS_NEVER: no more */
    bool told;        /* LEFT: by SIGTERM */
};

static int make_slots(struct survivors *survivors, struct hvd_error *err)
{
    const struct survivors_wish *wish = &survivors->wish;
    survivors->slots = calloc((size_t)wish->slots, sizeof(*survivors->slots));
    survivors->room = calloc((size_t)wish->slots, sizeof(*survivors->room));
    if (survivors->slots == NULL || survivors->room == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for an elastic job of %d ranks", wish->slots);
    for (int rank = 0; rank < wish->slots; rank++) {
        survivors->slots[rank].use = rank < wish->size ? SLOT_USED : SLOT_EMPTY;
        survivors->slots[rank].start_us = survivors->slots[rank].end_us = SURVIVORS_NEVER;
        survivors->room[rank] = rank < wish->size;
    }
    return HVD_OK;
}

int survivors_open(struct survivors *survivors, const struct survivors_wish *wish, char *const *environment,
                   struct hvd_error *err)
{
    static char name[] = "hvdrun";
    uint32_t start = 0;
    if (wish->fewest == 0)
        return HVD_OK;
    if (wish->fewest > wish->size)
        return error_set(err, HVD_ERR_INVALID, "--min-np %d: the job has only %d ranks; expected 1 to %d",
                         wish->fewest, wish->size, wish->size);
    int rc = provider_read_epoch(environment, &start, err);
    survivors->log = (struct hvd_log){LOG_WARN, log_to_stderr, name};
    survivors->wish = *wish;
    survivors->places = wish->size; /* until something says that hosts have other slots */
    survivors->short_us = SURVIVORS_NEVER;
    if (rc == HVD_OK)
        rc = make_slots(survivors, err);
    if (rc != HVD_OK)
        return rc;
    const struct elastic_job elastic_job = {.slots = wish->slots,
                                            .members = wish->size,
                                            .fewest = wish->fewest,
                                            .start = start,
                                            .secret = environment_value(environment, SECRET_VARIABLE),
                                            .limits_waits = true,
                                            .all_ask = wish->has_agents,
                                            .has_agents = wish->has_agents,
                                            .log = &survivors->log};
    return epoch_server_open(&survivors->server, &elastic_job, err);
}

void survivors_close(struct survivors *survivors)
{
    epoch_server_close(survivors->server);
    free(survivors->slots);
    free(survivors->room);
    survivors->server = NULL;
    survivors->slots = NULL;
    survivors->room = NULL;
}

static int count_slots(const struct survivors *survivors, unsigned uses)
{
    int count = 0;
    for (int rank = 0; rank < survivors->wish.slots; rank++)
        count += (uses >> survivors->slots[rank].use) & 1;
    return count;
}

#define USE(use) (1u << (use))

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* ---- Room --------------------------------------------------------------------------------------- */

/* May ranks come that nothing is known of yet? */
static bool may_grow(const struct survivors *survivors)
{
    bool may_come =
        survivors->wish.may_grow || survivors->cooldown.until_us != 0 || survivors->free_places > 0;
    return may_come && survivors->finished == 0 &&
           count_slots(survivors, USE(SLOT_EMPTY) | USE(SLOT_PARTS) | USE(SLOT_LEFT)) > 0;
}

static int fill_empty_slots(struct survivors *survivors)
{
    int count = 0;
    if (survivors->cooldown.until_us != 0)
        return 0;
    for (int rank = 0; rank < survivors->wish.slots; rank++) {
        struct survivor_slot *slot = &survivors->slots[rank];
        if (slot->use != SLOT_EMPTY || !survivors->room[rank])
            continue;
        slot->use = SLOT_USED;
        slot->late = true;
        slot->start_us = clock_us();
        epoch_server_expect(survivors->server, rank);
        count++;
    }
    return count;
}

static void leave_slot(struct survivors *survivors, int rank)
{
    struct survivor_slot *slot = &survivors->slots[rank];
    if (slot->start_us == SURVIVORS_NEVER) {
        slot->use = SLOT_PARTS;
        slot->end_us = clock_us() + survivors->wish.timeout_us;
        epoch_server_dismiss(survivors->server, rank, true);
        return;
    }
    slot->use = SLOT_EMPTY; /* there is no process yet */
    slot->start_us = SURVIVORS_NEVER;
    epoch_server_lose(survivors->server, rank);
}

/* May this rank leave? Enough must be left; if it is in the epoch, enough of those, as newcomers have no
 * state yet. */
static bool may_leave(const struct survivors *survivors, int rank)
{
    int members = 0;
    bool is_member = epoch_server_is_member(survivors->server, rank);
    for (int other = 0; other < survivors->wish.slots; other++)
        members +=
            survivors->slots[other].use == SLOT_USED && epoch_server_is_member(survivors->server, other);
    return survivors->slots[rank].use == SLOT_USED &&
           count_slots(survivors, USE(SLOT_USED)) > survivors->wish.fewest &&
           (!is_member || members > survivors->wish.fewest);
}

static int leave_slots(struct survivors *survivors)
{
    int count = 0;
    for (int rank = survivors->wish.slots - 1; rank >= 0; rank--) {
        if (survivors->room[rank] || !may_leave(survivors, rank))
            continue;
        leave_slot(survivors, rank);
        count++;
    }
    return count;
}

/* Ranks that have not left yet stay, if there is room for them or if they are needed again. */
static void keep_slots(struct survivors *survivors)
{
    for (int rank = 0; rank < survivors->wish.slots; rank++) {
        struct survivor_slot *slot = &survivors->slots[rank];
        bool needed = count_slots(survivors, USE(SLOT_USED)) < survivors->wish.fewest;
        if (slot->use != SLOT_PARTS || (!survivors->room[rank] && !needed))
            continue;
        slot->use = SLOT_USED;
        epoch_server_dismiss(survivors->server, rank, false);
    }
}

/* Use the slots that there are, and no others as long as enough ranks are left. */
static void fit(struct survivors *survivors)
{
    int places = survivors->places;
    if (survivors->finished > 0)
        return;
    keep_slots(survivors);
    int more = fill_empty_slots(survivors);
    int fewer = leave_slots(survivors);
    if (more > 0)
        fprintf(stderr, "hvdrun: the hosts have %d slot%s; %d more rank%s\n", places, plural(places), more,
                more == 1 ? " starts" : "s start");
    if (fewer > 0)
        fprintf(stderr, "hvdrun: the hosts have %d slot%s; %d rank%s\n", places, plural(places), fewer,
                fewer == 1 ? " leaves" : "s leave");
    epoch_server_hope(survivors->server, may_grow(survivors));
}

void survivors_fit(struct survivors *survivors, const bool *room, int places, int free_places)
{
    size_t room_bytes = (size_t)survivors->wish.slots * sizeof(*room);
    bool same = places == survivors->places && memcmp(room, survivors->room, room_bytes) == 0;
    survivors->free_places = free_places;
    if (same)
        return;
    survivors->places = places;
    memcpy(survivors->room, room, room_bytes);
    fit(survivors);
}

void survivors_lose_room(struct survivors *survivors, int slot, int free_places)
{
    survivors->room[slot] = false;
    survivors->free_places = free_places;
}

void survivors_resize(struct survivors *survivors, int places)
{
    if (survivors->server == NULL || places == survivors->places)
        return;
    survivors->places = places;
    for (int rank = 0; rank < survivors->wish.slots; rank++)
        survivors->room[rank] = rank < places;
    fit(survivors);
}

void survivors_begin_with(struct survivors *survivors, int size)
{
    for (int rank = size; rank < survivors->wish.size; rank++) {
        survivors->slots[rank].use = SLOT_EMPTY;
        epoch_server_lose(survivors->server, rank);
    }
    survivors->wish.size = size;
}

bool survivors_use(const struct survivors *survivors, int slot)
{
    return survivors->slots[slot].use != SLOT_EMPTY;
}

/* End the ranks that are in no epoch any more, or from which the others have not parted in time. */
static void end_leavers(struct survivors *survivors)
{
    int64_t now_us = clock_us();
    for (int rank = 0; rank < survivors->wish.slots; rank++) {
        struct survivor_slot *slot = &survivors->slots[rank];
        if (slot->use != SLOT_PARTS ||
            (epoch_server_is_member(survivors->server, rank) && now_us < slot->end_us))
            continue;
        slot->use = SLOT_LEFT;
        slot->told = false;
        slot->end_us = now_us;
    }
}

int survivors_take_signal(struct survivors *survivors, int *signalp)
{
    int64_t now_us = clock_us();
    int silent = survivors->server == NULL ? -1 : epoch_server_take_silent(survivors->server);
    if (silent >= 0) {
        *signalp = SIGKILL;
        return silent;
    }
    for (int rank = 0; survivors->slots != NULL && rank < survivors->wish.slots; rank++) {
        struct survivor_slot *slot = &survivors->slots[rank];
        if (slot->use != SLOT_LEFT || slot->end_us > now_us)
            continue;
        *signalp = slot->told ? SIGKILL : SIGTERM;
        slot->end_us = slot->told ? SURVIVORS_NEVER : now_us + survivors->wish.grace_us;
        slot->told = true;
        return rank;
    }
    return -1;
}

/* ---- Ends ----------------------------------------------------------------------------------------- */

static bool has_failed(const struct verdict_end *end)
{
    return end->wait_status != 0 || end->stayed;
}

bool survivors_see_loss(const struct survivors *survivors, int rank, const struct verdict_end *end)
{
    if (survivors->server == NULL)
        return end->stage == VERDICT_RUNNING && end->wait_status != 0;
    return end->stage == VERDICT_RUNNING && survivors->slots[rank].use != SLOT_LEFT && has_failed(end);
}

/* A rank has done its work, so the others do it as well. */
static void finish(struct survivors *survivors)
{
    survivors->finished++;
    epoch_server_finish(survivors->server);
    for (int rank = 0; rank < survivors->wish.slots; rank++)
        survivors->slots[rank].start_us = SURVIVORS_NEVER;
}

static void plan_restart(struct survivors *survivors, int rank)
{
    struct survivor_slot *slot = &survivors->slots[rank];
    slot->use = SLOT_USED;
    slot->restarts++;
    slot->start_us = clock_us() + INT64_C(1000000) * restart_delay_s(slot->restarts);
    epoch_server_expect(survivors->server, rank);
}

/* [go_on]: how many ranks are left beside it, of [all] that there were. */
static void say_that_it_goes_on(const struct survivors *survivors, int rank, const struct verdict_end *end,
                                int go_on, int all)
{
    char how[300], again[100] = "", cooldown[32];
    const struct survivor_slot *slot = &survivors->slots[rank];
    bool waits = go_on < survivors->wish.fewest;
    bool starts = slot->start_us != SURVIVORS_NEVER;
    verdict_describe_end(end, how, sizeof(how));
    if (starts)
        snprintf(again, sizeof(again), "%s in %d s, restart %d of %d",
                 waits ? ", which starts again" : "; it starts again", restart_delay_s(slot->restarts),
                 slot->restarts, survivors->wish.max_restarts);
    if (survivors->cooldown.until_us != 0) {
        format_time(survivors->cooldown.time_us, cooldown, sizeof(cooldown));
        snprintf(again, sizeof(again), "; this host is left out for %s", cooldown);
    }
    fprintf(stderr, "hvdrun: rank %d %s; %d of %d ranks %s%s\n", rank, how, go_on, all,
            !waits   ? "go on"
            : starts ? "wait for it"
                     : "wait for others",
            again);
}

/* The slot may have another process when the host is not left out any more. Agents know their hosts. */
static void empty_slot(struct survivors *survivors, int rank)
{
    survivors->slots[rank].use = SLOT_EMPTY;
    survivors->slots[rank].restarts++;
    if (!survivors->wish.has_agents)
        cooldown_begin(&survivors->cooldown, &survivors->wish.cooldown, clock_us());
}

/* What becomes of the slot of a rank that has failed. One that was lost with its host is no failure of its
 * own: another one may take its place elsewhere. */
static void free_slot(struct survivors *survivors, int rank, bool host_lost)
{
    struct survivor_slot *slot = &survivors->slots[rank];
    if (survivors->wish.cooldown.low_us > 0 && survivors->finished == 0) {
        empty_slot(survivors, rank);
        return;
    }
    bool needed = survivors->room[rank] || epoch_server_left(survivors->server) < survivors->wish.fewest;
    needed = needed && !host_lost;
    slot->use = needed || survivors->finished > 0 ? SLOT_OVER : SLOT_EMPTY;
    if (survivors->finished == 0 && needed && slot->restarts < survivors->wish.max_restarts)
        plan_restart(survivors, rank);
}

/* If all have failed, newcomers would too, unless it was the host that failed. */
static bool enough_are_left(const struct survivors *survivors, bool host_lost)
{
    int left = epoch_server_left(survivors->server) + survivors->finished;
    return left >= survivors->wish.fewest || ((left > 0 || host_lost) && may_grow(survivors));
}

/* Ranks that are still to be started again, beside [rank]: they count as left, but do nothing. */
static int count_failed_before(const struct survivors *survivors, int rank)
{
    int count = 0;
    for (int other = 0; other < survivors->wish.slots; other++) {
        const struct survivor_slot *slot = &survivors->slots[other];
        count += other != rank && slot->restarts > 0 && slot->start_us != SURVIVORS_NEVER;
    }
    return count;
}

/* May the job go on without a rank that has failed? [member]: it was in the epoch, or is on its way from that
 * to the next one. One that fails before it joins the first epoch shows a fault that all may have. */
static bool goes_on(struct survivors *survivors, int rank, bool member, const struct verdict_end *end)
{
    int left = epoch_server_left(survivors->server) + survivors->finished;
    int all = survivors->wish.slots - count_slots(survivors, USE(SLOT_EMPTY));
    if (!survivors_is_newcomer(survivors, rank) && !member && !end->joined)
        return false;
    free_slot(survivors, rank, end->host_lost);
    if (survivors->finished > 0 && !member)
        return true; /* nobody needs it any more */
    if (!enough_are_left(survivors, end->host_lost))
        return false;
    say_that_it_goes_on(survivors, rank, end, left - count_failed_before(survivors, rank), all);
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
    } else if (survivors->slots[rank].use == SLOT_LEFT) {
        survivors->slots[rank].use = SLOT_EMPTY;
        verdict_left(verdict, rank);
    } else if (!has_failed(end)) {
        survivors->slots[rank].use = SLOT_OVER;
        verdict_ended(verdict, rank, end);
        if (member)
            finish(survivors);
    } else if (goes_on(survivors, rank, member, end)) {
        verdict_survived(verdict, rank, end);
    } else {
        verdict_gave_up(verdict);
        verdict_ended(verdict, rank, end);
    }
    if (elastic && !verdict_is_failure(verdict))
        fit(survivors);
}

/* ---- Starts --------------------------------------------------------------------------------------- */

/* The rank whose start is due first; -1: none. */
static int first_to_start(const struct survivors *survivors)
{
    int first = -1;
    for (int rank = 0; survivors->slots != NULL && rank < survivors->wish.slots; rank++) {
        int64_t start_us = survivors->slots[rank].start_us;
        if (start_us != SURVIVORS_NEVER && (first < 0 || start_us < survivors->slots[first].start_us))
            first = rank;
    }
    return first;
}

bool survivors_will_start(const struct survivors *survivors)
{
    return first_to_start(survivors) >= 0;
}

int survivors_take_start(struct survivors *survivors)
{
    int rank = first_to_start(survivors);
    int64_t now_us = clock_us();
    if (rank < 0 || survivors->slots[rank].start_us > now_us)
        return -1;
    survivors->slots[rank].start_us = SURVIVORS_NEVER;
    survivors->slots[rank].begun_us = now_us;
    return rank;
}

bool survivors_is_newcomer(const struct survivors *survivors, int rank)
{
    return survivors->slots != NULL && (survivors->slots[rank].late || survivors->slots[rank].restarts > 0);
}

int survivors_restarts_of(const struct survivors *survivors, int rank)
{
    return survivors->slots == NULL ? 0 : survivors->slots[rank].restarts;
}

bool survivors_are_done(const struct survivors *survivors)
{
    return survivors->finished > 0 && epoch_server_members(survivors->server) == 0;
}

/* ---- Epochs --------------------------------------------------------------------------------------- */

/* Until when those that wait to join wait for this one, so that the others part once for all of them. 0: they
 * do not. */
static int64_t gathered_us(const struct survivors *survivors, int rank)
{
    const struct survivor_slot *slot = &survivors->slots[rank];
    if (!epoch_server_is_on_its_way(survivors->server, rank))
        return 0;
    if (slot->start_us == SURVIVORS_NEVER)
        return slot->begun_us + GATHER_US;
    return slot->start_us <= clock_us() ? slot->start_us + GATHER_US : 0;
}

/* Returns when the last one of them is given up, 0 if there is none. */
static int64_t all_gathered_us(const struct survivors *survivors)
{
    int64_t last_us = 0;
    for (int rank = 0; rank < survivors->wish.slots; rank++) {
        int64_t until_us = gathered_us(survivors, rank);
        last_us = until_us > clock_us() && until_us > last_us ? until_us : last_us;
    }
    return last_us;
}

static void gather(struct survivors *survivors)
{
    bool held = survivors->holds_news;
    survivors->holds_news = all_gathered_us(survivors) > 0;
    epoch_server_hold_news(survivors->server, survivors->holds_news);
    if (held && !survivors->holds_news)
        epoch_server_work(survivors->server);
}

/* The epoch is too small for its members to go on. */
static void watch_size(struct survivors *survivors, struct verdict *verdict)
{
    char text[256], timeout[32];
    const struct survivors_wish *wish = &survivors->wish;
    int members = epoch_server_members(survivors->server);
    if (survivors->finished > 0 || members >= wish->fewest)
        survivors->short_us = SURVIVORS_NEVER;
    else if (survivors->short_us == SURVIVORS_NEVER)
        survivors->short_us = clock_us();
    if (survivors->short_us == SURVIVORS_NEVER || clock_us() - survivors->short_us < wish->timeout_us)
        return;
    format_time(wish->timeout_us, timeout, sizeof(timeout));
    snprintf(text, sizeof(text),
             "%d rank%s left, fewer than --min-np=%d, and too few others have joined within %s "
             "(--elastic-timeout)",
             members, members == 1 ? " is" : "s are", wish->fewest, timeout);
    verdict_lacks(verdict, text);
}

static void watch_changes(const struct survivors *survivors, struct verdict *verdict)
{
    char text[128];
    int64_t limit = survivors->wish.reset_limit;
    int64_t first = survivors->wish.has_agents ? 1 : 0; /* the first epoch */
    if (limit == 0 || epoch_server_epoch(survivors->server) <= limit + first)
        return;
    snprintf(text, sizeof(text), "the ranks of the job have changed more than %lld time%s (--reset-limit)",
             (long long)limit, limit == 1 ? "" : "s");
    verdict_broken(verdict, text);
}

void survivors_work(struct survivors *survivors, struct verdict *verdict)
{
    if (survivors->server == NULL)
        return;
    epoch_server_work(survivors->server);
    gather(survivors);
    if (epoch_server_epoch(survivors->server) != survivors->epoch && !verdict_is_failure(verdict)) {
        survivors->epoch = epoch_server_epoch(survivors->server);
        fit(survivors); /* members may leave now that others have joined */
    }
    if (cooldown_ends(&survivors->cooldown, clock_us()) && !verdict_is_failure(verdict))
        fit(survivors);
    end_leavers(survivors);
    watch_size(survivors, verdict);
    watch_changes(survivors, verdict);
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

int64_t survivors_due_us(const struct survivors *survivors)
{
    if (survivors->server == NULL)
        return SURVIVORS_NEVER;
    int64_t due_us = epoch_server_silent_us(survivors->server);
    for (int rank = 0; rank < survivors->wish.slots; rank++) {
        const struct survivor_slot *slot = &survivors->slots[rank];
        due_us = sooner(due_us, slot->start_us);
        if (slot->use == SLOT_PARTS || slot->use == SLOT_LEFT)
            due_us = sooner(due_us, slot->end_us);
    }
    if (survivors->cooldown.until_us != 0)
        due_us = sooner(due_us, survivors->cooldown.until_us);
    if (survivors->short_us != SURVIVORS_NEVER)
        due_us = sooner(due_us, survivors->short_us + survivors->wish.timeout_us);
    return survivors->holds_news ? sooner(due_us, all_gathered_us(survivors)) : due_us;
}
