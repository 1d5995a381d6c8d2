/* response_cache.c: the operations of one process set, by name and by number, and who is ready for them. */
#include "negotiate/response_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIRST_BUCKETS 16

bool ledger_init(struct ledger *ledger)
{
    memset(ledger, 0, sizeof(*ledger));
    TAILQ_INIT(&ledger->open);
    TAILQ_INIT(&ledger->recent);
    ledger->buckets = calloc(FIRST_BUCKETS, sizeof(struct entry *));
    if (ledger->buckets == NULL)
        return false;
    ledger->bucket_count = FIRST_BUCKETS;
    return true;
}

static void release_offer(struct wire_offer *offer)
{
    desc_release(offer->desc);
    offer->desc = NULL;
}

static void free_entry(struct entry *entry)
{
    release_offer(&entry->agreed);
    release_offer(&entry->offer);
    release_offer(&entry->other);
    free(entry->census);
    free(entry);
}

void ledger_fini(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->bucket_count; i++) {
        struct entry *next = NULL;
        for (struct entry *entry = ledger->buckets[i]; entry != NULL; entry = next) {
            next = entry->next_of_bucket;
            free_entry(entry);
        }
    }
    free(ledger->buckets);
    free(ledger->slots);
}

static struct entry **bucket_of(const struct ledger *ledger, uint64_t hash)
{
    return &ledger->buckets[hash & (ledger->bucket_count - 1)];
}

static struct entry *find_hashed(const struct ledger *ledger, const char *name, uint64_t hash)
{
    struct entry *entry = *bucket_of(ledger, hash);
    while (entry != NULL && (entry->hash != hash || strcmp(entry->name, name) != 0))
        entry = entry->next_of_bucket;
    return entry;
}

struct entry *ledger_find(const struct ledger *ledger, const char *name)
{
    return find_hashed(ledger, name, hash_bytes(name, strlen(name)));
}

static void double_buckets(struct ledger *ledger)
{
    size_t count = 2 * ledger->bucket_count;
    struct entry **buckets = calloc(count, sizeof(struct entry *));
    if (buckets == NULL)
        return; /* longer chains are slower, not wrong */
    for (size_t i = 0; i < ledger->bucket_count; i++) {
        struct entry *next = NULL;
        for (struct entry *entry = ledger->buckets[i]; entry != NULL; entry = next) {
            next = entry->next_of_bucket;
            entry->next_of_bucket = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    }
    free(ledger->buckets);
    ledger->buckets = buckets;
    ledger->bucket_count = count;
}

struct entry *ledger_get(struct ledger *ledger, const char *name)
{
    size_t length = strlen(name);
    uint64_t hash = hash_bytes(name, length);
    struct entry *entry = find_hashed(ledger, name, hash);
    if (entry != NULL)
        return entry;
    entry = calloc(1, sizeof(*entry) + length + 1);
    if (entry == NULL)
        return NULL;
    if (ledger->entry_count >= ledger->bucket_count)
        double_buckets(ledger);
    entry->hash = hash;
    entry->number = WIRE_NO_ID;
    entry->plane = -1;
    entry->absent = -1;
    entry->needs_all = strcmp(name, DESC_SHUTDOWN_NAME) == 0;
    memcpy(entry->name, name, length + 1);
    entry->next_of_bucket = *bucket_of(ledger, hash);
    *bucket_of(ledger, hash) = entry;
    ledger->entry_count++;
    return entry;
}

struct entry *ledger_numbered(const struct ledger *ledger, uint32_t number)
{
    return number < ledger->slot_count ? ledger->slots[number].entry : NULL;
}

uint32_t ledger_free_number(const struct ledger *ledger, uint64_t limit)
{
    uint64_t most = limit == 0 || limit > WIRE_MAX_ID ? WIRE_MAX_ID : limit;
    if (ledger->free_count == 0)
        return ledger->slot_count < most ? (uint32_t)ledger->slot_count : WIRE_NO_ID;
    uint32_t number = 0;
    while (ledger->slots[number].entry != NULL)
        number++;
    return number;
}

bool ledger_number(struct ledger *ledger, struct entry *entry, uint32_t number)
{
    if (number < ledger->slot_count) {
        ledger->free_count--;
    } else {
        if (ledger->slot_count == ledger->slot_capacity) {
            size_t capacity = 2 * ledger->slot_capacity + 16;
            struct slot *slots = reallocarray(ledger->slots, capacity, sizeof(*slots));
            if (slots == NULL)
                return false;
            ledger->slots = slots;
            ledger->slot_capacity = capacity;
        }
        ledger->slot_count++;
    }
    ledger->slots[number] = (struct slot){.entry = entry};
    entry->number = number;
    TAILQ_INSERT_TAIL(&ledger->recent, entry, of_recent);
    return true;
}

void ledger_touch(struct ledger *ledger, struct entry *entry)
{
    TAILQ_REMOVE(&ledger->recent, entry, of_recent);
    TAILQ_INSERT_TAIL(&ledger->recent, entry, of_recent);
}

void ledger_retire(struct ledger *ledger, uint32_t number)
{
    struct slot *slot = &ledger->slots[number];
    slot->retiring = true;
    slot->knowing = 0;
    ledger->retiring_count++;
    TAILQ_REMOVE(&ledger->recent, slot->entry, of_recent);
}

void ledger_free(struct ledger *ledger, uint32_t number)
{
    struct entry *entry = ledger->slots[number].entry;
    ledger->slots[number] = (struct slot){.entry = NULL};
    ledger->retiring_count--;
    ledger->free_count++;
    entry->number = WIRE_NO_ID;
    if (entry->ready != 0 && entry->offer.desc == NULL) {
        /* who is ready has said so by the number */
        entry->offer.desc = entry->agreed.desc;
        entry->offer.planes = entry->agreed.planes;
        entry->agreed.desc = NULL;
    }
    release_offer(&entry->agreed);
    ledger_tidy(ledger, entry);
}

void ledger_reset(struct ledger *ledger, struct entry *entry)
{
    if (entry->ready != 0 && entry->phase == ENTRY_OPEN)
        TAILQ_REMOVE(&ledger->open, entry, of_open);
    entry->ready = 0;
    entry->since_us = 0;
    entry->phase = ENTRY_OPEN;
    entry->mismatch = false;
    entry->absent = -1;
    entry->user = NULL;
    release_offer(&entry->offer);
    release_offer(&entry->other);
    free(entry->census);
    entry->census = NULL;
    ledger_tidy(ledger, entry);
}

void ledger_tidy(struct ledger *ledger, struct entry *entry)
{
    if (entry->number != WIRE_NO_ID || entry->ready != 0)
        return;
    struct entry **linkp = bucket_of(ledger, entry->hash);
    while (*linkp != entry)
        linkp = &(*linkp)->next_of_bucket;
    *linkp = entry->next_of_bucket;
    ledger->entry_count--;
    free_entry(entry);
}
