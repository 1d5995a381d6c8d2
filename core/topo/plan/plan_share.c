/* plan_share.c: how units are divided: evenly, disjointly, and across as few domains as can be. */
#include "topo/plan/plan_state.h"

int unit_domain(const struct placing *placing, int unit, int level)
{
    int core = placing->units[unit].core;
    return level == DOMAIN_KINDS ? core : placing->machine->cores[core].domain[placing->levels[level]];
}

int span_run(const struct placing *placing, struct span units, int level)
{
    int run = 1;
    int domain = unit_domain(placing, units.items[0], level);
    while (run < units.count && unit_domain(placing, units.items[run], level) == domain)
        run++;
    return run;
}

struct span share_free(const struct placing *placing, const struct bitset *cpus, int *to)
{
    struct span free = {to, 0};
    for (int i = 0; i < placing->unit_count; i++)
        if (placing->units[i].owner == FREE && unit_in(&placing->units[i], cpus))
            to[free.count++] = i;
    return free;
}

/* ---- In proportion ---- */

static int parties_between(const struct placing *placing, int first_unit, int last_unit)
{
    int count = 0;
    for (int i = 0; i < placing->party_count; i++)
        count += placing->parties[i].first_unit >= first_unit && placing->parties[i].first_unit <= last_unit;
    return count;
}

/* Each in turn goes where there are then the most units for one: the method of d'Hondt. */
void share_apportion(const struct placing *placing, struct span units, int count, int level, int base)
{
    int *counts = placing->counts[level];
    for (int i = 0, at = 0; at < units.count; i++) {
        counts[i] = 0;
        at += span_run(placing, (struct span){units.items + at, units.count - at}, level);
    }
    for (; count > 0; count--) {
        int best = -1, best_size = 0, best_users = 1;
        for (int i = 0, at = 0; at < units.count; i++) {
            int size = span_run(placing, (struct span){units.items + at, units.count - at}, level);
            int users = counts[i] + 1 + parties_between(placing, units.items[at], units.items[at + size - 1]);
            at += size;
            if (base > 0 && counts[i] >= size / base)
                continue;
            if (best < 0 || (long long)size * best_users > (long long)best_size * users) {
                best = i;
                best_size = size;
                best_users = users;
            }
        }
        counts[best]++;
    }
}

/* ---- Evenly ---- */

/* How many parties fit whole into the domains, and how many in each into counts[level]. */
static int count_fitting(const struct placing *placing, struct span units, int base, int level)
{
    int fitting = 0;
    for (int i = 0, at = 0; at < units.count; i++) {
        int size = span_run(placing, (struct span){units.items + at, units.count - at}, level);
        placing->counts[level][i] = size / base;
        fitting += size / base;
        at += size;
    }
    return fitting;
}

/* The first of [parties], which is taken off them, gets [count] of [units]. */
static void take(struct placing *placing, struct span units, struct span *parties, int count)
{
    for (int i = 0; i < units.count && count > 0; i++) {
        struct unit *unit = &placing->units[units.items[i]];
        if (unit->owner != FREE)
            continue;
        unit->owner = parties->items[0];
        count--;
    }
    *parties = (struct span){parties->items + 1, parties->count - 1};
}

static int count_free(const struct placing *placing, struct span units)
{
    int count = 0;
    for (int i = 0; i < units.count; i++)
        count += placing->units[units.items[i]].owner == FREE;
    return count;
}

void share_out(struct placing *placing, struct span units, struct span parties, int base, int level)
{
    if (base == 0)
        return;
    if (level > DOMAIN_KINDS || (level == DOMAIN_KINDS && !placing->threads)) {
        while (parties.count > 0)
            take(placing, units, &parties, base);
        return;
    }
    int across = parties.count - count_fitting(placing, units, base, level);
    if (across <= 0)
        share_apportion(placing, units, parties.count, level, base);
    /* A party for which no domain has room takes what is left of the last ones and the beginning of the next.
     */
    for (int i = 0, at = 0; at < units.count && parties.count > 0; i++) {
        struct span before = {units.items, at};
        struct span here = {units.items + at,
                            span_run(placing, (struct span){units.items + at, units.count - at}, level)};
        int whole = placing->counts[level][i];
        at += here.count;
        if (across > 0 && count_free(placing, before) + here.count - whole * base >= base) {
            struct span both = {units.items, at};
            take(placing, both, &parties, base);
            while (here.count > 0 && placing->units[here.items[0]].owner != FREE)
                here = (struct span){here.items + 1, here.count - 1};
            across--;
        }
        share_out(placing, here, (struct span){parties.items, whole}, base, level + 1);
        parties = (struct span){parties.items + whole, parties.count - whole};
    }
}

