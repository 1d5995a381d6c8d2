/* tensor_queue.c: where user threads hand in requests, and where they ask for them again. */
#include "flow/tensor_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/prefetch.h"

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
    _Atomic uint64_t finished;    /* counted by whoever drives */
    _Atomic bool waiting;         /* head != NULL, for looking without the lock */
    struct piece **buckets;       /* in flight or kept, by set and name: one of a name */
    size_t bucket_count, listed;
    TAILQ_HEAD(request_list, request) idle; /* kept, least recently used first */
    struct request *expected;               /* of them: the one behind the last that was recalled, or NULL */
    int64_t idle_pieces, keep_limit;
    struct slot *slots;
    uint32_t slot_count, first_free;
    int refuse_status;
    struct hvd_error refuse_reason;
};

int queue_create(struct queue **queuep, int64_t keep_limit, struct hvd_error *err)
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
    TAILQ_INIT(&queue->idle);
    queue->keep_limit = keep_limit > 0 ? keep_limit : QUEUE_KEEPS;
    *queuep = queue;
    return HVD_OK;
}

/* ---- Names ----
 *
 * The table holds the names of what is in flight, and of what is over and was not given another turn yet: a
 * name that is submitted again finds all that it needs in its place. */

static struct piece **bucket_of(const struct queue *queue, uint64_t hash)
{
    return &queue->buckets[hash & (queue->bucket_count - 1)];
}

/* Where the piece of that set and name hangs, or would. */
static struct piece **find_locked(struct queue *queue, uint64_t hash, hvd_set set, const char *name)
{
    struct piece **at = bucket_of(queue, hash);
    while (*at != NULL &&
           ((*at)->hash != hash || (*at)->request->desc->set != set || strcmp(request_name(*at), name) != 0))
        at = &(*at)->next_of_bucket;
    return at;
}

