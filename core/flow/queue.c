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
    struct piece **buckets;       /* in flight, by set and name */
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
    queue->buckets = calloc(queue->bucket_count, sizeof(struct piece *));
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

struct request *request_create(const struct desc *desc)
{
    size_t pieces_bytes = (size_t)desc->tensor_count * sizeof(struct piece);
    struct request *request = calloc(1, sizeof(*request) + pieces_bytes);
    if (request == NULL)
        return NULL;
    request->desc = desc_hold(desc);
    request->piece_count = request->pieces_left = desc->tensor_count;
    for (int i = 0; i < request->piece_count; i++) {
        request->pieces[i].request = request;
        request->pieces[i].index = i;
    }
    return request;
}

void request_free(struct request *request)
{
    if (request == NULL)
        return;
    for (int i = 0; i < request->piece_count; i++) {
        free(request->pieces[i].member_rows);
        if (request->pieces[i].owned)
            free(request->pieces[i].output);
    }
    desc_release(request->desc);
    free(request->splits);
    free(request->reason);
    free(request->sentence);
    free(request);
}

void request_fail(struct request *request, int status, const char *reason)
{
    if (request->worst != HVD_OK)
        return;
    request->worst = status;
    request->reason = strdup(reason); /* without memory the status must do */
}

/* ---- Names in flight ---- */

/* What the operation is known by is hvd's own name where it is hvd's own. */
static const char *name_of(const struct piece *piece)
{
    const struct desc *desc = piece->request->desc;
    return piece->index == 0 ? desc_name(desc) : desc->tensors[piece->index].name;
}

static uint64_t hash_of(const struct piece *piece)
{
    const char *name = name_of(piece);
    return hash_bytes(name, strlen(name)) ^
           (uint64_t)piece->request->desc->set * UINT64_C(0x9e3779b97f4a7c15);
}

/* Where a piece of the set and name of [piece] hangs, or would. */
static struct piece **find_in_flight(struct queue *queue, const struct piece *piece)
{
    struct piece **at = &queue->buckets[piece->hash & (queue->bucket_count - 1)];
    while (*at != NULL &&
           ((*at)->hash != piece->hash || (*at)->request->desc->set != piece->request->desc->set ||
            strcmp(name_of(*at), name_of(piece)) != 0))
        at = &(*at)->next_of_bucket;
    return at;
}

static void double_buckets(struct queue *queue)
{
    size_t count = 2 * queue->bucket_count;
    struct piece **buckets = calloc(count, sizeof(struct piece *));
    if (buckets == NULL)
        return; /* longer chains are slower, not wrong */
    for (size_t i = 0; i < queue->bucket_count; i++) {
        struct piece *next = NULL;
        for (struct piece *piece = queue->buckets[i]; piece != NULL; piece = next) {
            next = piece->next_of_bucket;
            piece->next_of_bucket = buckets[piece->hash & (count - 1)];
            buckets[piece->hash & (count - 1)] = piece;
        }
    }
    free(queue->buckets);
    queue->buckets = buckets;
    queue->bucket_count = count;
}

/* Forget the first [count] names of [request]. */
static void forget_names_locked(struct queue *queue, struct request *request, int count)
{
    for (int i = 0; i < count; i++) {
        struct piece **at = find_in_flight(queue, &request->pieces[i]);
        *at = request->pieces[i].next_of_bucket;
    }
    queue->in_flight -= (size_t)count;
}

/* Why the name of [piece] cannot be taken: [other] has it. */
static int refuse_name(const struct piece *piece, const struct piece *other, struct hvd_error *err)
{
    const struct request *request = piece->request;
    const char *name = name_of(piece);
    char title[DESC_TITLE_BYTES];
    desc_title(request->desc, title, sizeof(title));
    if (other->request == request)
        return error_set(err, HVD_ERR_DUPLICATE,
                         "%s: tensors %d and %d are both named \"%s\"; give each its own name", title,
                         other->index, piece->index, name);
    if ((unsigned char)name[0] < ' ')
        return error_set(
            err, HVD_ERR_DUPLICATE,
            "%s: one is still in flight on this rank, and the set has one at a time; wait for it", title);
    if (request->piece_count == 1)
        return error_set(err, HVD_ERR_DUPLICATE,
                         "%s: an operation of that name is still in flight on this rank; wait for it, or use "
                         "another name",
                         title);
    return error_set(err, HVD_ERR_DUPLICATE,
                     "%s: an operation named \"%s\" is still in flight on this rank; wait for it, or use "
                     "another name",
                     title, name);
}

