/* work.c: what a group holds, carried by the mailboxes, all of it side by side. */
#include "double.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So long may the ranks wait for each other: longer, and it is a deadlock. */
#define DEADLOCK_S 60

/* Bytes from or to one peer. Transfers of the same peer and direction go one after another. */
struct transfer {
    struct transfer *next;
    char *memory;
    int64_t left;
    int peer;
    bool sends, begun;
    const struct operation *operation;
};

struct transfers {
    struct transfer *first, **tail;
};

static void add(struct transfers *transfers, struct transfer given)
{
    struct transfer *transfer = malloc(sizeof(*transfer));
    if (transfer == NULL)
        double_complain("this machine has no memory for a transfer");
    *transfer = given;
    transfer->next = NULL;
    *transfers->tail = transfer;
    transfers->tail = &transfer->next;
}

static void send_to(struct transfers *transfers, const struct operation *operation, int peer,
                    const char *from, int64_t bytes)
{
    add(transfers, (struct transfer){.memory = (char *)(uintptr_t)from,
                                     .left = bytes,
                                     .peer = peer,
                                     .sends = true,
                                     .operation = operation});
}

static void receive_from(struct transfers *transfers, const struct operation *operation, int peer, char *to,
                         int64_t bytes)
{
    add(transfers, (struct transfer){.memory = to, .left = bytes, .peer = peer, .operation = operation});
}

/* ---- What an operation sends and receives ------------------------------------------------------------ */

static int64_t bytes_of(const struct operation *operation)
{
    return operation->count * double_dtype_bytes(operation->dtype);
}

/* Each rank sends the part of a receiver to it; the one that receives keeps what comes from each. */
static void plan_reduction(struct transfers *transfers, const struct ncclComm *comm,
                           struct operation *operation)
{
    int64_t bytes = bytes_of(operation);
    bool receives = operation->kind != REDUCE || operation->root == comm->rank;
    operation->received = receives ? malloc((size_t)(bytes * comm->size) + 1) : NULL;
    for (int peer = 0; peer < comm->size; peer++) {
        const char *from = operation->input + (operation->kind == REDUCESCATTER ? bytes * peer : 0);
        if (operation->kind != REDUCE || operation->root == peer)
            send_to(transfers, operation, peer, from, bytes);
        if (receives)
            receive_from(transfers, operation, peer, operation->received + bytes * peer, bytes);
    }
}

static void plan(struct transfers *transfers, const struct ncclComm *comm, struct operation *operation)
{
    int64_t bytes = bytes_of(operation);
    operation->input = double_reach(operation->input);
    operation->output = double_reach(operation->output);
    switch (operation->kind) {
    case SEND:
        send_to(transfers, operation, operation->root, operation->input, bytes);
        return;
    case RECV:
        receive_from(transfers, operation, operation->root, operation->output, bytes);
        return;
    case BROADCAST:
        for (int peer = 0; peer < comm->size && operation->root == comm->rank; peer++)
            send_to(transfers, operation, peer, operation->input, bytes);
        receive_from(transfers, operation, operation->root, operation->output, bytes);
        return;
    case ALLGATHER:
        for (int peer = 0; peer < comm->size; peer++) {
            send_to(transfers, operation, peer, operation->input, bytes);
            receive_from(transfers, operation, peer, operation->output + bytes * peer, bytes);
        }
        return;
    default:
        plan_reduction(transfers, comm, operation);
    }
}

/* When all has come: input and output may be the same memory. */
static void finish(const struct ncclComm *comm, const struct operation *operation)
{
    const char *inputs[RANKS_MAX];
    for (int rank = 0; rank < comm->size && operation->received != NULL; rank++)
        inputs[rank] = operation->received + bytes_of(operation) * rank;
    if (operation->received != NULL)
        double_reduce(operation, inputs, comm->size);
}

/* ---- Mailboxes --------------------------------------------------------------------------------------- */

/* All ranks use registered memory for an operation, an allreduce at the same offset in it, or none does. */
static void check_registered(const struct ncclComm *comm, const struct transfer *transfer,
                             const struct mailbox *mailbox)
{
    const struct offsets *own = &transfer->operation->registered;
    const struct offsets *other = &mailbox->registered;
    if (own->input != other->input || own->output != other->output)
        double_complain("rank %d has input and output at %lld and %lld of what it registered, and rank %d at "
                        "%lld and %lld (-1: not registered)",
                        comm->rank, (long long)own->input, (long long)own->output, transfer->peer,
                        (long long)other->input, (long long)other->output);
}

