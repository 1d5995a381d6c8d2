/* response_cache.c: the operations of one process set, by name and by id, and who is ready for them. */
#include "negotiate/response_cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIRST_BUCKETS 16

bool response_cache_init(struct response_cache *response_cache)
{
    memset(response_cache, 0, sizeof(*response_cache));
    TAILQ_INIT(&response_cache->pending);
    TAILQ_INIT(&response_cache->lru);
    return name_table_init(&response_cache->names, FIRST_BUCKETS);
}

static struct cache_entry *entry_of(struct name_link *link)
{
    return (void *)((char *)link - offsetof(struct cache_entry, link));
}

static void release_proposal(struct wire_proposal *proposal)
{
    desc_release(proposal->desc);
    proposal->desc = NULL;
}

static void free_entry(struct cache_entry *entry)
{
    release_proposal(&entry->agreed);
    release_proposal(&entry->proposal);
    release_proposal(&entry->other);
    free(entry->member_counts);
    free(entry->eager);
    free(entry);
}

void response_cache_fini(struct response_cache *response_cache)
{
    for (size_t i = 0; i < response_cache->names.bucket_count; i++) {
        struct name_link *next = NULL;
        for (struct name_link *link = response_cache->names.buckets[i]; link != NULL; link = next) {
            next = link->next;
            free_entry(entry_of(link));
        }
    }
    name_table_fini(&response_cache->names);
    free(response_cache->slots);
}

static struct cache_entry *find_hashed(const struct response_cache *response_cache, const char *name,
                                       uint64_t hash)
{
    struct name_link *link = name_table_bucket(&response_cache->names, hash);
    while (link != NULL && (link->hash != hash || strcmp(entry_of(link)->name, name) != 0))
        link = link->next;
    return link != NULL ? entry_of(link) : NULL;
}

struct cache_entry *response_cache_find(const struct response_cache *response_cache, const char *name)
{
    return find_hashed(response_cache, name, hash_bytes(name, strlen(name)));
}

struct cache_entry *response_cache_find_or_add(struct response_cache *response_cache, const char *name)
{
    size_t length = strlen(name);
    uint64_t hash = hash_bytes(name, length);
    struct cache_entry *entry = find_hashed(response_cache, name, hash);
    if (entry != NULL)
        return entry;
    entry = calloc(1, sizeof(*entry) + length + 1);
    if (entry == NULL)
        return NULL;
    entry->link.hash = hash;
    entry->id = WIRE_NO_ID;
    entry->backend = -1;
    entry->absent = -1;
    entry->needs_all = strcmp(name, DESC_SHUTDOWN_NAME) == 0;
    memcpy(entry->name, name, length + 1);
    name_table_insert(&response_cache->names, &entry->link);
    return entry;
}

struct cache_slot *response_cache_slot(const struct response_cache *response_cache, uint32_t id)
{
    return id < response_cache->slot_count ? &response_cache->slots[id] : NULL;
}

struct cache_entry *response_cache_by_id(const struct response_cache *response_cache, uint32_t id)
{
    const struct cache_slot *slot = response_cache_slot(response_cache, id);
    return slot != NULL ? slot->entry : NULL;
}

uint32_t response_cache_free_id(const struct response_cache *response_cache, uint64_t limit)
{
    uint64_t most = limit == 0 || limit > WIRE_MAX_ID ? WIRE_MAX_ID : limit;
    if (response_cache->free_count == 0)
        return response_cache->slot_count < most ? (uint32_t)response_cache->slot_count : WIRE_NO_ID;
    size_t id = response_cache->in_use;
    while (response_cache->slots[id].entry != NULL)
        id++;
    return (uint32_t)id;
}

