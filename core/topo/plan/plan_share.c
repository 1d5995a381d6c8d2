/* plan_share.c: divide units among consumers: evenly, disjointly, and across as few domains as possible. */
#include "topo/plan/plan_state.h"

int unit_domain(const struct plan_builder *builder, int unit, int level)
{
    int core = builder->units[unit].core;
    return level == DOMAIN_KINDS ? core : builder->machine->cores[core].domain[builder->levels[level]];
}

int same_domain_count(const struct plan_builder *builder, struct index_list units, int level)
{
    int run = 1;
    int domain = unit_domain(builder, units.items[0], level);
    while (run < units.count && unit_domain(builder, units.items[run], level) == domain)
        run++;
    return run;
}

bool unit_has_cpu(const struct unit *unit, const struct bitmap *cpus)
{
    for (int i = 0; i < unit->cpu_count; i++)
        if (bitmap_is_set(cpus, unit->cpus[i]))
            return true;
    return false;
}

struct index_list units_list_free(const struct plan_builder *builder, const struct bitmap *cpus, int *to)
{
    struct index_list free = {to, 0};
    for (int i = 0; i < builder->unit_count; i++)
        if (builder->units[i].owner == UNIT_FREE && unit_has_cpu(&builder->units[i], cpus))
            to[free.count++] = i;
    return free;
}

/* ---- In proportion ---- */

static int consumers_between(const struct plan_builder *builder, int first_unit, int last_unit)
{
    int count = 0;
    for (int i = 0; i < builder->consumer_count; i++)
        count +=
            builder->consumers[i].first_unit >= first_unit && builder->consumers[i].first_unit <= last_unit;
    return count;
}

