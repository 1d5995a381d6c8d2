/* set_registry.c: the process sets of the job, by number, with their members, as one rank knows them. */
#include "flow/set_registry.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct registered_set {
    hvd_set number;
    int *ranks; /* ascending; NULL: 0 to count - 1, so that no rank keeps a list of all ranks */
    int count;
    uint32_t backends;
    int ppn;
    bool by_members;                 /* the others do not know it */
    struct process_set *process_set; /* this field and the next are read and written by the driver only */
    uint64_t operation_count;
};

/* Only the driver writes, and it does so under the lock: so the driver reads without locking. */
struct set_registry {
    pthread_mutex_t lock;
    int rank;
    struct registered_set *sets; /* by number, ascending */
    int count, capacity;
    hvd_set last; /* the highest number that was ever added; the driver only */
};

int set_registry_create(struct set_registry **set_registryp, int rank, struct hvd_error *err)
{
    struct set_registry *set_registry = calloc(1, sizeof(*set_registry));
    if (set_registry == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the list of process sets");
    pthread_mutex_init(&set_registry->lock, NULL);
    set_registry->rank = rank;
    *set_registryp = set_registry;
    return HVD_OK;
}

void set_registry_destroy(struct set_registry *set_registry)
{
    if (set_registry == NULL)
        return;
    for (int i = 0; i < set_registry->count; i++)
        free(set_registry->sets[i].ranks);
    pthread_mutex_destroy(&set_registry->lock);
    free(set_registry->sets);
    free(set_registry);
}

/* The index of set [number], or where to insert it. */
static int find_position(const struct set_registry *set_registry, hvd_set number)
{
    int low = 0;
    int high = set_registry->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (set_registry->sets[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL where the set does not exist. */
static struct registered_set *find_set(const struct set_registry *set_registry, hvd_set number)
{
    /* mostly HVD_ALL_RANKS, which is the first */
    int position = set_registry->count > 0 && set_registry->sets[0].number == number
                       ? 0
                       : find_position(set_registry, number);
    return position < set_registry->count && set_registry->sets[position].number == number
               ? &set_registry->sets[position]
               : NULL;
}

/* Are [ranks] 0 to [count] - 1? They are ascending, so the last one tells. */
static bool is_identity(const int *ranks, int count)
{
    return count == 0 || ranks[count - 1] == count - 1;
}

static bool is_set_of(const struct registered_set *set, const int *ranks, int count)
{
    if (set->count != count)
        return false;
    if (set->ranks == NULL)
        return is_identity(ranks, count);
    return memcmp(set->ranks, ranks, (size_t)count * sizeof(*ranks)) == 0;
}

/* The member number of [rank], or -1. */
static int find_member(const struct registered_set *set, int rank)
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

/* ---- The driver only ---- */

static int add_locked(struct set_registry *set_registry, const struct registered_set *set)
{
    if (set_registry->count == set_registry->capacity) {
        int capacity = 2 * set_registry->capacity + 8;
        struct registered_set *sets = reallocarray(set_registry->sets, (size_t)capacity, sizeof(*sets));
        if (sets == NULL)
            return HVD_ERR_NO_MEMORY;
        set_registry->sets = sets;
        set_registry->capacity = capacity;
    }
    int position = find_position(set_registry, set->number);
    memmove(&set_registry->sets[position + 1], &set_registry->sets[position],
            (size_t)(set_registry->count - position) * sizeof(set_registry->sets[0]));
    set_registry->sets[position] = *set;
    set_registry->count++;
    set_registry->last = set->number > set_registry->last ? set->number : set_registry->last;
    return HVD_OK;
}

int set_registry_add(struct set_registry *set_registry, const struct team *members, bool by_members,
                     uint32_t backends, struct process_set *set, struct hvd_error *err)
{
    size_t bytes = (size_t)members->size * sizeof(*members->ranks);
    struct registered_set added = {.number = members->set,
                                   .count = members->size,
                                   .backends = backends,
                                   .ppn = members->ppn,
                                   .by_members = by_members,
                                   .process_set = set};
    int rc = HVD_ERR_NO_MEMORY;
    bool listed = !is_identity(members->ranks, members->size);
    if (listed)
        added.ranks = malloc(bytes);
    if (added.ranks != NULL)
        memcpy(added.ranks, members->ranks, bytes);
    if (!listed || added.ranks != NULL) {
        pthread_mutex_lock(&set_registry->lock);
        rc = add_locked(set_registry, &added);
        pthread_mutex_unlock(&set_registry->lock);
    }
    if (rc == HVD_OK)
        return rc;
    free(added.ranks);
    return error_set(err, rc, "no memory for process set %d of %d ranks", members->set, members->size);
}

struct process_set *set_registry_remove(struct set_registry *set_registry, hvd_set number)
{
    struct process_set *removed = NULL;
    int *ranks = NULL;
    pthread_mutex_lock(&set_registry->lock);
    struct registered_set *set = find_set(set_registry, number);
    if (set != NULL) {
        int position = (int)(set - set_registry->sets);
        removed = set->process_set;
        ranks = set->ranks;
        set_registry->count--;
        memmove(set, set + 1, (size_t)(set_registry->count - position) * sizeof(*set));
    }
    pthread_mutex_unlock(&set_registry->lock);
    free(ranks);
    return removed;
}

struct process_set *set_registry_get(struct set_registry *set_registry, hvd_set number)
{
    const struct registered_set *set = find_set(set_registry, number);
    return set == NULL ? NULL : set->process_set;
}

bool set_registry_was_removed(const struct set_registry *set_registry, hvd_set set)
{
    return set <= set_registry->last && find_set(set_registry, set) == NULL;
}

uint64_t set_registry_count_operation(struct set_registry *set_registry, hvd_set number)
{
    struct registered_set *set = find_set(set_registry, number);
    return set == NULL ? 0 : ++set->operation_count;
}

/* ---- Any thread ---- */

int set_registry_rank(struct set_registry *set_registry, hvd_set number)
{
    return set_registry_member(set_registry, number, set_registry->rank);
}

int set_registry_size(struct set_registry *set_registry, hvd_set number)
{
    return set_registry_ranks(set_registry, number, NULL, 0);
}

int set_registry_member(struct set_registry *set_registry, hvd_set number, int rank)
{
    pthread_mutex_lock(&set_registry->lock);
    const struct registered_set *set = find_set(set_registry, number);
    int member = set == NULL ? -1 : find_member(set, rank);
    pthread_mutex_unlock(&set_registry->lock);
    return member;
}

int set_registry_ranks(struct set_registry *set_registry, hvd_set number, int *ranks, int capacity)
{
    int count = -1;
    pthread_mutex_lock(&set_registry->lock);
    const struct registered_set *set = find_set(set_registry, number);
    if (set != NULL) {
        count = set->count;
        for (int i = 0; i < count && i < capacity; i++)
            ranks[i] = set->ranks == NULL ? i : set->ranks[i];
    }
    pthread_mutex_unlock(&set_registry->lock);
    return count;
}

int set_registry_list(struct set_registry *set_registry, hvd_set *sets, int capacity)
{
    pthread_mutex_lock(&set_registry->lock);
    int count = set_registry->count;
    for (int i = 0; i < count && i < capacity; i++)
        sets[i] = set_registry->sets[i].number;
    pthread_mutex_unlock(&set_registry->lock);
    return count;
}

hvd_set set_registry_find(struct set_registry *set_registry, const int *ranks, int count, bool by_members)
{
    hvd_set found = -1;
    pthread_mutex_lock(&set_registry->lock);
    for (int i = 0; i < set_registry->count && found < 0; i++) {
        const struct registered_set *set = &set_registry->sets[i];
        if ((by_members || !set->by_members) && is_set_of(set, ranks, count))
            found = set->number;
    }
    pthread_mutex_unlock(&set_registry->lock);
    return found;
}

uint32_t set_registry_backends(struct set_registry *set_registry, hvd_set number)
{
    pthread_mutex_lock(&set_registry->lock);
    const struct registered_set *set = find_set(set_registry, number);
    uint32_t backends = set == NULL ? 0 : set->backends;
    pthread_mutex_unlock(&set_registry->lock);
    return backends;
}

int set_registry_ppn(struct set_registry *set_registry, hvd_set number)
{
    pthread_mutex_lock(&set_registry->lock);
    const struct registered_set *set = find_set(set_registry, number);
    int ppn = set == NULL ? 0 : set->ppn;
    pthread_mutex_unlock(&set_registry->lock);
    return ppn;
}

bool set_registry_is_by_members(struct set_registry *set_registry, hvd_set number)
{
    pthread_mutex_lock(&set_registry->lock);
    const struct registered_set *set = find_set(set_registry, number);
    bool by_members = set != NULL && set->by_members;
    pthread_mutex_unlock(&set_registry->lock);
    return by_members;
}
