/* set_registry.c: the process sets of the job, as one rank knows them: by number, with their members. */
#include "flow/set_registry.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct set {
    hvd_set number;
    int *ranks; /* ascending; NULL: 0 to count - 1, so that all ranks of a job are no list in each of them */
    int count;
    uint32_t planes;
    int each;
    struct team *team; /* this one and the next are the holder's alone */
    uint64_t agreed;   /* operations */
};

/* The holder of the baton alone writes, under the lock: so it reads without. */
struct teams {
    pthread_mutex_t lock;
    int rank;
    struct set *sets; /* by number, ascending */
    int count, capacity;
};

int teams_create(struct teams **teamsp, int rank, struct hvd_error *err)
{
    struct teams *teams = calloc(1, sizeof(*teams));
    if (teams == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the list of process sets");
    pthread_mutex_init(&teams->lock, NULL);
    teams->rank = rank;
    *teamsp = teams;
    return HVD_OK;
}

void teams_destroy(struct teams *teams)
{
    if (teams == NULL)
        return;
    for (int i = 0; i < teams->count; i++)
        free(teams->sets[i].ranks);
    pthread_mutex_destroy(&teams->lock);
    free(teams->sets);
    free(teams);
}

/* Where the set [number] is, or would be put. */
static int find_place(const struct teams *teams, hvd_set number)
{
    int low = 0;
    int high = teams->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (teams->sets[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL where there is no such set. */
static struct set *find_set(const struct teams *teams, hvd_set number)
{
    /* mostly HVD_ALL_RANKS, which is the first */
    int place = teams->count > 0 && teams->sets[0].number == number ? 0 : find_place(teams, number);
    return place < teams->count && teams->sets[place].number == number ? &teams->sets[place] : NULL;
}

/* Are these 0 to [count] - 1? They are ascending: the last one tells. */
static bool are_first(const int *ranks, int count)
{
    return count == 0 || ranks[count - 1] == count - 1;
}

static bool is_set_of(const struct set *set, const int *ranks, int count)
{
    if (set->count != count)
        return false;
    if (set->ranks == NULL)
        return are_first(ranks, count);
    return memcmp(set->ranks, ranks, (size_t)count * sizeof(*ranks)) == 0;
}

/* The place of [rank] among the members, or -1. */
static int find_member(const struct set *set, int rank)
{
    if (set->ranks == NULL)
        return rank < 0 || rank >= set->count ? -1 : rank;
    int low = 0;
    int high = set->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (set->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranks[low] == rank ? low : -1;
}

/* ---- By the holder of the baton ---- */

static int add_locked(struct teams *teams, const struct set *set)
{
    if (teams->count == teams->capacity) {
        int capacity = 2 * teams->capacity + 8;
        struct set *sets = reallocarray(teams->sets, (size_t)capacity, sizeof(*sets));
        if (sets == NULL)
            return HVD_ERR_NO_MEMORY;
        teams->sets = sets;
        teams->capacity = capacity;
    }
    int place = find_place(teams, set->number);
    memmove(&teams->sets[place + 1], &teams->sets[place],
            (size_t)(teams->count - place) * sizeof(teams->sets[0]));
    teams->sets[place] = *set;
    teams->count++;
    return HVD_OK;
}

int teams_add(struct teams *teams, const struct plane_team *members, uint32_t planes, struct team *team,
              struct hvd_error *err)
{
    size_t bytes = (size_t)members->size * sizeof(*members->ranks);
    struct set added = {.number = members->set,
                        .count = members->size,
                        .planes = planes,
                        .each = members->each,
                        .team = team};
    int rc = HVD_ERR_NO_MEMORY;
    bool listed = !are_first(members->ranks, members->size);
    if (listed)
        added.ranks = malloc(bytes);
    if (added.ranks != NULL)
        memcpy(added.ranks, members->ranks, bytes);
    if (!listed || added.ranks != NULL) {
        pthread_mutex_lock(&teams->lock);
        rc = add_locked(teams, &added);
        pthread_mutex_unlock(&teams->lock);
    }
    if (rc == HVD_OK)
        return rc;
    free(added.ranks);
    return error_set(err, rc, "no memory for process set %d of %d ranks", members->set, members->size);
}

struct team *teams_take(struct teams *teams, hvd_set number)
{
    struct team *team = NULL;
    int *ranks = NULL;
    pthread_mutex_lock(&teams->lock);
    struct set *set = find_set(teams, number);
    if (set != NULL) {
        int place = (int)(set - teams->sets);
        team = set->team;
        ranks = set->ranks;
        teams->count--;
        memmove(set, set + 1, (size_t)(teams->count - place) * sizeof(*set));
    }
    pthread_mutex_unlock(&teams->lock);
    free(ranks);
    return team;
}

struct team *teams_get(struct teams *teams, hvd_set number)
{
    const struct set *set = find_set(teams, number);
    return set == NULL ? NULL : set->team;
}

uint64_t teams_agree(struct teams *teams, hvd_set number)
{
    struct set *set = find_set(teams, number);
    return set == NULL ? 0 : ++set->agreed;
}

/* ---- Any thread ---- */

int teams_rank(struct teams *teams, hvd_set number)
{
    return teams_member(teams, number, teams->rank);
}

int teams_size(struct teams *teams, hvd_set number)
{
    return teams_ranks(teams, number, NULL, 0);
}

int teams_member(struct teams *teams, hvd_set number, int rank)
{
    pthread_mutex_lock(&teams->lock);
    const struct set *set = find_set(teams, number);
    int member = set == NULL ? -1 : find_member(set, rank);
    pthread_mutex_unlock(&teams->lock);
    return member;
}

int teams_ranks(struct teams *teams, hvd_set number, int *ranks, int capacity)
{
    int count = -1;
    pthread_mutex_lock(&teams->lock);
    const struct set *set = find_set(teams, number);
    if (set != NULL) {
        count = set->count;
        for (int i = 0; i < count && i < capacity; i++)
            ranks[i] = set->ranks == NULL ? i : set->ranks[i];
    }
    pthread_mutex_unlock(&teams->lock);
    return count;
}

int teams_list(struct teams *teams, hvd_set *sets, int capacity)
{
    pthread_mutex_lock(&teams->lock);
    int count = teams->count;
    for (int i = 0; i < count && i < capacity; i++)
        sets[i] = teams->sets[i].number;
    pthread_mutex_unlock(&teams->lock);
    return count;
}

hvd_set teams_find(struct teams *teams, const int *ranks, int count)
{
    hvd_set found = -1;
    pthread_mutex_lock(&teams->lock);
    for (int i = 0; i < teams->count && found < 0; i++) {
        if (is_set_of(&teams->sets[i], ranks, count))
            found = teams->sets[i].number;
    }
    pthread_mutex_unlock(&teams->lock);
    return found;
}

uint32_t teams_planes(struct teams *teams, hvd_set number)
{
    pthread_mutex_lock(&teams->lock);
    const struct set *set = find_set(teams, number);
    uint32_t planes = set == NULL ? 0 : set->planes;
    pthread_mutex_unlock(&teams->lock);
    return planes;
}

int teams_each(struct teams *teams, hvd_set number)
{
    pthread_mutex_lock(&teams->lock);
    const struct set *set = find_set(teams, number);
    int each = set == NULL ? 0 : set->each;
    pthread_mutex_unlock(&teams->lock);
    return each;
}
