/* tensor_queue.c: user threads submit requests here and test them; the progress driver takes them. */
#include "flow/tensor_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

/* A handle is a slot's index and generation, so that a stale handle is not mistaken for a live one. */
struct handle_slot {
    uint32_t generation;
    uint32_t next_free;
    struct request *request; /* NULL: free */
};

#define NO_SLOT       UINT32_MAX
#define FIRST_BUCKETS 256

/* Requests that are submitted, and not yet taken. */
struct submitted {
    struct request *head, **tail;
    _Atomic bool waiting; /* head != NULL; can be read without the lock */
};

struct tensor_queue {
    pthread_mutex_t lock;
    struct submitted operations, messages;
    _Atomic uint64_t finished;              /* written by the driver only */
    struct name_table names;                /* tensors in flight or idle, by set and name; each name once */
    TAILQ_HEAD(request_list, request) idle; /* least recently used first */
    struct request *expected;               /* the idle request that is probably reused next, or NULL */
    int64_t idle_tensors, idle_limit;
    struct handle_slot *slots;
    uint32_t slot_count, first_free;
    int refuse_status;
    bool refuses_messages;
    struct hvd_error refuse_reason;
};

int tensor_queue_create(struct tensor_queue **queuep, int64_t idle_limit, struct hvd_error *err)
{
    struct tensor_queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the queue");
    if (!name_table_init(&queue->names, FIRST_BUCKETS)) {
        free(queue);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the queue");
    }
    pthread_mutex_init(&queue->lock, NULL);
    queue->operations.tail = &queue->operations.head;
    queue->messages.tail = &queue->messages.head;
    queue->first_free = NO_SLOT;
    TAILQ_INIT(&queue->idle);
    queue->idle_limit = idle_limit > 0 ? idle_limit : TENSOR_QUEUE_IDLE_LIMIT;
    *queuep = queue;
    return HVD_OK;
}

/* ---- Names ----
 *
 * The table holds the names of requests in flight and of idle ones. An idle request is done, but is kept so
 * that the next submission of the same operation reuses it and its entries in the table. */

static struct request_tensor *tensor_of(struct name_link *link)
{
    return (void *)((char *)link - offsetof(struct request_tensor, link));
}

/* The tensor of this set and name, or NULL. */
static struct request_tensor *find_tensor_locked(const struct tensor_queue *queue, uint64_t hash, hvd_set set,
                                                 const char *name)
{
    for (struct name_link *link = name_table_bucket(&queue->names, hash); link != NULL; link = link->next) {
        struct request_tensor *tensor = tensor_of(link);
        if (link->hash == hash && tensor->request->desc->set == set &&
            strcmp(request_name(tensor), name) == 0)
            return tensor;
    }
    return NULL;
}

static void remove_name_locked(struct tensor_queue *queue, struct request_tensor *tensor)
{
    name_table_remove(&queue->names, &tensor->link);
    tensor->in_table = false;
    tensor->request->tensors_in_table--;
}

/* Remove the names of [request] from the table. */
static void remove_names_locked(struct tensor_queue *queue, struct request *request)
{
    for (int i = 0; i < request->tensor_count && request->tensors_in_table > 0; i++) {
        if (request->tensors[i].in_table)
            remove_name_locked(queue, &request->tensors[i]);
    }
}

static void remove_idle_locked(struct tensor_queue *queue, struct request *request)
{
    if (queue->expected == request)
        queue->expected = TAILQ_NEXT(request, idle_link);
    TAILQ_REMOVE(&queue->idle, request, idle_link);
    queue->idle_tensors -= request->tensor_count;
    request->idle = false;
}

/* Free a request that is done, or was never submitted. */
static void free_locked(struct tensor_queue *queue, struct request *request)
{
    if (request->idle)
        remove_idle_locked(queue, request);
    remove_names_locked(queue, request);
    request_free(request);
}