/* ---- What is left ---- */

/* The first party that may take one more, of those with units from [first] to [last]; or FREE. */
static int find_taker(const struct placing *placing, int first, int last)
{
    int taker = FREE;
    for (int i = first; i <= last; i++) {
        int owner = placing->units[i].owner;
        if (owner >= 0 && !placing->parties[owner].extra && (taker == FREE || owner < taker))
            taker = owner;
    }
    return taker;
}

/* Where the owner changes, or the innermost domain: the less often, the less of a party is apart from its
 * rest.
 */
static int count_pieces(const struct placing *placing, int first, int last)
{
    int level = placing->threads ? DOMAIN_KINDS : DOMAIN_KINDS - 1;
    int count = 1;
    for (int i = first + 1; i <= last; i++)
        count += placing->units[i].owner != placing->units[i - 1].owner ||
                 unit_domain(placing, i, level) != unit_domain(placing, i - 1, level);
    return count;
}

/* The unit of [party] that is nearest to [unit], where all between them have owners that may move; or FREE.
 */
static int find_nearest(const struct placing *placing, int first, int last, int unit, int party)
{
    for (int step = -1; step <= 1; step += 2)
        for (int i = unit + step; i >= first && i <= last && placing->units[i].owner >= 0; i += step)
            if (placing->units[i].owner == party)
                return i;
    return FREE;
}

/* Everybody from [from] on moves one unit towards [to]. */
static void move_owners(struct placing *placing, int from, int to)
{
    int step = to > from ? 1 : -1;
    for (int i = to; i != from; i -= step)
        placing->units[i].owner = placing->units[i - step].owner;
}

/* The party gets [unit], or one beside its own, for which those between move on, if less is apart then. */
static void give_rest(struct placing *placing, int first, int last, int unit, int party)
{
    int from = find_nearest(placing, first, last, unit, party);
    placing->units[unit].owner = party;
    int pieces = count_pieces(placing, first, last);
    if (from == FREE)
        return;
    move_owners(placing, from, unit);
    if (count_pieces(placing, first, last) < pieces)
        return;
    move_owners(placing, unit, from);
    placing->units[unit].owner = party;
}

static void share_rest_at(struct placing *placing, int level)
{
    for (int first = 0, last; first < placing->unit_count; first = last + 1) {
        last = first;
        while (last + 1 < placing->unit_count &&
               unit_domain(placing, last + 1, level) == unit_domain(placing, first, level))
            last++;
        for (int i = first; i <= last; i++) {
            int taker = placing->units[i].owner == FREE ? find_taker(placing, first, last) : FREE;
            if (taker == FREE)
                continue;
            give_rest(placing, first, last, i, taker);
            placing->parties[taker].extra = true;
        }
    }
}

void share_rest(struct placing *placing, int level)
{
    for (int at = DOMAIN_KINDS; at >= level; at--)
        share_rest_at(placing, at);
}

/* ---- In order ---- */

static void swap_owners(struct unit *a, struct unit *b)
{
    int owner = a->owner;
    a->owner = b->owner;
    b->owner = owner;
}

void share_tidy(struct placing *placing)
{
    const int level = DOMAIN_KINDS - 1;
    struct unit *units = placing->units;
    for (int i = 1; i < placing->unit_count; i++)
        for (int k = i; k > 0 && units[k].owner >= 0 && units[k - 1].owner != SETTLED; k--) {
            if (unit_domain(placing, k, level) != unit_domain(placing, k - 1, level) ||
                (units[k - 1].owner != FREE && units[k - 1].owner <= units[k].owner))
                break;
            swap_owners(&units[k], &units[k - 1]);
        }
}