static struct piece **find_name_locked(struct queue *queue, const struct piece *piece)
{
    return find_locked(queue, piece->hash, piece->request->desc->set, request_name(piece));
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

static void unlist_piece_locked(struct queue *queue, struct piece **at)
{
    struct piece *piece = *at;
    *at = piece->next_of_bucket;
    piece->listed = false;
    piece->request->pieces_listed--;
    queue->listed--;
}

/* Take the names of [request] out of the table. */
static void unlist_locked(struct queue *queue, struct request *request)
{
    for (int i = 0; i < request->piece_count && request->pieces_listed > 0; i++) {
        struct piece *piece = &request->pieces[i];
        struct piece **at = bucket_of(queue, piece->hash);
        while (piece->listed && *at != piece)
            at = &(*at)->next_of_bucket;
        if (piece->listed)
            unlist_piece_locked(queue, at);
    }
}

static void rouse_locked(struct queue *queue, struct request *request)
{
    if (queue->expected == request)
        queue->expected = TAILQ_NEXT(request, of_idle);
    TAILQ_REMOVE(&queue->idle, request, of_idle);
    queue->idle_pieces -= request->piece_count;
    request->idle = false;
}

/* Free a request that is over, or was never handed in. */
static void drop_locked(struct queue *queue, struct request *request)
{
    if (request->idle)
        rouse_locked(queue, request);
    unlist_locked(queue, request);
    request_free(request);
}

/* The names of [request] are free; nobody holds its handle. */
static void retire_locked(struct queue *queue, struct request *request)
{
    bool whole = request->pieces_listed == request->piece_count; /* no other took one of its names */
    if (!request->returns || !whole || request->status != HVD_OK) {
        drop_locked(queue, request);
        return;
    }
    request_renew(request);
    request->idle = true;
    TAILQ_INSERT_TAIL(&queue->idle, request, of_idle);
    queue->idle_pieces += request->piece_count;
    while (queue->idle_pieces > queue->keep_limit)
        drop_locked(queue, TAILQ_FIRST(&queue->idle));
}

/* Why the name of [piece] cannot be taken: [other] has it. */
static int refuse_name(const struct piece *piece, const struct piece *other, struct hvd_error *err)
{
    const struct request *request = piece->request;
    const char *name = request_name(piece);
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

/* Put a name into the table, over one that is over. */
static int list_locked(struct queue *queue, struct piece *piece, struct hvd_error *err)
{
    struct piece **at = find_name_locked(queue, piece);
    if (*at != NULL && atomic_load_explicit(&(*at)->request->live, memory_order_acquire))
        return refuse_name(piece, *at, err);
    if (*at != NULL && (*at)->request->idle) {
        drop_locked(queue, (*at)->request);
        at = find_name_locked(queue, piece);
    } else if (*at != NULL) {
        unlist_piece_locked(queue, at);
    }
    piece->next_of_bucket = *at;
    *at = piece;
    piece->listed = true;
    piece->request->pieces_listed++;
    queue->listed++;
    if (queue->listed > queue->bucket_count)
        double_buckets(queue);
    return HVD_OK;
}

/* All names of [request], or none. */
static int take_names_locked(struct queue *queue, struct request *request, struct hvd_error *err)
{
    int rc = HVD_OK;
    /* first, so that its own names are in its way too */
    atomic_store_explicit(&request->live, true, memory_order_relaxed);
    for (int i = 0; i < request->piece_count && rc == HVD_OK; i++) {
        if (!request->pieces[i].listed)
            rc = list_locked(queue, &request->pieces[i], err);
    }
    if (rc != HVD_OK)
        queue_withdraw(request);
    return rc;
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

/* Most programs hand in the same operations in the same order, step after step. */
static bool is_expected_locked(const struct queue *queue, hvd_set set, const char *name)
{
    const struct request *expected = queue->expected;
    return expected != NULL && expected->desc->set == set && strcmp(desc_name(expected->desc), name) == 0;
}

static struct request *find_idle_locked(struct queue *queue, hvd_set set, const char *name)
{
    if (is_expected_locked(queue, set, name))
        return queue->expected;
    size_t length = strnlen(name, HVD_MAX_NAME + 1);
    if (length > HVD_MAX_NAME)
        return NULL;
    const struct piece *piece = *find_locked(queue, request_hash(set, name, length), set, name);
    return piece != NULL && piece->index == 0 && piece->request->idle ? piece->request : NULL;
}

/* Of what is handed in next the name is the first that is read, and nobody has read it since the last step:
 * it is mostly where it was then. Should it be gone, what lies there is not looked at. */
static void ask_for_name_locked(const struct queue *queue)
{
    if (queue->expected != NULL)
        prefetch_to_read(queue->expected->told_at);
}

struct request *queue_recall(struct queue *queue, hvd_set set, const char *name)
{
    pthread_mutex_lock(&queue->lock);
    struct request *request = find_idle_locked(queue, set, name);
    if (request != NULL) {
        queue->expected = request;
        rouse_locked(queue, request);
        request->told_at = name;
        ask_for_name_locked(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return request;
}

void queue_discard(struct queue *queue, struct request *request)
{
    pthread_mutex_lock(&queue->lock);
    drop_locked(queue, request);
    pthread_mutex_unlock(&queue->lock);
}

static int submit_locked(struct queue *queue, struct request *request, hvd_handle *handlep,
                         struct hvd_error *err)
{
    if (queue->refuse_status != HVD_OK) {
        char title[DESC_TITLE_BYTES];
        desc_title(request->desc, title, sizeof(title));
        return error_set(err, queue->refuse_status, "%s: %s", title, queue->refuse_reason.text);
    }
    if (handlep != NULL && !have_slot_locked(queue))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for another operation");
    return take_names_locked(queue, request, err);
}

int queue_submit(struct queue *queue, struct request *request, hvd_handle *handlep, bool *firstp,
                 struct hvd_error *err)
{
    request->next = NULL;
    request->handle = 0;
    atomic_store_explicit(&request->status, HVD_IN_PROGRESS, memory_order_relaxed);
    pthread_mutex_lock(&queue->lock);
    int rc = submit_locked(queue, request, handlep, err);
    if (rc != HVD_OK) {
        unlist_locked(queue, request);
    } else {
        if (handlep != NULL)
            *handlep = request->handle = take_slot_locked(queue, request);
        *firstp = queue->head == NULL;
        *queue->tail = request;
        queue->tail = &request->next;
        atomic_store_explicit(&queue->waiting, true, memory_order_release);
    }
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

bool queue_waits(const struct queue *queue)
{
    return atomic_load_explicit(&queue->waiting, memory_order_acquire);
}

struct request *queue_take(struct queue *queue)
{
    if (!queue_waits(queue))
        return NULL;
    pthread_mutex_lock(&queue->lock);
    struct request *list = queue->head;
    queue->head = NULL;
    queue->tail = &queue->head;
    atomic_store_explicit(&queue->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&queue->lock);
    return list;
}

void queue_withdraw(struct request *request)
{
    atomic_store_explicit(&request->live, false, memory_order_release);
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

/* Nobody can hand in anything in a set that is no more. */
static void drop_idle_locked(struct queue *queue, hvd_set set)
{
    struct request *next = NULL;
    for (struct request *request = TAILQ_FIRST(&queue->idle); request != NULL; request = next) {
        next = TAILQ_NEXT(request, of_idle);
        if (is_of_set(request, set))
            drop_locked(queue, request);
    }
}

struct request *queue_withdraw_undecided(struct queue *queue, hvd_set set)
{
    struct request *list = NULL;
    pthread_mutex_lock(&queue->lock);
    drop_handed_in_locked(queue, set);
    drop_idle_locked(queue, set);
    for (size_t i = 0; i < queue->bucket_count; i++) {
        for (struct piece *piece = queue->buckets[i]; piece != NULL; piece = piece->next_of_bucket) {
            struct request *request = piece->request;
            if (piece->index > 0 || !request->live || request->decided || !is_of_set(request, set))
                continue;
            queue_withdraw(request);
            request->next = list;
            list = request;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return list;
}

void queue_finish(struct queue *queue, struct request *request, int status, const char *sentence)
{
    bool asked_for = request->handle != 0;
    request->sentence = sentence != NULL ? strdup(sentence) : NULL; /* without memory the status must do */
    /* from here on it is whoever's who holds the handle */
    atomic_store_explicit(&request->status, status, memory_order_release);
    uint64_t finished = atomic_load_explicit(&queue->finished, memory_order_relaxed);
    atomic_store_explicit(&queue->finished, finished + 1, memory_order_release);
    if (asked_for)
        return;
    pthread_mutex_lock(&queue->lock);
    retire_locked(queue, request);
    pthread_mutex_unlock(&queue->lock);
}

uint64_t queue_finished(const struct queue *queue)
{
    return atomic_load_explicit(&queue->finished, memory_order_acquire);
}

static int test_locked(struct queue *queue, hvd_handle handle, struct slot **slotp, struct hvd_error *err)
{
    struct slot *slot = find_slot_locked(queue, handle);
    *slotp = slot;
    if (slot == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "handle %#llx is not in flight: it was waited for already, or never given out",
                         (unsigned long long)handle);
    int status = atomic_load_explicit(&slot->request->status, memory_order_acquire);
    if (status < 0)
        error_set(err, status, "%s",
                  slot->request->sentence != NULL ? slot->request->sentence : status_text(status));
    return status;
}

int queue_test(struct queue *queue, hvd_handle handle, struct hvd_error *err)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&queue->lock);
    int status = test_locked(queue, handle, &slot, err);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

int queue_collect(struct queue *queue, hvd_handle handle, struct hvd_error *err)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&queue->lock);
    int status = test_locked(queue, handle, &slot, err);
    if (slot != NULL && status != HVD_IN_PROGRESS) {
        retire_locked(queue, slot->request);
        slot->request = NULL;
        slot->next_free = queue->first_free;
        queue->first_free = (uint32_t)(slot - queue->slots);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL)
        return;
    for (uint32_t i = 0; i < queue->slot_count; i++) {
        struct request *request = queue->slots[i].request;
        if (request != NULL && request->status != HVD_IN_PROGRESS)
            drop_locked(queue, request);
    }
    for (size_t i = 0; i < queue->bucket_count; i++) {
        while (queue->buckets[i] != NULL)
            drop_locked(queue, queue->buckets[i]->request);
    }
    pthread_mutex_destroy(&queue->lock);
    free(queue->buckets);
    free(queue->slots);
    free(queue);
}
