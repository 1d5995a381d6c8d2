/* epoch_driver.c: decides the epochs of an elastic job. */
#include "elastic/epoch_driver.h"

#include <stdlib.h>

enum slot_state { SLOT_WORKS, SLOT_WAITS, SLOT_ENDED };

#define NO_MEMBER (-1) /* the rank of a newcomer */
#define NO_BEATS  (-1) /* are sent */

/* So many intervals may pass without a beat. With the next one four leases have: members on other nodes find
 * a node silent after three, and know more. */
#define BEATS_MISSED_MAX 7

/* How many processes there are that have not ended. */
struct census {
    int left, waiting; /* processes that stay */
    int members, waiting_members;
    int leaving_members;   /* of [members] */
    int waiting_newcomers; /* of [waiting] */
};

struct epoch_driver {
    int slots, fewest, most;
    bool hopes, finished;
    struct census census; /* each event keeps it: a host asks for it more often */
    uint32_t epoch;
    int size;       /* of the epoch */
    int *rank_of;   /* [slots]: in the epoch, or NO_MEMBER */
    int *slot_with; /* [slots]: with each rank of the epoch */
    bool *leaves;   /* [slots]: it has no place in the next epoch */
    int *missed;    /* [slots]: intervals since its last beat, or NO_BEATS */
    int beating;    /* how many send beats */
    enum slot_state state[];
};

/* Take [slot] into the census, with [one] of 1, or out of it, with -1. */
static void count_slot(struct epoch_driver *driver, int slot, int one)
{
    struct census *census = &driver->census;
    bool member = driver->rank_of[slot] != NO_MEMBER;
    bool waits = driver->state[slot] == SLOT_WAITS;
    bool stays = !driver->leaves[slot];
    if (driver->state[slot] == SLOT_ENDED)
        return;
    census->left += one * stays;
    census->waiting += one * (waits && stays);
    census->members += one * member;
    census->waiting_members += one * (waits && member);
    census->leaving_members += one * (!stays && member);
    census->waiting_newcomers += one * (waits && stays && !member);
}

static void count_all(struct epoch_driver *driver)
{
    driver->census = (struct census){0};
    for (int slot = 0; slot < driver->slots; slot++)
        count_slot(driver, slot, 1);
}

static void set_missed(struct epoch_driver *driver, int slot, int missed)
{
    driver->beating += (missed != NO_BEATS) - (driver->missed[slot] != NO_BEATS);
    driver->missed[slot] = missed;
}

static void set_state(struct epoch_driver *driver, int slot, enum slot_state state)
{
    set_missed(driver, slot, NO_BEATS);
    count_slot(driver, slot, -1);
    driver->state[slot] = state;
    count_slot(driver, slot, 1);
}

struct epoch_driver *epoch_driver_create(int slots, int members, int fewest)
{
    struct epoch_driver *driver = calloc(1, sizeof(*driver) + (size_t)slots * sizeof(driver->state[0]));
    if (driver == NULL)
        return NULL;
    driver->slots = driver->most = slots;
    driver->size = members;
    driver->fewest = fewest;
    driver->rank_of = calloc((size_t)slots, sizeof(*driver->rank_of));
    driver->slot_with = calloc((size_t)slots, sizeof(*driver->slot_with));
    driver->leaves = calloc((size_t)slots, sizeof(*driver->leaves));
    driver->missed = calloc((size_t)slots, sizeof(*driver->missed));
    if (driver->rank_of == NULL || driver->slot_with == NULL || driver->leaves == NULL ||
        driver->missed == NULL) {
        epoch_driver_destroy(driver);
        return NULL;
    }
    for (int slot = 0; slot < slots; slot++)
        driver->missed[slot] = NO_BEATS;
    for (int slot = 0; slot < members; slot++)
        driver->rank_of[slot] = driver->slot_with[slot] = slot;
    for (int slot = members; slot < slots; slot++) {
        driver->rank_of[slot] = NO_MEMBER;
        driver->state[slot] = SLOT_ENDED;
    }
    count_all(driver);
    return driver;
}

void epoch_driver_destroy(struct epoch_driver *driver)
{
    if (driver == NULL)
        return;
    free(driver->rank_of);
    free(driver->slot_with);
    free(driver->leaves);
    free(driver->missed);
    free(driver);
}

void epoch_driver_limit(struct epoch_driver *driver, int most)
{
    driver->most = most;
}

/* ---- Events --------------------------------------------------------------------------------------- */

void epoch_driver_ask(struct epoch_driver *driver, int slot)
{
    if (driver->state[slot] == SLOT_WORKS)
        set_state(driver, slot, SLOT_WAITS);
}

void epoch_driver_give_up(struct epoch_driver *driver, int slot)
{
    if (driver->state[slot] == SLOT_WAITS)
        set_state(driver, slot, SLOT_WORKS);
}

void epoch_driver_lose(struct epoch_driver *driver, int slot)
{
    set_state(driver, slot, SLOT_ENDED);
}

void epoch_driver_expect(struct epoch_driver *driver, int slot)
{
    set_missed(driver, slot, NO_BEATS);
    count_slot(driver, slot, -1);
    driver->state[slot] = SLOT_WORKS;
    driver->rank_of[slot] = NO_MEMBER;
    driver->leaves[slot] = false;
    count_slot(driver, slot, 1);
}

void epoch_driver_dismiss(struct epoch_driver *driver, int slot, bool leaves)
{
    count_slot(driver, slot, -1);
    driver->leaves[slot] = leaves;
    count_slot(driver, slot, 1);
}

void epoch_driver_hope(struct epoch_driver *driver, bool hopes)
{
    driver->hopes = hopes;
}

