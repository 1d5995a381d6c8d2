/* queue.c: where user threads hand in requests, and where they ask for them again. */
#include "flow/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* A handle is a slot's number and the count of its uses: a stale one is told from a live one. */
struct slot {
    uint32_t uses;
    uint32_t next_free;
    struct request *request; /* NULL: free */
};

#define NO_SLOT UINT32_MAX

struct queue {
    pthread_mutex_t lock;
    struct request *head, **tail; /* handed in, not yet taken */
    _Atomic bool waiting;         /* head != NULL, for looking without the lock */
    struct request **buckets;     /* in flight, by name */
    size_t bucket_count, in_flight;
    struct slot *slots;
    uint32_t slot_count, first_free;
    int refuse_status;
    struct hvd_error refuse_reason;
};

int queue_create(struct queue **queuep, struct hvd_error *err)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the queue");
    queue->bucket_count = 256;
    queue->buckets = calloc(queue->bucket_count, sizeof(struct request *));
    if (queue->buckets == NULL) {
        free(queue);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the queue");
    }
    pthread_mutex_init(&queue->lock, NULL);
    queue->tail = &queue->head;
    queue->first_free = NO_SLOT;
    *queuep = queue;
    return HVD_OK;
}

static void free_request(struct request *request)
{
    free(request->sentence);
    free(request);
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL)
        return;
    for (uint32_t i = 0; i < queue->slot_count; i++) {
        struct request *request = queue->slots[i].request;
        if (request != NULL && request->status != HVD_IN_PROGRESS)
            free_request(request);
    }
    for (size_t i = 0; i < queue->bucket_count; i++) {
        struct request *next = NULL;
        for (struct request *request = queue->buckets[i]; request != NULL; request = next) {
            next = request->next_of_bucket;
            free_request(request);
        }
    }
    pthread_mutex_destroy(&queue->lock);
    free(queue->buckets);
    free(queue->slots);
    free(queue);
}

static struct request **find_in_flight(struct queue *queue, const char *name, uint64_t hash)
{
    struct request **at = &queue->buckets[hash & (queue->bucket_count - 1)];
    while (*at != NULL && ((*at)->hash != hash || strcmp((*at)->desc.name, name) != 0))
        at = &(*at)->next_of_bucket;
    return at;
}

static void double_buckets(struct queue *queue)
{
    size_t count = 2 * queue->bucket_count;
    struct request **buckets = calloc(count, sizeof(struct request *));
    if (buckets == NULL)
        return; /* longer chains are slower, not wrong */
    for (size_t i = 0; i < queue->bucket_count; i++) {
        struct request *next = NULL;
        for (struct request *request = queue->buckets[i]; request != NULL; request = next) {
            next = request->next_of_bucket;
            request->next_of_bucket = buckets[request->hash & (count - 1)];
            buckets[request->hash & (count - 1)] = request;
        }
    }
    free(queue->buckets);
    queue->buckets = buckets;
    queue->bucket_count = count;
}

