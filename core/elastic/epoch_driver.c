/* epoch_driver.c: decides the epochs of an elastic job. */
#include "elastic/epoch_driver.h"

#include <stdlib.h>

enum slot_state { SLOT_WORKS, SLOT_WAITS, SLOT_ENDED };

#define NO_MEMBER (-1) /* the rank of a newcomer */

struct epoch_driver {
    int slots, fewest, most;
    bool finished;
    uint32_t epoch;
    int size;       /* of the epoch */
    int *rank_of;   /* [slots]: in the epoch, or NO_MEMBER */
    int *slot_with; /* [slots]: with each rank of the epoch */
    enum slot_state state[];
};

struct epoch_driver *epoch_driver_create(int slots, int fewest)
{
    struct epoch_driver *driver = calloc(1, sizeof(*driver) + (size_t)slots * sizeof(driver->state[0]));
    if (driver == NULL)
        return NULL;
    driver->slots = driver->size = driver->most = slots;
    driver->fewest = fewest;
    driver->rank_of = calloc((size_t)slots, sizeof(*driver->rank_of));
    driver->slot_with = calloc((size_t)slots, sizeof(*driver->slot_with));
    if (driver->rank_of == NULL || driver->slot_with == NULL) {
        epoch_driver_destroy(driver);
        return NULL;
    }
    for (int slot = 0; slot < slots; slot++)
        driver->rank_of[slot] = driver->slot_with[slot] = slot;
    return driver;
}

void epoch_driver_destroy(struct epoch_driver *driver)
{
    if (driver == NULL)
        return;
    free(driver->rank_of);
    free(driver->slot_with);
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
        driver->state[slot] = SLOT_WAITS;
}

void epoch_driver_give_up(struct epoch_driver *driver, int slot)
{
    if (driver->state[slot] == SLOT_WAITS)
        driver->state[slot] = SLOT_WORKS;
}

void epoch_driver_lose(struct epoch_driver *driver, int slot)
{
    driver->state[slot] = SLOT_ENDED;
}

void epoch_driver_expect(struct epoch_driver *driver, int slot)
{
    driver->state[slot] = SLOT_WORKS;
    driver->rank_of[slot] = NO_MEMBER;
}

void epoch_driver_finish(struct epoch_driver *driver)
{
    driver->finished = true;
}

/* ---- Who is left ---------------------------------------------------------------------------------- */

struct census {
    int left, members; /* processes; of them members */
    int waiting, waiting_members;
};

static struct census count(const struct epoch_driver *driver)
{
    struct census census = {0};
    for (int slot = 0; slot < driver->slots; slot++) {
        bool member = driver->rank_of[slot] != NO_MEMBER;
        bool waits = driver->state[slot] == SLOT_WAITS;
        if (driver->state[slot] == SLOT_ENDED)
            continue;
        census.left++;
        census.members += member;
        census.waiting += waits;
        census.waiting_members += waits && member;
    }
    return census;
}

int epoch_driver_left(const struct epoch_driver *driver)
{
    return count(driver).left;
}

bool epoch_driver_has(const struct epoch_driver *driver, int slot)
{
    return driver->state[slot] != SLOT_ENDED;
}

int epoch_driver_members(const struct epoch_driver *driver)
{
    return count(driver).members;
}

bool epoch_driver_has_news(const struct epoch_driver *driver)
{
    struct census census = count(driver);
    return !driver->finished && census.members > 0 && census.members < driver->most &&
           census.waiting > census.waiting_members;
}

/* ---- Decisions ------------------------------------------------------------------------------------ */

static void add_member(struct epoch_driver *driver, int slot)
{
    driver->rank_of[slot] = driver->size;
    driver->slot_with[driver->size++] = slot;
}

/* The processes that wait are the next epoch: first its members, in their order. */
static void begin_epoch(struct epoch_driver *driver)
{
    int old_size = driver->size;
    driver->epoch++;
    driver->size = 0;
    for (int rank = 0; rank < old_size; rank++) {
        int slot = driver->slot_with[rank];
        if (driver->rank_of[slot] == rank && driver->state[slot] == SLOT_WAITS)
            add_member(driver, slot);
    }
    for (int slot = 0; slot < driver->slots; slot++) {
        if (driver->state[slot] == SLOT_ENDED)
            driver->rank_of[slot] = NO_MEMBER;
        else if (driver->rank_of[slot] == NO_MEMBER && driver->state[slot] == SLOT_WAITS &&
                 driver->size < driver->most)
            add_member(driver, slot);
    }
}

static void end_waiting(struct epoch_driver *driver, enum epoch_decision decision)
{
    for (int slot = 0; slot < driver->slots; slot++)
        if (decision != EPOCH_BEGINS || driver->rank_of[slot] != NO_MEMBER)
            epoch_driver_give_up(driver, slot);
}

/* Members work, or have begun to end, as their work is done. */
static bool only_spares_wait(const struct epoch_driver *driver, const struct census *census)
{
    return driver->most < driver->slots && driver->epoch > 0 && census->waiting_members == 0;
}

/* If no member is left, all newcomers begin together, as the processes of epoch 0 did. */
static bool may_begin(const struct epoch_driver *driver, const struct census *census)
{
    int needed = census->members > 0 ? driver->fewest : census->left;
    return census->waiting_members == census->members && census->waiting >= needed;
}

enum epoch_decision epoch_driver_decide(struct epoch_driver *driver)
{
    struct census census = count(driver);
    enum epoch_decision decision = EPOCH_WAITS;
    if (census.waiting == 0 || (driver->finished && census.waiting_members == 0))
        return decision;
    if (only_spares_wait(driver, &census)) /* who do not begin the work again */
        decision = census.members == 0 ? EPOCH_IS_LAST : EPOCH_WAITS;
    else if (census.left < driver->fewest)
        decision = EPOCH_REFUSES;
    else if (may_begin(driver, &census))
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