void epoch_driver_finish(struct epoch_driver *driver)
{
    driver->finished = true;
}

/* ---- Beats ---------------------------------------------------------------------------------------- */

void epoch_driver_hear(struct epoch_driver *driver, int slot)
{
    if (driver->state[slot] == SLOT_WORKS)
        set_missed(driver, slot, 0);
}

void epoch_driver_hush(struct epoch_driver *driver, int slot)
{
    set_missed(driver, slot, NO_BEATS);
}

void epoch_driver_count_beats(struct epoch_driver *driver)
{
    for (int slot = 0; slot < driver->slots; slot++)
        driver->missed[slot] += driver->missed[slot] != NO_BEATS && driver->missed[slot] <= BEATS_MISSED_MAX;
}

bool epoch_driver_is_silent(const struct epoch_driver *driver, int slot)
{
    return driver->missed[slot] > BEATS_MISSED_MAX;
}

bool epoch_driver_has_beats(const struct epoch_driver *driver)
{
    return driver->beating > 0;
}

/* ---- Who is left ---------------------------------------------------------------------------------- */

int epoch_driver_left(const struct epoch_driver *driver)
{
    return driver->census.left;
}

bool epoch_driver_has(const struct epoch_driver *driver, int slot)
{
    return driver->state[slot] != SLOT_ENDED;
}

bool epoch_driver_waits(const struct epoch_driver *driver, int slot)
{
    return driver->state[slot] == SLOT_WAITS;
}

bool epoch_driver_is_on_its_way(const struct epoch_driver *driver, int slot)
{
    return driver->state[slot] == SLOT_WORKS && driver->rank_of[slot] == NO_MEMBER;
}

int epoch_driver_members(const struct epoch_driver *driver)
{
    return driver->census.members;
}

int epoch_driver_waiting(const struct epoch_driver *driver)
{
    return driver->census.waiting;
}

int epoch_driver_waiting_members(const struct epoch_driver *driver)
{
    return driver->census.waiting_members;
}

bool epoch_driver_has_news(const struct epoch_driver *driver)
{
    const struct census *census = &driver->census;
    bool has_room = census->members - census->leaving_members < driver->most;
    return !driver->finished && census->members > census->leaving_members &&
           (census->leaving_members > 0 || (has_room && census->waiting_newcomers > 0));
}

/* ---- Decisions ------------------------------------------------------------------------------------ */

static void add_member(struct epoch_driver *driver, int slot)
{
    driver->rank_of[slot] = driver->size;
    driver->slot_with[driver->size++] = slot;
}

static bool is_to_join(const struct epoch_driver *driver, int slot)
{
    return driver->state[slot] == SLOT_WAITS && !driver->leaves[slot];
}

/* The processes that wait are the next epoch: first its members, in their order. */
static void begin_epoch(struct epoch_driver *driver)
{
    int old_size = driver->size;
    driver->epoch++;
    driver->size = 0;
    for (int rank = 0; rank < old_size; rank++) {
        int slot = driver->slot_with[rank];
        if (driver->rank_of[slot] == rank && is_to_join(driver, slot))
            add_member(driver, slot);
    }
    for (int slot = 0; slot < driver->slots; slot++) {
        if (driver->state[slot] == SLOT_ENDED || driver->leaves[slot])
            driver->rank_of[slot] = NO_MEMBER;
        else if (driver->rank_of[slot] == NO_MEMBER && is_to_join(driver, slot) &&
                 driver->size < driver->most)
            add_member(driver, slot);
    }
    count_all(driver);
}

static void end_waiting(struct epoch_driver *driver, enum epoch_decision decision)
{
    for (int slot = 0; slot < driver->slots; slot++)
        if (decision != EPOCH_BEGINS || driver->rank_of[slot] != NO_MEMBER)
            epoch_driver_give_up(driver, slot);
}

/* Members work, or have begun to end, as their work is done. */
static bool only_spares_wait(const struct epoch_driver *driver)
{
    return driver->most < driver->slots && driver->epoch > 0 && driver->census.waiting_members == 0;
}

/* If no member is left, all newcomers begin together, as the processes of epoch 0 did. */
static bool may_begin(const struct epoch_driver *driver)
{
    const struct census *census = &driver->census;
    int needed = census->members > 0 || census->left < driver->fewest ? driver->fewest : census->left;
    return census->waiting_members == census->members && census->waiting >= needed;
}

enum epoch_decision epoch_driver_decide(struct epoch_driver *driver)
{
    const struct census *census = &driver->census;
    enum epoch_decision decision = EPOCH_WAITS;
    if (census->waiting == 0 || (driver->finished && census->waiting_members == 0))
        return decision;
    if (only_spares_wait(driver)) /* who do not begin the work again */
        decision = census->members == 0 ? EPOCH_IS_LAST : EPOCH_WAITS;
    else if (census->left < driver->fewest && !driver->hopes)
        decision = EPOCH_REFUSES;
    else if (may_begin(driver))
        decision = EPOCH_BEGINS;
    if (decision == EPOCH_BEGINS)
        begin_epoch(driver);
    if (decision != EPOCH_WAITS)
        end_waiting(driver, decision);
    return decision;
}

uint32_t epoch_driver_epoch(const struct epoch_driver *driver)
{
    return driver->epoch;
}

int epoch_driver_size(const struct epoch_driver *driver)
{
    return driver->size;
}

int epoch_driver_rank(const struct epoch_driver *driver, int slot)
{
    return driver->rank_of[slot];
}

int epoch_driver_slot(const struct epoch_driver *driver, int rank)
{
    return driver->slot_with[rank];
}