/* D'Hondt's method: one after the other goes to the domain where there are then the most units for each. */
void units_apportion(const struct plan_builder *builder, struct index_list units, int count, int level,
                     int base)
{
    int *counts = builder->counts[level];
    for (int i = 0, at = 0; at < units.count; i++) {
        counts[i] = 0;
        at += same_domain_count(builder, (struct index_list){units.items + at, units.count - at}, level);
    }
    for (; count > 0; count--) {
        int best = -1, best_size = 0, best_users = 1;
        for (int i = 0, at = 0; at < units.count; i++) {
            int size =
                same_domain_count(builder, (struct index_list){units.items + at, units.count - at}, level);
            int users =
                counts[i] + 1 + consumers_between(builder, units.items[at], units.items[at + size - 1]);
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

/* The number of consumers that fit into one domain each, with the number in each domain in counts[level]. */
static int count_fitting(const struct plan_builder *builder, struct index_list units, int base, int level)
{
    int fitting = 0;
    for (int i = 0, at = 0; at < units.count; i++) {
        int size = same_domain_count(builder, (struct index_list){units.items + at, units.count - at}, level);
        builder->counts[level][i] = size / base;
        fitting += size / base;
        at += size;
    }
    return fitting;
}

/* Remove the first of [consumers] and give it [count] of [units]. */
static void take_units(struct plan_builder *builder, struct index_list units, struct index_list *consumers,
                       int count)
{
    for (int i = 0; i < units.count && count > 0; i++) {
        struct unit *unit = &builder->units[units.items[i]];
        if (unit->owner != UNIT_FREE)
            continue;
        unit->owner = consumers->items[0];
        count--;
    }
    *consumers = (struct index_list){consumers->items + 1, consumers->count - 1};
}

static int count_free(const struct plan_builder *builder, struct index_list units)
{
    int count = 0;
    for (int i = 0; i < units.count; i++)
        count += builder->units[units.items[i]].owner == UNIT_FREE;
    return count;
}

void units_assign(struct plan_builder *builder, struct index_list units, struct index_list consumers,
                  int base, int level)
{
    if (base == 0)
        return;
    if (level > DOMAIN_KINDS || (level == DOMAIN_KINDS && !builder->threads)) {
        while (consumers.count > 0)
            take_units(builder, units, &consumers, base);
        return;
    }
    int across = consumers.count - count_fitting(builder, units, base, level);
    if (across <= 0)
        units_apportion(builder, units, consumers.count, level, base);
    /* A consumer that fits into no domain takes what is left of the previous domains and the beginning of the
     * next one. */
    for (int i = 0, at = 0; at < units.count && consumers.count > 0; i++) {
        struct index_list before = {units.items, at};
        struct index_list here = {
            units.items + at,
            same_domain_count(builder, (struct index_list){units.items + at, units.count - at}, level)};
        int whole = builder->counts[level][i];
        at += here.count;
        if (across > 0 && count_free(builder, before) + here.count - whole * base >= base) {
            struct index_list both = {units.items, at};
            take_units(builder, both, &consumers, base);
            while (here.count > 0 && builder->units[here.items[0]].owner != UNIT_FREE)
                here = (struct index_list){here.items + 1, here.count - 1};
            across--;
        }
        units_assign(builder, here, (struct index_list){consumers.items, whole}, base, level + 1);
        consumers = (struct index_list){consumers.items + whole, consumers.count - whole};
    }
}

/* ---- Leftover units ---- */

/* Of the consumers with units from [first] to [last], the first that may take one more; or UNIT_FREE. */
static int find_consumer(const struct plan_builder *builder, int first, int last)
{
    int taker = UNIT_FREE;
    for (int i = first; i <= last; i++) {
        int owner = builder->units[i].owner;
        if (owner >= 0 && !builder->consumers[owner].extra && (taker == UNIT_FREE || owner < taker))
            taker = owner;
    }
    return taker;
}

/* Count the fragments: a new one begins where the owner or the innermost domain changes. The fewer there are,
 * the more of each consumer is together. */
static int count_fragments(const struct plan_builder *builder, int first, int last)
{
    int level = builder->threads ? DOMAIN_KINDS : DOMAIN_KINDS - 1;
    int count = 1;
    for (int i = first + 1; i <= last; i++)
        count += builder->units[i].owner != builder->units[i - 1].owner ||
                 unit_domain(builder, i, level) != unit_domain(builder, i - 1, level);
    return count;
}

/* The unit of [consumer] that is nearest to [unit], if all units between them have consumers that may move;
 * otherwise UNIT_FREE. */
static int find_nearest(const struct plan_builder *builder, int first, int last, int unit, int consumer)
{
    for (int step = -1; step <= 1; step += 2)
        for (int i = unit + step; i >= first && i <= last && builder->units[i].owner >= 0; i += step)
            if (builder->units[i].owner == consumer)
                return i;
    return UNIT_FREE;
}

/* Move the owners from [from] on by one unit towards [to]. */
static void move_owners(struct plan_builder *builder, int from, int to)
{
    int step = to > from ? 1 : -1;
    for (int i = to; i != from; i -= step)
        builder->units[i].owner = builder->units[i - step].owner;
}

/* Give the consumer [unit]. If that makes fewer fragments, give it a unit beside its own instead, and move
 * the owners in between by one unit. */
static void assign_one_more(struct plan_builder *builder, int first, int last, int unit, int consumer)
{
    int from = find_nearest(builder, first, last, unit, consumer);
    builder->units[unit].owner = consumer;
    int pieces = count_fragments(builder, first, last);
    if (from == UNIT_FREE)
        return;
    move_owners(builder, from, unit);
    if (count_fragments(builder, first, last) < pieces)
        return;
    move_owners(builder, unit, from);
    builder->units[unit].owner = consumer;
}

static void assign_rest_at(struct plan_builder *builder, int level)
{
    for (int first = 0, last; first < builder->unit_count; first = last + 1) {
        last = first;
        while (last + 1 < builder->unit_count &&
               unit_domain(builder, last + 1, level) == unit_domain(builder, first, level))
            last++;
        for (int i = first; i <= last; i++) {
            int taker =
                builder->units[i].owner == UNIT_FREE ? find_consumer(builder, first, last) : UNIT_FREE;
            if (taker == UNIT_FREE)
                continue;
            assign_one_more(builder, first, last, i, taker);
            builder->consumers[taker].extra = true;
        }
    }
}

void units_assign_rest(struct plan_builder *builder, int level)
{
    for (int at = DOMAIN_KINDS; at >= level; at--)
        assign_rest_at(builder, at);
}

/* ---- In order ---- */

static void swap_owners(struct unit *a, struct unit *b)
{
    int owner = a->owner;
    a->owner = b->owner;
    b->owner = owner;
}

void units_reorder(struct plan_builder *builder)
{
    const int level = DOMAIN_KINDS - 1;
    struct unit *units = builder->units;
    for (int i = 1; i < builder->unit_count; i++)
        for (int k = i; k > 0 && units[k].owner >= 0 && units[k - 1].owner != UNIT_PRESET; k--) {
            if (unit_domain(builder, k, level) != unit_domain(builder, k - 1, level) ||
                (units[k - 1].owner != UNIT_FREE && units[k - 1].owner <= units[k].owner))
                break;
            swap_owners(&units[k], &units[k - 1]);
        }
}
