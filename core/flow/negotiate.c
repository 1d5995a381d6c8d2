/* negotiate.c: what is ready on every rank, in one agreed order. */
#include "flow/negotiate.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define NO_ID UINT32_MAX

/* One name. Between decisions [ready] is 0; it fills up as this rank (bit 0) and its children's subtrees (bit
 * i + 1 for child i) become ready, and stays full until the decision. */
struct entry {
    struct entry *next_of_bucket;
    uint64_t hash;
    uint32_t id;        /* NO_ID until first decided */
    int plane;          /* agreed with [agreed] */
    struct desc agreed; /* what the id stands for; the name is always valid */
    uint64_t ready;
    bool differs; /* not all of [ready] said [agreed]: look at [said] */
    bool mismatch;
    struct desc said; /* by rank said_rank, the lowest of those that agree with it */
    int said_rank;
    struct desc other; /* mismatch: by other_rank, the lowest of those that said the first other thing */
    int other_rank;
    void *user;
};

struct pointers {
    struct entry **at;
    size_t count, capacity;
};

struct negotiate {
    struct negotiate_place place;
    uint64_t full; /* of entry.ready */
    struct entry **buckets;
    size_t bucket_count, entry_count;
    struct pointers by_id;
    struct pointers complete; /* ready in the whole subtree, not yet said, in this order */
    uint32_t *ids;            /* of one message, for sorting */
    size_t id_capacity;
    int leaving_rank; /* -1, or who left first, as far as is known here */
    bool leaving_said, leaving_decided;
    struct wire_writer message;
    struct decision *decisions; /* queue */
    size_t decision_at, decision_count, decision_capacity;
};

/* Grow an array to hold one more than [count] elements; false where memory is out. */
static bool grow(void *arrayp, size_t *capacityp, size_t count, size_t element_bytes)
{
    void *array = NULL;
    if (count < *capacityp)
        return true;
    memcpy(&array, arrayp, sizeof(array));
    size_t capacity = 2 * *capacityp + 16;
    void *larger = reallocarray(array, capacity, element_bytes);
    if (larger == NULL)
        return false;
    memcpy(arrayp, &larger, sizeof(larger));
    *capacityp = capacity;
    return true; /* cppcheck-suppress memleak ; the array is the caller's */
}

static int out_of_memory(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for the negotiation");
}

static struct entry *find_entry(const struct negotiate *negotiate, const char *name, uint64_t hash)
{
    struct entry *entry = negotiate->buckets[hash & (negotiate->bucket_count - 1)];
    while (entry != NULL && (entry->hash != hash || strcmp(entry->agreed.name, name) != 0))
        entry = entry->next_of_bucket;
    return entry;
}