bool response_cache_assign_id(struct response_cache *response_cache, struct cache_entry *entry, uint32_t id)
{
    if (id < response_cache->slot_count) {
        response_cache->free_count--;
    } else {
        if (response_cache->slot_count == response_cache->slot_capacity) {
            size_t capacity = 2 * response_cache->slot_capacity + 16;
            struct cache_slot *slots = reallocarray(response_cache->slots, capacity, sizeof(*slots));
            if (slots == NULL)
                return false;
            response_cache->slots = slots;
            response_cache->slot_capacity = capacity;
        }
        response_cache->slot_count++;
    }
    response_cache->slots[id] = (struct cache_slot){.entry = entry};
    response_cache->in_use += id == response_cache->in_use;
    entry->id = id;
    TAILQ_INSERT_TAIL(&response_cache->lru, entry, lru_link);
    return true;
}

void response_cache_touch(struct response_cache *response_cache, struct cache_entry *entry)
{
    TAILQ_REMOVE(&response_cache->lru, entry, lru_link);
    TAILQ_INSERT_TAIL(&response_cache->lru, entry, lru_link);
}

void response_cache_retire(struct response_cache *response_cache, uint32_t id)
{
    struct cache_slot *slot = &response_cache->slots[id];
    slot->retiring = true;
    slot->acknowledged = 0;
    response_cache->retiring_count++;
    TAILQ_REMOVE(&response_cache->lru, slot->entry, lru_link);
}

void response_cache_release_id(struct response_cache *response_cache, uint32_t id)
{
    struct cache_entry *entry = response_cache->slots[id].entry;
    response_cache->slots[id] = (struct cache_slot){.entry = NULL};
    response_cache->retiring_count--;
    response_cache->free_count++;
    response_cache->in_use = id < response_cache->in_use ? id : response_cache->in_use;
    entry->id = WIRE_NO_ID;
    if (entry->ready != 0 && entry->proposal.desc == NULL) {
        /* the parts that are ready have reported so by the id */
        entry->proposal.desc = entry->agreed.desc;
        entry->proposal.backends = entry->agreed.backends;
        entry->proposal.offsets = entry->agreed.offsets;
        entry->agreed.desc = NULL;
    }
    release_proposal(&entry->agreed);
    response_cache_drop_unused(response_cache, entry);
}

void response_cache_mark_ready(struct response_cache *response_cache, struct cache_entry *entry)
{
    response_cache->reported_count -= entry->state == ENTRY_REPORTED;
    if (entry->state == ENTRY_PENDING)
        TAILQ_REMOVE(&response_cache->pending, entry, pending_link);
    entry->state = ENTRY_READY;
}

void response_cache_mark_reported(struct response_cache *response_cache, struct cache_entry *entry)
{
    entry->state = ENTRY_REPORTED;
    response_cache->reported_count++;
}

const struct cache_entry *response_cache_any_reported(const struct response_cache *response_cache)
{
    for (size_t i = 0; i < response_cache->names.bucket_count; i++) {
        for (struct name_link *link = response_cache->names.buckets[i]; link != NULL; link = link->next) {
            if (entry_of(link)->state == ENTRY_REPORTED)
                return entry_of(link);
        }
    }
    return NULL;
}

void response_cache_reset_entry(struct response_cache *response_cache, struct cache_entry *entry)
{
    response_cache->reported_count -= entry->state == ENTRY_REPORTED;
    if (entry->ready != 0 && entry->state == ENTRY_PENDING)
        TAILQ_REMOVE(&response_cache->pending, entry, pending_link);
    entry->ready = 0;
    entry->since_us = 0;
    entry->state = ENTRY_PENDING;
    entry->mismatch = false;
    entry->absent = -1;
    entry->user = NULL;
    entry->offsets = 0;
    if (entry->eager != NULL)
        entry->eager->parts = 0;
    release_proposal(&entry->proposal);
    release_proposal(&entry->other);
    free(entry->member_counts);
    entry->member_counts = NULL;
    response_cache_drop_unused(response_cache, entry);
}

void response_cache_drop_unused(struct response_cache *response_cache, struct cache_entry *entry)
{
    if (entry->id != WIRE_NO_ID || entry->ready != 0)
        return;
    name_table_remove(&response_cache->names, &entry->link);
    free_entry(entry);
}