/* Keep [request] for reuse, or free it. The caller has withdrawn its names and released its handle. */
static void recycle_locked(struct tensor_queue *queue, struct request *request)
{
    /* false if another request took one of its names */
    bool whole = request->tensors_in_table == request->tensor_count;
    if (!request->reusable || !whole || request->status != HVD_OK) {
        free_locked(queue, request);
        return;
    }
    request_reset(request);
    request->idle = true;
    TAILQ_INSERT_TAIL(&queue->idle, request, idle_link);
    queue->idle_tensors += request->tensor_count;
    while (queue->idle_tensors > queue->idle_limit)
        free_locked(queue, TAILQ_FIRST(&queue->idle));
}

/* The name of [tensor] is taken by [other]. */
static int duplicate_error(const struct request_tensor *tensor, const struct request_tensor *other,
                           struct hvd_error *err)
{
    const struct request *request = tensor->request;
    const char *name = request_name(tensor);
    char title[DESC_TITLE_BYTES];
    desc_title(request->desc, title, sizeof(title));
    if (other->request == request)
        return error_set(err, HVD_ERR_DUPLICATE,
                         "%s: tensors %d and %d are both named \"%s\"; give each its own name", title,
                         other->index, tensor->index, name);
    if ((unsigned char)name[0] < ' ')
        return error_set(
            err, HVD_ERR_DUPLICATE,
            "%s: one is still in flight on this rank, and the set has one at a time; wait for it", title);
    if (request->tensor_count == 1)
        return error_set(err, HVD_ERR_DUPLICATE,
                         "%s: an operation of that name is still in flight on this rank; wait for it, or use "
                         "another name",
                         title);
    return error_set(err, HVD_ERR_DUPLICATE,
                     "%s: an operation named \"%s\" is still in flight on this rank; wait for it, or use "
                     "another name",
                     title, name);
}

/* Put a tensor's name into the table; it replaces the same name of a request that is done. */
static int insert_name_locked(struct tensor_queue *queue, struct request_tensor *tensor,
                              struct hvd_error *err)
{
    struct request_tensor *other =
        find_tensor_locked(queue, tensor->link.hash, tensor->request->desc->set, request_name(tensor));
    if (other != NULL && atomic_load_explicit(&other->request->live, memory_order_acquire))
        return duplicate_error(tensor, other, err);
    if (other != NULL && other->request->idle)
        free_locked(queue, other->request);
    else if (other != NULL)
        remove_name_locked(queue, other);
    name_table_insert(&queue->names, &tensor->link);
    tensor->in_table = true;
    tensor->request->tensors_in_table++;
    return HVD_OK;
}

/* Reserve all names of [request]. On failure some are in the table already, and the caller removes them. */
static int reserve_names_locked(struct tensor_queue *queue, struct request *request, struct hvd_error *err)
{
    int rc = HVD_OK;
    /* set live first, so that insert_name_locked finds a name that two of its tensors have */
    atomic_store_explicit(&request->live, true, memory_order_relaxed);
    for (int i = 0; i < request->tensor_count && rc == HVD_OK; i++) {
        if (!request->tensors[i].in_table)
            rc = insert_name_locked(queue, &request->tensors[i], err);
    }
    if (rc != HVD_OK)
        tensor_queue_withdraw(request);
    return rc;
}

/* ---- Handles ---- */