/* Make sure that there is a free slot. */
static bool have_slot_locked(struct queue *queue)
{
    if (queue->first_free != NO_SLOT)
        return true;
    uint32_t count = queue->slot_count == 0 ? 64 : 2 * queue->slot_count;
    struct slot *slots = reallocarray(queue->slots, count, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (uint32_t i = queue->slot_count; i < count; i++)
        slots[i] = (struct slot){.uses = 0, .next_free = i + 1 < count ? i + 1 : NO_SLOT};
    queue->first_free = queue->slot_count;
    queue->slots = slots;
    queue->slot_count = count;
    return true;
}

static hvd_handle take_slot_locked(struct queue *queue, struct request *request)
{
    uint32_t index = queue->first_free;
    struct slot *slot = &queue->slots[index];
    queue->first_free = slot->next_free;
    slot->request = request;
    slot->uses++;
    return (hvd_handle)slot->uses << 32 | (index + 1);
}

static struct slot *find_slot_locked(struct queue *queue, hvd_handle handle)
{
    uint32_t index = (uint32_t)handle - 1;
    if (index >= queue->slot_count)
        return NULL;
    struct slot *slot = &queue->slots[index];
    return slot->request != NULL && slot->uses == (uint32_t)(handle >> 32) ? slot : NULL;
}

/* HVD_OK where [request] may be taken; otherwise why not, with the operation's title. */
static int check_locked(struct queue *queue, const struct request *request, struct hvd_error *err)
{
    char title[HVD_MAX_NAME + 32];
    bool refused = queue->refuse_status != HVD_OK;
    if (!refused && *find_in_flight(queue, request->desc.name, request->hash) == NULL)
        return HVD_OK;
    desc_title(&request->desc, title, sizeof(title));
    if (refused)
        return error_set(err, queue->refuse_status, "%s: %s", title, queue->refuse_reason.text);
    return error_set(
        err, HVD_ERR_DUPLICATE,
        "%s: an operation of that name is still in flight on this rank; wait for it, or use another name",
        title);
}

static int submit_locked(struct queue *queue, struct request *request, hvd_handle *handlep, bool *firstp,
                         struct hvd_error *err)
{
    int rc = check_locked(queue, request, err);
    if (rc != HVD_OK)
        return rc;
    if (handlep != NULL && !have_slot_locked(queue))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for another operation");
    *find_in_flight(queue, request->desc.name, request->hash) = request;
    queue->in_flight++;
    if (queue->in_flight > queue->bucket_count)
        double_buckets(queue);
    if (handlep != NULL)
        *handlep = request->handle = take_slot_locked(queue, request);
    *firstp = queue->head == NULL;
    *queue->tail = request;
    queue->tail = &request->next;
    atomic_store_explicit(&queue->waiting, true, memory_order_release);
    return HVD_OK;
}

int queue_submit(struct queue *queue, const struct request *request, hvd_handle *handlep, bool *firstp,
                 struct hvd_error *err)
{
    struct request *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for another operation");
    *copy = *request;
    copy->hash = hash_bytes(copy->desc.name, strlen(copy->desc.name));
    copy->next = copy->next_of_bucket = NULL;
    copy->handle = 0;
    copy->decided = false;
    copy->status = HVD_IN_PROGRESS;
    copy->sentence = NULL;
    pthread_mutex_lock(&queue->lock);
    int rc = submit_locked(queue, copy, handlep, firstp, err);
    pthread_mutex_unlock(&queue->lock);
    if (rc != HVD_OK)
        free(copy);
    return rc;
}

void queue_refuse(struct queue *queue, int status, const char *sentence)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->refuse_status == HVD_OK)
        queue->refuse_status = error_set(&queue->refuse_reason, status, "%s", sentence);
    pthread_mutex_unlock(&queue->lock);
}

struct request *queue_take(struct queue *queue)
{
    if (!atomic_load_explicit(&queue->waiting, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&queue->lock);
    struct request *list = queue->head;
    queue->head = NULL;
    queue->tail = &queue->head;
    atomic_store_explicit(&queue->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&queue->lock);
    return list;
}

static void withdraw_locked(struct queue *queue, struct request *request)
{
    struct request **at = find_in_flight(queue, request->desc.name, request->hash);
    *at = request->next_of_bucket;
    queue->in_flight--;
}

void queue_withdraw(struct queue *queue, struct request *request)
{
    pthread_mutex_lock(&queue->lock);
    withdraw_locked(queue, request);
    pthread_mutex_unlock(&queue->lock);
}

struct request *queue_withdraw_undecided(struct queue *queue)
{
    struct request *list = NULL;
    pthread_mutex_lock(&queue->lock);
    for (size_t i = 0; i < queue->bucket_count; i++) {
        struct request *next = NULL;
        for (struct request *request = queue->buckets[i]; request != NULL; request = next) {
            next = request->next_of_bucket;
            if (request->decided)
                continue;
            withdraw_locked(queue, request);
            request->next = list;
            list = request;
        }
    }
    queue->head = NULL;
    queue->tail = &queue->head;
    atomic_store_explicit(&queue->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&queue->lock);
    return list;
}

void queue_finish(struct queue *queue, struct request *request, int status, const char *sentence)
{
    char *copy = sentence != NULL ? strdup(sentence) : NULL; /* without memory the status must do */
    pthread_mutex_lock(&queue->lock);
    request->sentence = copy;
    request->status = status;
    bool asked_for = request->handle != 0;
    pthread_mutex_unlock(&queue->lock);
    if (!asked_for)
        free_request(request);
}

int queue_test(struct queue *queue, hvd_handle handle, struct hvd_error *err)
{
    pthread_mutex_lock(&queue->lock);
    struct slot *slot = find_slot_locked(queue, handle);
    int status = HVD_ERR_INVALID;
    if (slot == NULL)
        error_set(err, status, "handle %#llx is not in flight: it was waited for already, or never given out",
                  (unsigned long long)handle);
    else
        status = slot->request->status;
    if (slot != NULL && status < 0)
        error_set(err, status, "%s",
                  slot->request->sentence != NULL ? slot->request->sentence : status_text(status));
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void queue_release(struct queue *queue, hvd_handle handle)
{
    struct request *request = NULL;
    pthread_mutex_lock(&queue->lock);
    struct slot *slot = find_slot_locked(queue, handle);
    if (slot != NULL && slot->request->status != HVD_IN_PROGRESS) {
        request = slot->request;
        slot->request = NULL;
        slot->next_free = queue->first_free;
        queue->first_free = (uint32_t)(slot - queue->slots);
    }
    pthread_mutex_unlock(&queue->lock);
    if (request != NULL)
        free_request(request);
}