/* All names of [request], or none. */
static int take_names_locked(struct queue *queue, struct request *request, struct hvd_error *err)
{
    for (int i = 0; i < request->piece_count; i++) {
        struct piece *piece = &request->pieces[i];
        struct piece **at = find_in_flight(queue, piece);
        if (*at != NULL) {
            refuse_name(piece, *at, err);
            forget_names_locked(queue, request, i);
            return HVD_ERR_DUPLICATE;
        }
        piece->next_of_bucket = NULL;
        *at = piece;
        queue->in_flight++;
        if (queue->in_flight > queue->bucket_count)
            double_buckets(queue);
    }
    return HVD_OK;
}

/* ---- Handles ---- */

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

/* ---- In and out ---- */

static int submit_locked(struct queue *queue, struct request *request, hvd_handle *handlep, bool *firstp,
                         struct hvd_error *err)
{
    if (queue->refuse_status != HVD_OK) {
        char title[DESC_TITLE_BYTES];
        desc_title(request->desc, title, sizeof(title));
        return error_set(err, queue->refuse_status, "%s: %s", title, queue->refuse_reason.text);
    }
    if (handlep != NULL && !have_slot_locked(queue))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for another operation");
    int rc = take_names_locked(queue, request, err);
    if (rc != HVD_OK)
        return rc;
    if (handlep != NULL)
        *handlep = request->handle = take_slot_locked(queue, request);
    *firstp = queue->head == NULL;
    *queue->tail = request;
    queue->tail = &request->next;
    atomic_store_explicit(&queue->waiting, true, memory_order_release);
    return HVD_OK;
}

int queue_submit(struct queue *queue, struct request *request, hvd_handle *handlep, bool *firstp,
                 struct hvd_error *err)
{
    request->next = NULL;
    request->status = HVD_IN_PROGRESS;
    for (int i = 0; i < request->piece_count; i++)
        request->pieces[i].hash = hash_of(&request->pieces[i]);
    pthread_mutex_lock(&queue->lock);
    int rc = submit_locked(queue, request, handlep, firstp, err);
    pthread_mutex_unlock(&queue->lock);
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

void queue_withdraw(struct queue *queue, struct request *request)
{
    pthread_mutex_lock(&queue->lock);
    forget_names_locked(queue, request, request->piece_count);
    pthread_mutex_unlock(&queue->lock);
}

static bool is_of_set(const struct request *request, hvd_set set)
{
    return set == QUEUE_ALL_SETS || request->desc->set == set;
}

/* Keep those of other sets among what was handed in. */
static void drop_handed_in_locked(struct queue *queue, hvd_set set)
{
    struct request **at = &queue->head;
    while (*at != NULL) {
        if (is_of_set(*at, set))
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    queue->tail = at;
    atomic_store_explicit(&queue->waiting, queue->head != NULL, memory_order_relaxed);
}

static struct request *withdraw_locked(struct queue *queue, hvd_set set, bool decided_too)
{
    struct request *list = NULL;
    drop_handed_in_locked(queue, set);
    for (size_t i = 0; i < queue->bucket_count; i++) {
        for (struct piece *piece = queue->buckets[i]; piece != NULL; piece = piece->next_of_bucket) {
            struct request *request = piece->request;
            if (piece->index > 0 || !is_of_set(request, set) || (request->decided && !decided_too))
                continue;
            request->next = list;
            list = request;
        }
    }
    for (struct request *request = list; request != NULL; request = request->next)
        forget_names_locked(queue, request, request->piece_count);
    return list;
}

struct request *queue_withdraw_undecided(struct queue *queue, hvd_set set)
{
    pthread_mutex_lock(&queue->lock);
    struct request *list = withdraw_locked(queue, set, false);
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
        request_free(request);
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
        request_free(request);
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL)
        return;
    for (uint32_t i = 0; i < queue->slot_count; i++) {
        struct request *request = queue->slots[i].request;
        if (request != NULL && request->status != HVD_IN_PROGRESS)
            request_free(request);
    }
    struct request *next = NULL;
    for (struct request *request = withdraw_locked(queue, QUEUE_ALL_SETS, true); request != NULL;
         request = next) {
        next = request->next;
        request_free(request);
    }
    pthread_mutex_destroy(&queue->lock);
    free(queue->buckets);
    free(queue->slots);
    free(queue);
}