static bool move_chunk(struct ncclComm *comm, struct transfer *transfer)
{
    struct mailbox *mailbox = transfer->sends ? &comm->shared->mailboxes[comm->rank][transfer->peer]
                                              : &comm->shared->mailboxes[transfer->peer][comm->rank];
    if (atomic_load(&mailbox->full) == transfer->sends)
        return false;
    if (transfer->sends) {
        mailbox->tag = transfer->operation->tag;
        mailbox->kind = (int)transfer->operation->kind;
        mailbox->count = transfer->operation->count;
        mailbox->registered = transfer->operation->registered;
        mailbox->bytes = (uint32_t)(transfer->left < MAILBOX_BYTES ? transfer->left : MAILBOX_BYTES);
        memcpy(mailbox->data, transfer->memory, mailbox->bytes);
    } else {
        if (mailbox->tag != transfer->operation->tag || mailbox->bytes > transfer->left)
            double_complain(
                "rank %d is at operation %d of %lld elements, rank %d at operation %d of %lld, or in "
                "another order",
                comm->rank, (int)transfer->operation->kind, (long long)transfer->operation->count,
                transfer->peer, mailbox->kind, (long long)mailbox->count);
        check_registered(comm, transfer, mailbox);
        memcpy(transfer->memory, mailbox->data, mailbox->bytes);
    }
    transfer->memory += mailbox->bytes;
    transfer->left -= mailbox->bytes;
    transfer->begun = true;
    atomic_store(&mailbox->full, transfer->sends);
    return true;
}

/* One chunk of the first transfer of each peer and direction. */
static bool move_chunks(struct ncclComm *comm, struct transfers *transfers)
{
    bool taken[RANKS_MAX][2] = {{false}};
    bool moved = false;
    struct transfer **at = &transfers->first;
    while (*at != NULL) {
        struct transfer *transfer = *at;
        bool *first = &taken[transfer->peer][transfer->sends];
        if (!*first)
            moved |= move_chunk(comm, transfer);
        *first = true;
        if (transfer->begun && transfer->left == 0) {
            *at = transfer->next;
            free(transfer);
        } else {
            at = &transfer->next;
        }
    }
    return moved;
}

static int64_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static bool is_over(struct ncclComm *comm)
{
    if (atomic_load(&comm->error) == ncclSuccess && double_peer_died(comm))
        atomic_store(&comm->error, ncclRemoteError);
    return atomic_load(&comm->aborted);
}

static bool move_all(struct ncclComm *comm, struct transfers *transfers)
{
    const struct timespec pause = {.tv_nsec = 20000};
    int64_t moved_at = seconds();
    while (transfers->first != NULL && !is_over(comm)) {
        if (move_chunks(comm, transfers)) {
            moved_at = seconds();
        } else {
            nanosleep(&pause, NULL);
            if (seconds() - moved_at > DEADLOCK_S)
                double_complain("rank %d waits for ever: a deadlock", comm->rank);
        }
    }
    bool done = transfers->first == NULL;
    while (transfers->first != NULL) {
        struct transfer *transfer = transfers->first;
        transfers->first = transfer->next;
        free(transfer);
    }
    return done;
}

/* ---- Work -------------------------------------------------------------------------------------------- */

static bool must_hang(void)
{
    static _Atomic int works;
    return atomic_fetch_add(&works, 1) + 1 == double_number("HVD_DOUBLE_NCCL_HANG", -1);
}

static void hang(struct ncclComm *comm)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!is_over(comm))
        nanosleep(&pause, NULL);
}

static void run(struct work *work)
{
    struct ncclComm *comm = work->comm;
    struct transfers transfers = {NULL, &transfers.first};
    if (double_call("work") != ncclSuccess)
        atomic_store(&comm->error, ncclUnhandledCudaError);
    if (must_hang() || atomic_load(&comm->error) != ncclSuccess)
        hang(comm);
    for (struct operation *operation = work->operations; operation != NULL && !is_over(comm);
         operation = operation->next)
        plan(&transfers, comm, operation);
    bool done = !is_over(comm) && move_all(comm, &transfers);
    while (work->operations != NULL) {
        struct operation *operation = work->operations;
        work->operations = operation->next;
        if (done)
            finish(comm, operation);
        double_free_operation(operation);
    }
    atomic_fetch_sub(&comm->in_flight, 1);
}

void double_run(void *arg)
{
    run(arg);
    free(arg);
}

/* What the copies share with the originals stays theirs. */
void double_run_again(void *arg)
{
    const struct work *work = arg;
    struct work copy = {.comm = work->comm};
    struct operation **tail = &copy.operations;
    atomic_fetch_add(&work->comm->in_flight, 1);
    for (const struct operation *at = work->operations; at != NULL; at = at->next) {
        struct operation *operation = malloc(sizeof(*operation));
        if (operation == NULL)
            double_complain("this machine has no memory for an operation");
        *operation = *at;
        operation->next = NULL;
        operation->used[0] = operation->used[1] = NULL;
        *tail = operation;
        tail = &operation->next;
    }
    run(&copy);
}

void double_free_work(void *arg)
{
    struct work *work = arg;
    while (work->operations != NULL) {
        struct operation *operation = work->operations;
        work->operations = operation->next;
        double_free_operation(operation);
    }
    atomic_fetch_sub(&work->comm->in_graphs, 1);
    free(work);
}
