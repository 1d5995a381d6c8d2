/* stragglers.c: find the ranks that submitted operations last, how often, and what that cost the others. */
#include "config.h"
#include "tools/hvdinfo/stragglers.h"

#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A kind of operation, a name and a process set, which recur in every round. */
struct subject {
    int set;
    char *kind, *name;
};

/* One execution of an operation. */
struct round {
    int set;
    int64_t number;
    const struct subject *subject;
    int64_t ranks; /* number of ranks that submitted it */
    int rank_seen; /* the rank whose arrival was added last */
    int last_rank;
    int64_t last_us, second_us;
    double waited_us; /* time that all other ranks waited for the last, added up */
    struct round *next;
};

/* Stragglers while they are added up: a tree to find them, and a list to sort them. */
struct straggler_table {
    void *tree;
    struct straggler **members;
    int count, room;
    struct straggler *sorted;
};

struct stragglers {
    void *rounds; /* a tree to find them; as a list, in the order in which they came: */
    struct round *first_round, *last_round;
    void *subjects;
    struct straggler_table ranks, by_subject;
};

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_rounds(const void *left, const void *right)
{
    const struct round *a = left;
    const struct round *b = right;
    int order = compare_numbers(a->set, b->set);
    return order != 0 ? order : compare_numbers(a->number, b->number);
}