static void double_buckets(struct negotiate *negotiate)
{
    size_t count = 2 * negotiate->bucket_count;
    struct entry **buckets = calloc(count, sizeof(struct entry *));
    if (buckets == NULL)
        return; /* longer chains are slower, not wrong */
    for (size_t i = 0; i < negotiate->bucket_count; i++) {
        struct entry *next = NULL;
        for (struct entry *entry = negotiate->buckets[i]; entry != NULL; entry = next) {
            next = entry->next_of_bucket;
            entry->next_of_bucket = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    }
    free(negotiate->buckets);
    negotiate->buckets = buckets;
    negotiate->bucket_count = count;
}

/* The entry of that name, made where there is none; NULL where memory is out. */
static struct entry *get_entry(struct negotiate *negotiate, const char *name)
{
    uint64_t hash = hash_bytes(name, strlen(name));
    struct entry *entry = find_entry(negotiate, name, hash);
    if (entry != NULL)
        return entry;
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return NULL;
    if (negotiate->entry_count >= negotiate->bucket_count)
        double_buckets(negotiate);
    entry->hash = hash;
    entry->id = NO_ID;
    memcpy(entry->agreed.name, name, strlen(name) + 1);
    entry->next_of_bucket = negotiate->buckets[hash & (negotiate->bucket_count - 1)];
    negotiate->buckets[hash & (negotiate->bucket_count - 1)] = entry;
    negotiate->entry_count++;
    return entry;
}

int negotiate_create(struct negotiate **negotiatep, const struct negotiate_place *place,
                     struct hvd_error *err)
{
    struct negotiate *negotiate = calloc(1, sizeof(*negotiate));
    if (negotiate == NULL)
        return out_of_memory(err);
    negotiate->place = *place;
    negotiate->full = (UINT64_C(2) << place->child_count) - 1;
    negotiate->leaving_rank = -1;
    negotiate->bucket_count = 256;
    negotiate->buckets = calloc(negotiate->bucket_count, sizeof(struct entry *));
    if (negotiate->buckets == NULL) {
        negotiate_destroy(negotiate);
        return out_of_memory(err);
    }
    *negotiatep = negotiate;
    return HVD_OK;
}

void negotiate_destroy(struct negotiate *negotiate)
{
    if (negotiate == NULL)
        return;
    for (size_t i = 0; negotiate->buckets != NULL && i < negotiate->bucket_count; i++) {
        struct entry *next = NULL;
        for (struct entry *entry = negotiate->buckets[i]; entry != NULL; entry = next) {
            next = entry->next_of_bucket;
            free(entry);
        }
    }
    free(negotiate->buckets);
    free(negotiate->by_id.at);
    free(negotiate->complete.at);
    free(negotiate->ids);
    free(negotiate->decisions);
    wire_free(&negotiate->message);
    free(negotiate);
}

static bool needs_plane(const struct desc *desc)
{
    return desc->kind == DESC_ALLREDUCE || desc->kind == DESC_BROADCAST;
}

/* ---- Up: merging ---------------------------------------------------------------------------- */

/* Take what [rank] says of an entry: [desc], or NULL for what the entry's id stands for. */
static void merge(struct entry *entry, const struct desc *desc, int rank)
{
    bool first = entry->ready == 0;
    if (desc == NULL && (first || !entry->differs)) {
        if (first || rank < entry->said_rank)
            entry->said_rank = rank;
        return;
    }
    const struct desc *saying = desc != NULL ? desc : &entry->agreed;
    if (first || !entry->differs) {
        /* the first word that is not just the id: what was said before it was the agreed description */
        entry->said = first ? *saying : entry->agreed;
        entry->differs = true;
        if (first) {
            entry->said_rank = rank;
            return;
        }
    }
    uint32_t common = entry->said.planes & saying->planes;
    if (!desc_equal(&entry->said, saying) || (needs_plane(saying) && common == 0)) {
        if (!entry->mismatch || (desc_equal(&entry->other, saying) && rank < entry->other_rank)) {
            entry->other = *saying;
            entry->other_rank = rank;
        }
        entry->mismatch = true;
        return;
    }
    entry->said.planes = common;
    if (rank < entry->said_rank)
        entry->said_rank = rank;
}

/* [bit]'s subtree is ready for [entry]. */
static int become_ready(struct negotiate *negotiate, struct entry *entry, int bit, const struct desc *desc,
                        int rank, struct hvd_error *err)
{
    if ((entry->ready >> bit & 1) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it is ready for \"%s\"", rank,
                         entry->agreed.name);
    bool completes = (entry->ready | UINT64_C(1) << bit) == negotiate->full;
    if (completes && !grow(&negotiate->complete.at, &negotiate->complete.capacity, negotiate->complete.count,
                           sizeof(struct entry *)))
        return out_of_memory(err);
    merge(entry, desc, rank);
    entry->ready |= UINT64_C(1) << bit;
    if (completes)
        negotiate->complete.at[negotiate->complete.count++] = entry;
    return HVD_OK;
}

int negotiate_submit(struct negotiate *negotiate, const struct desc *desc, void *user, struct hvd_error *err)
{
    struct entry *entry = get_entry(negotiate, desc->name);
    if (entry == NULL)
        return out_of_memory(err);
    bool known = entry->id != NO_ID && desc_equal(&entry->agreed, desc);
    int rc = become_ready(negotiate, entry, 0, known ? NULL : desc, negotiate->place.rank, err);
    if (rc == HVD_OK)
        entry->user = user;
    return rc;
}

void negotiate_leave(struct negotiate *negotiate)
{
    if (negotiate->leaving_rank < 0)
        negotiate->leaving_rank = negotiate->place.rank;
}

static int take_ids(struct negotiate *negotiate, int child, const struct wire_record *record,
                    struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if ((record->bits[i / 8] >> i % 8 & 1) == 0)
            continue;
        uint32_t id = record->first_id + i;
        if (id >= negotiate->by_id.count)
            return error_set(err, HVD_ERR_SYSTEM, "operation number %u was never agreed", id);
        int rc = become_ready(negotiate, negotiate->by_id.at[id], child + 1, NULL,
                              negotiate->place.child_ranks[child], err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int take_mismatch(struct negotiate *negotiate, struct entry *entry, int child,
                         const struct wire_record *record, struct hvd_error *err)
{
    int rc = become_ready(negotiate, entry, child + 1, &record->desc, record->rank, err);
    if (rc == HVD_OK && !entry->mismatch) {
        /* this rank agrees with one of the two, so the child's pair is the disagreement here too */
        entry->mismatch = true;
        entry->other = record->other;
        entry->other_rank = record->other_rank;
    }
    return rc;
}

static int take_up(struct negotiate *negotiate, int child, const struct wire_record *record,
                   struct hvd_error *err)
{
    struct entry *entry = NULL;
    switch (record->type) {
    case WIRE_IDS:
        return take_ids(negotiate, child, record, err);
    case WIRE_LEAVING:
        if (negotiate->leaving_rank < 0)
            negotiate->leaving_rank = record->rank;
        return HVD_OK;
    case WIRE_NEW:
    case WIRE_MISMATCH:
        entry = get_entry(negotiate, record->desc.name);
        if (entry == NULL)
            return out_of_memory(err);
        if (record->type == WIRE_MISMATCH)
            return take_mismatch(negotiate, entry, child, record, err);
        return become_ready(negotiate, entry, child + 1, &record->desc, record->rank, err);
    }
    return HVD_ERR_SYSTEM;
}

int negotiate_from_child(struct negotiate *negotiate, int child, const void *bytes, size_t length,
                         struct hvd_error *err)
{
    struct wire_reader reader = {bytes, length, negotiate->place.size};
    struct wire_record record;
    int rc = wire_get(&reader, &record, err);
    while (rc == HVD_OK) {
        rc = take_up(negotiate, child, &record, err);
        if (rc == HVD_OK)
            rc = wire_get(&reader, &record, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* Write the ids of those complete entries that their id describes, and keep the others in [complete]. */
static int say_ids(struct negotiate *negotiate, struct hvd_error *err)
{
    size_t id_count = 0;
    size_t kept = 0;
    for (size_t i = 0; i < negotiate->complete.count; i++) {
        struct entry *entry = negotiate->complete.at[i];
        if (entry->differs || entry->id == NO_ID) {
            negotiate->complete.at[kept++] = entry;
            continue;
        }
        if (!grow(&negotiate->ids, &negotiate->id_capacity, id_count, sizeof(uint32_t)))
            return out_of_memory(err);
        negotiate->ids[id_count++] = entry->id;
    }
    negotiate->complete.count = kept;
    if (id_count > 1)
        qsort(negotiate->ids, id_count, sizeof(uint32_t), compare_ids);
    wire_put_ids(&negotiate->message, negotiate->ids, id_count);
    return HVD_OK;
}

static void record_of_entry(const struct entry *entry, struct wire_record *record)
{
    memset(record, 0, sizeof(*record));
    record->type = entry->mismatch ? WIRE_MISMATCH : WIRE_NEW;
    record->rank = entry->said_rank;
    record->desc = entry->said;
    record->plane = -1;
    if (entry->mismatch) {
        record->other_rank = entry->other_rank;
        record->other = entry->other;
    }
}

/* ---- Down: deciding ------------------------------------------------------------------------- */

static int push_decision(struct negotiate *negotiate, const struct decision *decision, struct hvd_error *err)
{
    if (negotiate->decision_at == negotiate->decision_count)
        negotiate->decision_at = negotiate->decision_count = 0;
    if (!grow(&negotiate->decisions, &negotiate->decision_capacity, negotiate->decision_count,
              sizeof(*decision)))
        return out_of_memory(err);
    negotiate->decisions[negotiate->decision_count++] = *decision;
    return HVD_OK;
}

/* The entry can be submitted again. Its descriptions stay readable until it is. */
static void decide_entry(struct entry *entry)
{
    entry->ready = 0;
    entry->differs = false;
    entry->mismatch = false;
}

static int expect_full(const struct negotiate *negotiate, const struct entry *entry, struct hvd_error *err)
{
    if (entry != NULL && entry->ready == negotiate->full)
        return HVD_OK;
    return error_set(err, HVD_ERR_SYSTEM, "the parent decided on \"%s\", which is not ready here",
                     entry != NULL ? entry->agreed.name : "an unknown operation");
}

static int decide_ids(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if ((record->bits[i / 8] >> i % 8 & 1) == 0)
            continue;
        uint32_t id = record->first_id + i;
        struct entry *entry = id < negotiate->by_id.count ? negotiate->by_id.at[id] : NULL;
        int rc = expect_full(negotiate, entry, err);
        if (rc != HVD_OK)
            return rc;
        struct decision decision = {
            .kind = DECISION_RUN, .user = entry->user, .desc = &entry->agreed, .plane = entry->plane};
        decide_entry(entry);
        rc = push_decision(negotiate, &decision, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* A description becomes what its number stands for: from now on the number is enough. */
static int decide_new(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err)
{
    struct entry *entry =
        find_entry(negotiate, record->desc.name, hash_bytes(record->desc.name, strlen(record->desc.name)));
    int rc = expect_full(negotiate, entry, err);
    if (rc != HVD_OK)
        return rc;
    bool known = entry->id != NO_ID;
    if (known ? record->id != entry->id : record->id != negotiate->by_id.count)
        return error_set(err, HVD_ERR_SYSTEM, "the parent numbered \"%s\" %u, which is not its turn",
                         record->desc.name, record->id);
    if (!known) {
        if (!grow(&negotiate->by_id.at, &negotiate->by_id.capacity, negotiate->by_id.count,
                  sizeof(struct entry *)))
            return out_of_memory(err);
        negotiate->by_id.at[negotiate->by_id.count++] = entry;
        entry->id = record->id;
    }
    entry->agreed = record->desc;
    entry->plane = record->plane;
    struct decision decision = {
        .kind = DECISION_RUN, .user = entry->user, .desc = &entry->agreed, .plane = entry->plane};
    decide_entry(entry);
    return push_decision(negotiate, &decision, err);
}

static int decide_mismatch(struct negotiate *negotiate, const struct wire_record *record,
                           struct hvd_error *err)
{
    struct entry *entry =
        find_entry(negotiate, record->desc.name, hash_bytes(record->desc.name, strlen(record->desc.name)));
    int rc = expect_full(negotiate, entry, err);
    if (rc != HVD_OK)
        return rc;
    /* lower rank first, as a reader expects */
    bool swap = record->other_rank < record->rank;
    entry->said = swap ? record->other : record->desc;
    entry->other = swap ? record->desc : record->other;
    struct decision decision = {.kind = DECISION_MISMATCH,
                                .user = entry->user,
                                .desc = &entry->said,
                                .rank = swap ? record->other_rank : record->rank,
                                .other = &entry->other,
                                .other_rank = swap ? record->rank : record->other_rank};
    decide_entry(entry);
    return push_decision(negotiate, &decision, err);
}

static int decide_record(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err)
{
    switch (record->type) {
    case WIRE_IDS:
        return decide_ids(negotiate, record, err);
    case WIRE_NEW:
        return decide_new(negotiate, record, err);
    case WIRE_MISMATCH:
        return decide_mismatch(negotiate, record, err);
    case WIRE_LEAVING: {
        struct decision decision = {.kind = DECISION_LEAVING, .rank = record->rank};
        negotiate->leaving_rank = record->rank;
        negotiate->leaving_said = true;
        return push_decision(negotiate, &decision, err);
    }
    }
    return HVD_ERR_SYSTEM;
}

int negotiate_from_parent(struct negotiate *negotiate, const void *bytes, size_t length,
                          struct hvd_error *err)
{
    struct wire_reader reader = {bytes, length, negotiate->place.size};
    struct wire_record record;
    int rc = wire_get(&reader, &record, err);
    while (rc == HVD_OK) {
        rc = decide_record(negotiate, &record, err);
        if (rc == HVD_OK)
            rc = wire_get(&reader, &record, err);
    }
    if (rc != HVD_IN_PROGRESS)
        return rc;
    if (negotiate->decision_count > negotiate->decision_at)
        negotiate->decisions[negotiate->decision_count - 1].last = true;
    return HVD_OK;
}

bool negotiate_next(struct negotiate *negotiate, struct decision *decision)
{
    if (negotiate->decision_at == negotiate->decision_count)
        return false;
    *decision = negotiate->decisions[negotiate->decision_at++];
    return true;
}

/* ---- Saying --------------------------------------------------------------------------------- */

/* Which plane: the first in the job's order of preference that all ranks have. */
static int choose_plane(const struct negotiate *negotiate, const struct desc *desc)
{
    for (int i = 0; needs_plane(desc) && i < PLANE_COUNT; i++) {
        int plane = negotiate->place.plane_order[i];
        if (plane >= 0 && (desc->planes >> plane & 1) != 0)
            return plane;
    }
    return -1;
}

/* At the root a new description gets its number and its plane. */
static void number_record(const struct negotiate *negotiate, const struct entry *entry,
                          struct wire_record *record, uint32_t *next_idp)
{
    record->id = entry->id != NO_ID ? entry->id : (*next_idp)++;
    record->plane = choose_plane(negotiate, &record->desc);
}

/* After somebody left nothing is decided but that all have left. */
static void drop_undecidable(struct negotiate *negotiate)
{
    size_t kept = 0;
    for (size_t i = 0; i < negotiate->complete.count; i++) {
        struct entry *entry = negotiate->complete.at[i];
        if (strcmp(entry->agreed.name, DESC_SHUTDOWN_NAME) == 0)
            negotiate->complete.at[kept++] = entry;
    }
    negotiate->complete.count = kept;
}

static int write_message(struct negotiate *negotiate, struct hvd_error *err)
{
    uint32_t next_id = (uint32_t)negotiate->by_id.count;
    wire_reset(&negotiate->message);
    int rc = say_ids(negotiate, err);
    if (rc != HVD_OK)
        return rc;
    for (size_t i = 0; i < negotiate->complete.count; i++) {
        struct wire_record record;
        record_of_entry(negotiate->complete.at[i], &record);
        if (negotiate->place.root && record.type == WIRE_NEW)
            number_record(negotiate, negotiate->complete.at[i], &record, &next_id);
        wire_put(&negotiate->message, &record);
    }
    negotiate->complete.count = 0;
    if (negotiate->leaving_rank >= 0 && !negotiate->leaving_said) {
        struct wire_record record = {.type = WIRE_LEAVING, .rank = negotiate->leaving_rank};
        wire_put(&negotiate->message, &record);
        negotiate->leaving_said = true;
    }
    return negotiate->message.failed ? out_of_memory(err) : HVD_OK;
}

int negotiate_say(struct negotiate *negotiate, const void **bytesp, size_t *lengthp, struct hvd_error *err)
{
    *lengthp = 0;
    if (negotiate->place.root && negotiate->leaving_decided)
        drop_undecidable(negotiate);
    bool leaving_news = negotiate->leaving_rank >= 0 && !negotiate->leaving_said;
    if (negotiate->complete.count == 0 && !leaving_news)
        return HVD_OK;
    int rc = write_message(negotiate, err);
    if (rc == HVD_OK && negotiate->place.root) {
        negotiate->leaving_decided = negotiate->leaving_said;
        rc = negotiate_from_parent(negotiate, negotiate->message.bytes, negotiate->message.length, err);
    }
    if (rc != HVD_OK)
        return rc;
    *bytesp = negotiate->message.bytes;
    *lengthp = negotiate->message.length;
    return HVD_OK;
}
