/* epoch_driver.c: decides the epochs of an elastic job. */
#include "elastic/epoch_driver.h"

#include <stdlib.h>

enum slot_state { SLOT_WORKS, SLOT_WAITS, SLOT_ENDED };

#define NO_MEMBER (-1) /* the rank of a newcomer */

struct epoch_driver {
    int slots, fewest, most;
    bool hopes, finished;
    uint32_t epoch;
    int size;       /* of the epoch */
    int *rank_of;   /* [slots]: in the epoch, or NO_MEMBER */
    int *slot_with; /* [slots]: with each rank of the epoch */
    bool *leaves;   /* [slots]: it has no place in the next epoch */
    enum slot_state state[];
};

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
    if (driver->rank_of == NULL || driver->slot_with == NULL || driver->leaves == NULL) {
        epoch_driver_destroy(driver);
        return NULL;
    }
    for (int slot = 0; slot < members; slot++)
        driver->rank_of[slot] = driver->slot_with[slot] = slot;
    for (int slot = members; slot < slots; slot++) {
        driver->rank_of[slot] = NO_MEMBER;
        driver->state[slot] = SLOT_ENDED;
    }
    return driver;
}

void epoch_driver_destroy(struct epoch_driver *driver)
{
    if (driver == NULL)
        return;
    free(driver->rank_of);
    free(driver->slot_with);
    free(driver->leaves);
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
    driver->leaves[slot] = false;
}

void epoch_driver_dismiss(struct epoch_driver *driver, int slot, bool leaves)
{
    driver->leaves[slot] = leaves;
}

void epoch_driver_hope(struct epoch_driver *driver, bool hopes)
{
    driver->hopes = hopes;
}

void epoch_driver_finish(struct epoch_driver *driver)
{
    driver->finished = true;
}

/* ---- Who is left ---------------------------------------------------------------------------------- */

struct census {
    int left, waiting; /* processes that stay */
    int members, waiting_members;
    int leaving_members; /* of [members] */
};

static struct census count(const struct epoch_driver *driver)
{
    struct census census = {0};
    for (int slot = 0; slot < driver->slots; slot++) {
        bool member = driver->rank_of[slot] != NO_MEMBER;
        bool waits = driver->state[slot] == SLOT_WAITS;
        bool stays = !driver->leaves[slot];
        if (driver->state[slot] == SLOT_ENDED)
            continue;
        census.left += stays;
        census.waiting += waits && stays;
        census.members += member;
        census.waiting_members += waits && member;
        census.leaving_members += !stays && member;
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
    return count(driver).members;
}

int epoch_driver_waiting(const struct epoch_driver *driver)
{
    return count(driver).waiting;
}

int epoch_driver_waiting_members(const struct epoch_driver *driver)
{
    return count(driver).waiting_members;
}

bool epoch_driver_has_news(const struct epoch_driver *driver)
{
    int newcomers = 0;
    struct census census = count(driver);
    for (int slot = 0; slot < driver->slots; slot++)
        newcomers +=
            driver->rank_of[slot] == NO_MEMBER && driver->state[slot] == SLOT_WAITS && !driver->leaves[slot];
    bool has_room = census.members - census.leaving_members < driver->most;
    return !driver->finished && census.members > census.leaving_members &&
           (census.leaving_members > 0 || (has_room && newcomers > 0));
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
    int needed = census->members > 0 || census->left < driver->fewest ? driver->fewest : census->left;
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
    else if (census.left < driver->fewest && !driver->hopes)
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

int epoch_driver_slot(const struct epoch_driver *driver, int rank)
{
    return driver->slot_with[rank];
}