static int compare_subjects(const void *left, const void *right)
{
    const struct subject *a = left;
    const struct subject *b = right;
    int order = compare_numbers(a->set, b->set);
    order = order != 0 ? order : strcmp(a->kind, b->kind);
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* Comparing the pointers of names is enough: they come from subjects, and each subject exists once. */
static int compare_stragglers(const void *left, const void *right)
{
    const struct straggler *a = left;
    const struct straggler *b = right;
    int order = compare_numbers(a->rank, b->rank);
    order = order != 0 ? order : compare_numbers((intptr_t)a->name, (intptr_t)b->name);
    return order;
}

static void free_subject(void *node)
{
    struct subject *subject = node;
    free(subject->kind);
    free(subject->name);
    free(subject);
}

static void keep_node(void *node)
{
    (void)node;
}

static void straggler_table_fini(struct straggler_table *table)
{
    tdestroy(table->tree, keep_node);
    for (int i = 0; i < table->count; i++)
        free(table->members[i]);
    free(table->members);
    free(table->sorted);
}

struct stragglers *stragglers_create(void)
{
    return calloc(1, sizeof(struct stragglers));
}

void stragglers_destroy(struct stragglers *stragglers)
{
    if (stragglers == NULL)
        return;
    straggler_table_fini(&stragglers->ranks);
    straggler_table_fini(&stragglers->by_subject);
    tdestroy(stragglers->rounds, free);
    tdestroy(stragglers->subjects, free_subject);
    free(stragglers);
}

static const struct subject *find_subject(struct stragglers *stragglers, const struct arrival *arrival)
{
    struct subject *subject = calloc(1, sizeof(*subject));
    if (subject == NULL)
        return NULL;
    subject->set = arrival->set;
    subject->kind = strdup(arrival->kind);
    subject->name = strdup(arrival->name);
    struct subject **node = NULL;
    if (subject->kind != NULL && subject->name != NULL)
        node = tsearch(subject, &stragglers->subjects, compare_subjects);
    if (node == NULL || *node != subject)
        free_subject(subject);
    return node == NULL ? NULL : *node;
}

static struct round *find_round(struct stragglers *stragglers, const struct arrival *arrival)
{
    struct round key = {.set = arrival->set, .number = arrival->number};
    struct round **node = tfind(&key, &stragglers->rounds, compare_rounds);
    if (node != NULL)
        return *node;
    struct round *round = calloc(1, sizeof(*round));
    if (round == NULL)
        return NULL;
    *round = key;
    round->subject = find_subject(stragglers, arrival);
    if (round->subject == NULL || tsearch(round, &stragglers->rounds, compare_rounds) == NULL) {
        free(round);
        return NULL;
    }
    if (stragglers->last_round == NULL)
        stragglers->first_round = round;
    else
        stragglers->last_round->next = round;
    stragglers->last_round = round;
    return round;
}

int stragglers_add(struct stragglers *stragglers, const struct arrival *arrival)
{
    struct round *round = find_round(stragglers, arrival);
    int64_t at_us = arrival->at_us;
    if (round == NULL)
        return -1;
    if (round->ranks > 0 && round->rank_seen == arrival->rank)
        return 0;
    if (round->ranks == 0 || at_us > round->last_us) {
        round->waited_us += round->ranks == 0 ? 0 : (double)round->ranks * (double)(at_us - round->last_us);
        round->second_us = round->ranks == 0 ? at_us : round->last_us;
        round->last_us = at_us;
        round->last_rank = arrival->rank;
    } else {
        round->waited_us += (double)(round->last_us - at_us);
        if (round->ranks == 1 || at_us > round->second_us)
            round->second_us = at_us;
    }
    round->rank_seen = arrival->rank;
    round->ranks++;
    return 0;
}

/* ---- Adding up ---------------------------------------------------------------------------------- */

static struct straggler *straggler_table_find(struct straggler_table *table, const struct straggler *key)
{
    struct straggler **node = tfind(key, &table->tree, compare_stragglers);
    if (node != NULL)
        return *node;
    if (table->count == table->room) {
        int room = table->room == 0 ? 64 : table->room * 2;
        struct straggler **members = reallocarray(table->members, (size_t)room, sizeof(*members));
        if (members == NULL)
            return NULL;
        table->members = members;
        table->room = room;
    }
    struct straggler *straggler = malloc(sizeof(*straggler));
    if (straggler == NULL)
        return NULL;
    *straggler = *key;
    if (tsearch(straggler, &table->tree, compare_stragglers) == NULL) {
        free(straggler);
        return NULL;
    }
    table->members[table->count++] = straggler;
    return straggler;
}

static int straggler_table_add(struct straggler_table *table, const struct straggler *key,
                               const struct round *round)
{
    struct straggler *straggler = straggler_table_find(table, key);
    if (straggler == NULL)
        return -1;
    straggler->times++;
    straggler->behind_us += (double)(round->last_us - round->second_us);
    straggler->waited_us += round->waited_us;
    return 0;
}

static int sum_round(struct stragglers *stragglers, const struct round *round, struct stragglers_sum *sum)
{
    sum->operations++;
    if (round->ranks < 2)
        return 0;
    sum->compared++;
    if (round->last_us == round->second_us)
        return 0;
    const struct subject *subject = round->subject;
    struct straggler rank = {.rank = round->last_rank};
    struct straggler both = {
        .rank = round->last_rank, .kind = subject->kind, .name = subject->name, .set = subject->set};
    if (straggler_table_add(&stragglers->ranks, &rank, round) < 0)
        return -1;
    return straggler_table_add(&stragglers->by_subject, &both, round);
}

/* Worst first. Ties do not depend on addresses. */
static int compare_costs(const void *left, const void *right)
{
    const struct straggler *a = left;
    const struct straggler *b = right;
    if (a->behind_us != b->behind_us)
        return a->behind_us < b->behind_us ? 1 : -1;
    if (a->rank != b->rank || a->name == NULL)
        return compare_numbers(a->rank, b->rank);
    return strcmp(a->name, b->name);
}

static int straggler_table_sort(struct straggler_table *table)
{
    table->sorted = calloc((size_t)table->count + 1, sizeof(*table->sorted));
    if (table->sorted == NULL)
        return -1;
    for (int i = 0; i < table->count; i++)
        table->sorted[i] = *table->members[i];
    qsort(table->sorted, (size_t)table->count, sizeof(*table->sorted), compare_costs);
    return 0;
}

int stragglers_sum(struct stragglers *stragglers, struct stragglers_sum *sum)
{
    int rc = 0;
    memset(sum, 0, sizeof(*sum));
    for (const struct round *round = stragglers->first_round; round != NULL && rc == 0; round = round->next)
        rc = sum_round(stragglers, round, sum);
    if (rc < 0 || straggler_table_sort(&stragglers->ranks) < 0 ||
        straggler_table_sort(&stragglers->by_subject) < 0)
        return -1;
    sum->ranks = stragglers->ranks.sorted;
    sum->rank_count = stragglers->ranks.count;
    sum->subjects = stragglers->by_subject.sorted;
    sum->subject_count = stragglers->by_subject.count;
    return 0;
}