/* False if there is no free slot and no memory for more. */
static bool ensure_slot_locked(struct tensor_queue *queue)
{
    if (queue->first_free != NO_SLOT)
        return true;
    uint32_t count = queue->slot_count == 0 ? 64 : 2 * queue->slot_count;
    struct handle_slot *slots = reallocarray(queue->slots, count, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (uint32_t i = queue->slot_count; i < count; i++)
        slots[i] = (struct handle_slot){.generation = 0, .next_free = i + 1 < count ? i + 1 : NO_SLOT};
    queue->first_free = queue->slot_count;
    queue->slots = slots;
    queue->slot_count = count;
    return true;
}

static hvd_handle take_slot_locked(struct tensor_queue *queue, struct request *request)
{
    uint32_t index = queue->first_free;
    struct handle_slot *slot = &queue->slots[index];
    queue->first_free = slot->next_free;
    slot->request = request;
    slot->generation++;
    return (hvd_handle)slot->generation << 32 | (index + 1);
}

static struct handle_slot *find_slot_locked(struct tensor_queue *queue, hvd_handle handle)
{
    uint32_t index = (uint32_t)handle - 1;
    if (index >= queue->slot_count)
        return NULL;
    struct handle_slot *slot = &queue->slots[index];
    return slot->request != NULL && slot->generation == (uint32_t)(handle >> 32) ? slot : NULL;
}

static void free_slot_locked(struct tensor_queue *queue, struct handle_slot *slot)
{
    slot->request = NULL;
    slot->next_free = queue->first_free;
    queue->first_free = (uint32_t)(slot - queue->slots);
}

/* ---- In and out ---- */

/* Most programs submit the same operations in the same order in every step. */
static bool is_expected_locked(const struct tensor_queue *queue, hvd_set set, const char *name)
{
    const struct request *expected = queue->expected;
    return expected != NULL && expected->desc->set == set && strcmp(desc_name(expected->desc), name) == 0;
}

static struct request *find_idle_locked(struct tensor_queue *queue, hvd_set set, const char *name)
{
    if (is_expected_locked(queue, set, name))
        return queue->expected;
    size_t length = strnlen(name, HVD_MAX_NAME + 1);
    if (length > HVD_MAX_NAME)
        return NULL;
    const struct request_tensor *tensor =
        find_tensor_locked(queue, request_hash(set, name, length), set, name);
    return tensor != NULL && tensor->index == 0 && tensor->request->idle ? tensor->request : NULL;
}

/* The next submission first reads its name, which was last read a step ago and mostly lies at the same
 * address. A prefetch does no harm if that address is not valid any more. */
static void prefetch_name_locked(const struct tensor_queue *queue)
{
    if (queue->expected != NULL)
        prefetch_to_read(queue->expected->last_name);
}

struct request *tensor_queue_reuse(struct tensor_queue *queue, hvd_set set, const char *name)
{
    pthread_mutex_lock(&queue->lock);
    struct request *request = find_idle_locked(queue, set, name);
    if (request != NULL) {
        queue->expected = request;
        remove_idle_locked(queue, request);
        request->last_name = name;
        prefetch_name_locked(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return request;
}

void tensor_queue_discard(struct tensor_queue *queue, struct request *request)
{
    pthread_mutex_lock(&queue->lock);
    free_locked(queue, request);
    pthread_mutex_unlock(&queue->lock);
}

static int submit_locked(struct tensor_queue *queue, struct request *request, hvd_handle *handlep,
                         struct hvd_error *err)
{
    bool is_message = desc_is_message(request->desc->kind);
    if (queue->refuse_status != HVD_OK && (!is_message || queue->refuses_messages)) {
        char title[DESC_TITLE_BYTES];
        desc_title(request->desc, title, sizeof(title));
        return error_set(err, queue->refuse_status, "%s: %s", title, queue->refuse_reason.text);
    }
    if (handlep != NULL && !ensure_slot_locked(queue))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for another operation");
    return is_message ? HVD_OK : reserve_names_locked(queue, request, err);
}

int tensor_queue_submit(struct tensor_queue *queue, struct request *request, hvd_handle *handlep,
                        bool *firstp, struct hvd_error *err)
{
    struct submitted *to = desc_is_message(request->desc->kind) ? &queue->messages : &queue->operations;
    request->next = NULL;
    request->handle = 0;
    atomic_store_explicit(&request->status, HVD_IN_PROGRESS, memory_order_relaxed);
    pthread_mutex_lock(&queue->lock);
    int rc = submit_locked(queue, request, handlep, err);
    if (rc != HVD_OK) {
        remove_names_locked(queue, request);
    } else {
        if (handlep != NULL)
            *handlep = request->handle = take_slot_locked(queue, request);
        *firstp = to->head == NULL;
        *to->tail = request;
        to->tail = &request->next;
        atomic_store_explicit(&to->waiting, true, memory_order_release);
    }
    pthread_mutex_unlock(&queue->lock);
    return rc;
}

void tensor_queue_refuse(struct tensor_queue *queue, int status, const char *sentence)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->refuse_status == HVD_OK)
        queue->refuse_status = error_set(&queue->refuse_reason, status, "%s", sentence);
    queue->refuses_messages |= status != HVD_ERR_SHUTDOWN;
    pthread_mutex_unlock(&queue->lock);
}

void tensor_queue_refuse_messages(struct tensor_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->refuses_messages = true;
    pthread_mutex_unlock(&queue->lock);
}

bool tensor_queue_has_submissions(const struct tensor_queue *queue)
{
    return atomic_load_explicit(&queue->operations.waiting, memory_order_acquire);
}

static struct request *take_all(struct tensor_queue *queue, struct submitted *from)
{
    if (!atomic_load_explicit(&from->waiting, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&queue->lock);
    struct request *list = from->head;
    from->head = NULL;
    from->tail = &from->head;
    atomic_store_explicit(&from->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&queue->lock);
    return list;
}

struct request *tensor_queue_take(struct tensor_queue *queue)
{
    return take_all(queue, &queue->operations);
}

struct request *tensor_queue_take_messages(struct tensor_queue *queue)
{
    return take_all(queue, &queue->messages);
}

void tensor_queue_withdraw(struct request *request)
{
    atomic_store_explicit(&request->live, false, memory_order_release);
}

static bool is_in_set(const struct request *request, hvd_set set)
{
    return set == TENSOR_QUEUE_ALL_SETS || request->desc->set == set;
}

/* Drop the submitted requests of [set]. */
static void drop_submitted_locked(struct tensor_queue *queue, hvd_set set)
{
    struct submitted *operations = &queue->operations;
    struct request **at = &operations->head;
    while (*at != NULL) {
        if (is_in_set(*at, set))
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    operations->tail = at;
    atomic_store_explicit(&operations->waiting, operations->head != NULL, memory_order_relaxed);
}

/* Free the idle requests of [set], which is being removed: nothing can be submitted in it any more. */
static void drop_idle_locked(struct tensor_queue *queue, hvd_set set)
{
    struct request *next = NULL;
    for (struct request *request = TAILQ_FIRST(&queue->idle); request != NULL; request = next) {
        next = TAILQ_NEXT(request, idle_link);
        if (is_in_set(request, set))
            free_locked(queue, request);
    }
}

struct request *tensor_queue_withdraw_undecided(struct tensor_queue *queue, hvd_set set)
{
    struct request *list = NULL;
    pthread_mutex_lock(&queue->lock);
    drop_submitted_locked(queue, set);
    drop_idle_locked(queue, set);
    for (size_t i = 0; i < queue->names.bucket_count; i++) {
        for (struct name_link *link = queue->names.buckets[i]; link != NULL; link = link->next) {
            struct request_tensor *tensor = tensor_of(link);
            struct request *request = tensor->request;
            if (tensor->index > 0 || !request->live || request->decided || !is_in_set(request, set))
                continue;
            tensor_queue_withdraw(request);
            request->next = list;
            list = request;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return list;
}

/* One more operation is done or launched: those who wait test theirs again. */
static void count_news(struct tensor_queue *queue)
{
    uint64_t finished = atomic_load_explicit(&queue->finished, memory_order_relaxed);
    atomic_store_explicit(&queue->finished, finished + 1, memory_order_release);
}

/* A launched operation may lose its handle at any time, see tensor_queue_test_launched. */
static void finish_launched(struct tensor_queue *queue, struct request *request, int status)
{
    pthread_mutex_lock(&queue->lock);
    atomic_store_explicit(&request->status, status, memory_order_release);
    count_news(queue);
    if (request->handle == 0)
        recycle_locked(queue, request);
    pthread_mutex_unlock(&queue->lock);
}

void tensor_queue_launch(struct tensor_queue *queue, struct request *request, struct gpu_event *end)
{
    request->end = gpu_event_hold(end);
    atomic_store_explicit(&request->launched, true, memory_order_release);
    count_news(queue);
}

void tensor_queue_finish(struct tensor_queue *queue, struct request *request, int status,
                         const char *sentence)
{
    bool has_handle = request->handle != 0;
    /* if memory is out there is only the status */
    request->sentence = sentence != NULL ? strdup(sentence) : NULL;
    if (atomic_load_explicit(&request->launched, memory_order_relaxed)) {
        finish_launched(queue, request, status);
        return;
    }
    /* after this store the thread that holds the handle may free the request */
    atomic_store_explicit(&request->status, status, memory_order_release);
    count_news(queue);
    if (has_handle)
        return;
    pthread_mutex_lock(&queue->lock);
    recycle_locked(queue, request);
    pthread_mutex_unlock(&queue->lock);
}

uint64_t tensor_queue_finished_count(const struct tensor_queue *queue)
{
    return atomic_load_explicit(&queue->finished, memory_order_acquire);
}

static int test_locked(struct tensor_queue *queue, hvd_handle handle, struct handle_slot **slotp,
                       struct hvd_error *err)
{
    struct handle_slot *slot = find_slot_locked(queue, handle);
    *slotp = slot;
    if (slot == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "handle %#llx is not in flight: it was waited for already, or hvd never returned it",
                         (unsigned long long)handle);
    int status = atomic_load_explicit(&slot->request->status, memory_order_acquire);
    if (status < 0)
        error_set(err, status, "%s",
                  slot->request->sentence != NULL ? slot->request->sentence : status_text(status));
    return status;
}

int tensor_queue_test(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err)
{
    struct handle_slot *slot = NULL;
    pthread_mutex_lock(&queue->lock);
    int status = test_locked(queue, handle, &slot, err);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

bool tensor_queue_is_on_gpu(struct tensor_queue *queue, hvd_handle handle)
{
    pthread_mutex_lock(&queue->lock);
    const struct handle_slot *slot = find_slot_locked(queue, handle);
    bool is_on_gpu = slot != NULL && slot->request->ready != NULL;
    pthread_mutex_unlock(&queue->lock);
    return is_on_gpu;
}

int tensor_queue_test_and_release(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err)
{
    struct handle_slot *slot = NULL;
    pthread_mutex_lock(&queue->lock);
    int status = test_locked(queue, handle, &slot, err);
    if (slot != NULL && status != HVD_IN_PROGRESS) {
        recycle_locked(queue, slot->request);
        free_slot_locked(queue, slot);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

int tensor_queue_test_launched(struct tensor_queue *queue, hvd_handle handle, struct gpu_event **endp,
                               struct hvd_error *err)
{
    struct handle_slot *slot = NULL;
    pthread_mutex_lock(&queue->lock);
    int status = test_locked(queue, handle, &slot, err);
    if (status == HVD_IN_PROGRESS && atomic_load_explicit(&slot->request->launched, memory_order_acquire)) {
        *endp = gpu_event_hold(slot->request->end);
        slot->request->handle = 0;
        free_slot_locked(queue, slot);
        status = HVD_OK;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void tensor_queue_destroy(struct tensor_queue *queue)
{
    if (queue == NULL)
        return;
    for (uint32_t i = 0; i < queue->slot_count; i++) {
        struct request *request = queue->slots[i].request;
        if (request != NULL && request->status != HVD_IN_PROGRESS)
            free_locked(queue, request);
    }
    for (size_t i = 0; i < queue->names.bucket_count; i++) {
        while (queue->names.buckets[i] != NULL)
            free_locked(queue, tensor_of(queue->names.buckets[i])->request);
    }
    pthread_mutex_destroy(&queue->lock);
    name_table_fini(&queue->names);
    free(queue->slots);
    free(queue);
}
