/* simulation.c: simulate the ranks of a job in one process; they negotiate over the real tree. */
#include "config.h"

#include "tests/bench/simulation.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/mailbox.h"
#include "negotiate/negotiate.h"
#include "tools/hvdbench/job.h"

struct simulated_rank {
    struct control *control;
    struct negotiate *negotiate;
    /* of this round */
    uint64_t order; /* hash of the decisions, in the order in which they arrived */
    int64_t decided;
    double busy_us;
    struct mailbox_counts before; /* message counts before the round */
};

struct simulation {
    struct mailbox_world *world;
    struct simulated_rank *ranks;
    int size, tensor_count;
    struct desc **descs;  /* [tensor_count], the tensors that one rank submits */
    int64_t bytes_before; /* memory in use before the ranks were created */
};

/* Bytes that this process has allocated. */
static int64_t used_bytes(void)
{
#ifdef HAVE_MALLINFO2
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
#else
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*d %lld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
#endif
}

/* ---- Setting up ----------------------------------------------------------------------------------- */

static struct desc *describe(int tensor)
{
    struct desc *desc = desc_create(1);
    if (desc == NULL)
        return NULL;
    desc->kind = DESC_ALLREDUCE;
    desc->op = HVD_SUM;
    desc->tensors[0] = (struct desc_tensor){.dtype = HVD_FLOAT32, .ndim = 2, .shape = {64, tensor + 1}};
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "layer.%d.weight", tensor);
    return desc;
}

static int open_world(struct simulation *simulation, int node_ranks, struct hvd_error *err)
{
    int *node_of_rank = calloc((size_t)simulation->size, sizeof(int));
    if (node_of_rank == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d simulated ranks", simulation->size);
    for (int rank = 0; rank < simulation->size; rank++)
        node_of_rank[rank] = rank - rank % node_ranks;
    int status = mailbox_world_open(&simulation->world, node_of_rank, simulation->size, err);
    free(node_of_rank);
    return status;
}

static int open_rank(struct simulation *simulation, int rank, struct hvd_error *err)
{
    struct simulated_rank *self = &simulation->ranks[rank];
    self->control = mailbox_world_rank(simulation->world, rank);
    const struct negotiate_params place = {.rank = rank,
                                           .size = simulation->size,
                                           .root = self->control->parent < 0,
                                           .child_count = self->control->child_count,
                                           .child_ranks = self->control->child_ranks,
                                           .backend_order = {BACKEND_TCP, -1}};
    return negotiate_create(&self->negotiate, &place, err);
}

static int open_ranks(struct simulation *simulation, struct hvd_error *err)
{
    int status = HVD_OK;
    simulation->ranks = calloc((size_t)simulation->size, sizeof(simulation->ranks[0]));
    if (simulation->ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d simulated ranks", simulation->size);
    simulation->bytes_before = used_bytes();
    for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++)
        status = open_rank(simulation, rank, err);
    return status;
}

int simulation_open(struct simulation **simulationp, int ranks, int node_ranks, int tensors,
                    struct hvd_error *err)
{
    struct simulation *simulation = calloc(1, sizeof(*simulation));
    if (simulation == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a simulation");
    simulation->size = ranks;
    simulation->tensor_count = tensors;
    simulation->descs = calloc((size_t)tensors, sizeof(simulation->descs[0]));
    int status = simulation->descs != NULL
                     ? open_world(simulation, node_ranks, err)
                     : error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d tensors", tensors);
    if (status == HVD_OK)
        status = open_ranks(simulation, err);
    if (status == HVD_OK)
        *simulationp = simulation;
    else
        simulation_close(simulation);
    return status;
}

void simulation_close(struct simulation *simulation)
{
    if (simulation == NULL)
        return;
    for (int rank = 0; simulation->ranks != NULL && rank < simulation->size; rank++)
        negotiate_destroy(simulation->ranks[rank].negotiate);
    mailbox_world_close(simulation->world);
    free(simulation->ranks);
    free(simulation->descs);
    free(simulation);
}

/* ---- A round -------------------------------------------------------------------------------------- */

static int submit_descs(const struct simulation *simulation, struct simulated_rank *self, int count,
                        struct hvd_error *err)
{
    int64_t begin_ns = clock_ns();
    int status = HVD_OK;
    for (int i = 0; i < count && status == HVD_OK; i++) {
        const struct submission submission = {
            .desc = simulation->descs[i], .backends = 1U << BACKEND_TCP, .user = &simulation->descs[i]};
        status = negotiate_submit(self->negotiate, &submission, err);
    }
    self->busy_us += (double)(clock_ns() - begin_ns) / 1000;
    return status;
}

/* Submit the first [count] tensors of a step, in the same order on all ranks. Each rank builds its
 * descriptors anew in each step, so that storing and comparing them costs as much as in a real job. */
static int submit(const struct simulation *simulation, struct simulated_rank *self, int count,
                  struct hvd_error *err)
{
    int made = 0;
    while (made < count && (simulation->descs[made] = describe(made)) != NULL)
        made++;
    int status = made == count ? submit_descs(simulation, self, count, err)
                               : error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d tensors", count);
    while (made > 0)
        desc_release(simulation->descs[--made]);
    return status;
}

static int receive_all(struct simulated_rank *self, bool *movedp, struct hvd_error *err)
{
    struct control_event event;
    int status = self->control->ops->receive(self->control, &event, err);
    while (status == HVD_OK) {
        *movedp = true;
        if (event.link == TREE_PARENT)
            status = negotiate_from_parent(self->negotiate, event.bytes, event.length, err);
        else
            status = negotiate_from_child(self->negotiate, event.link - 1, event.bytes, event.length, err);
        if (status == HVD_OK)
            status = self->control->ops->receive(self->control, &event, err);
    }
    return status == HVD_IN_PROGRESS ? HVD_OK : status;
}

static int send_all(struct simulated_rank *self, bool *movedp, struct hvd_error *err)
{
    int status = HVD_OK;
    for (int link = 0; link <= self->control->child_count && status == HVD_OK; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        status = negotiate_get_message(self->negotiate, link, &bytes, &length, err);
        if (status != HVD_OK || length == 0)
            continue;
        *movedp = true;
        status = self->control->ops->send(self->control, link, bytes, length, err);
    }
    return status;
}

static int take_decisions(const struct simulation *simulation, struct simulated_rank *self,
                          struct hvd_error *err)
{
    const struct decision *decision = NULL;
    int status = negotiate_next(self->negotiate, &decision, err);
    for (; status == HVD_OK; status = negotiate_next(self->negotiate, &decision, err)) {
        uint64_t which = (uint64_t)((struct desc **)decision->user - simulation->descs);
        if (decision->kind != DECISION_RUN)
            continue;
        self->order = self->order * UINT64_C(0x100000001b3) + which;
        self->decided++;
    }
    return status == HVD_IN_PROGRESS ? HVD_OK : status;
}

/* Receive all messages that have arrived. */
static int receive_step(struct simulated_rank *self, bool *movedp, struct hvd_error *err)
{
    bool moved = false;
    int64_t begin_ns = clock_ns();
    int status = receive_all(self, &moved, err);
    if (moved)
        self->busy_us += (double)(clock_ns() - begin_ns) / 1000;
    *movedp |= moved;
    return status;
}

/* Decide, and send what there is to send. If that is nothing, a real rank would not have woken up, so its
 * time does not count. */
static int send_step(const struct simulation *simulation, struct simulated_rank *self, bool *movedp,
                     struct hvd_error *err)
{
    bool moved = false;
    int64_t begin_ns = clock_ns();
    int64_t decided_before = self->decided;
    int status = negotiate_decide(self->negotiate, err);
    if (status == HVD_OK)
        status = send_all(self, &moved, err);
    if (status == HVD_OK)
        status = take_decisions(simulation, self, err);
    if (moved || self->decided > decided_before)
        self->busy_us += (double)(clock_ns() - begin_ns) / 1000;
    *movedp |= moved;
    return status;
}

/* Check that every rank got every decision once, and all in the same order. */
static int check_round(const struct simulation *simulation, int count, struct hvd_error *err)
{
    for (int rank = 0; rank < simulation->size; rank++) {
        const struct simulated_rank *self = &simulation->ranks[rank];
        if (self->decided != count)
            return error_set(err, HVD_ERR_SYSTEM, "simulated rank %d was told to run %lld operations of %d",
                             rank, (long long)self->decided, count);
        if (self->order != simulation->ranks[0].order)
            return error_set(err, HVD_ERR_SYSTEM, "simulated rank %d was told another order than rank 0",
                             rank);
    }
    return HVD_OK;
}

static void begin_round(struct simulation *simulation)
{
    for (int rank = 0; rank < simulation->size; rank++) {
        struct simulated_rank *self = &simulation->ranks[rank];
        self->before = mailbox_world_counts(simulation->world, rank);
        self->order = 0;
        self->decided = 0;
        self->busy_us = 0;
    }
}

static void raise_to(int64_t *mostp, uint64_t count)
{
    if ((int64_t)count > *mostp)
        *mostp = (int64_t)count;
}

static void end_round(const struct simulation *simulation, struct round_cost *cost)
{
    cost->root_us = simulation->ranks[0].busy_us;
    for (int rank = 0; rank < simulation->size; rank++) {
        const struct simulated_rank *self = &simulation->ranks[rank];
        struct mailbox_counts now = mailbox_world_counts(simulation->world, rank);
        uint64_t bytes = now.received_bytes - self->before.received_bytes;
        raise_to(&cost->received, now.received - self->before.received);
        raise_to(&cost->sent, now.sent - self->before.sent);
        raise_to(&cost->bytes, bytes);
        if (rank == 0)
            cost->root_bytes = (int64_t)bytes;
        cost->rank_us += self->busy_us / simulation->size;
    }
}

/* All ranks submit, then receive and send in steps until no rank sends anything. A message that is sent in
 * one step is received in the next, as if all links were equally slow. */
int simulation_round(struct simulation *simulation, int count, struct round_cost *cost, struct hvd_error *err)
{
    int status = HVD_OK;
    bool received = false;
    bool sent = true;
    *cost = (struct round_cost){.steps = 0};
    begin_round(simulation);
    for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++)
        status = submit(simulation, &simulation->ranks[rank], count, err);
    while (sent && status == HVD_OK) {
        received = sent = false;
        for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++)
            status = receive_step(&simulation->ranks[rank], &received, err);
        for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++)
            status = send_step(simulation, &simulation->ranks[rank], &sent, err);
        cost->steps += received;
    }
    if (status == HVD_OK)
        status = check_round(simulation, count, err);
    end_round(simulation, cost);
    return status;
}

/* ---- Properties ----------------------------------------------------------------------------------- */

int simulation_depth(const struct simulation *simulation)
{
    int most = 0;
    for (int rank = 0; rank < simulation->size; rank++) {
        int depth = 0;
        for (int at = simulation->ranks[rank].control->parent; at >= 0;
             at = simulation->ranks[at].control->parent)
            depth++;
        most = depth > most ? depth : most;
    }
    return most;
}

int simulation_radix(const struct simulation *simulation)
{
    int most = 0;
    for (int rank = 0; rank < simulation->size; rank++) {
        int children = simulation->ranks[rank].control->child_count;
        most = children > most ? children : most;
    }
    return most;
}

int64_t simulation_state_bytes(const struct simulation *simulation)
{
    return (used_bytes() - simulation->bytes_before) / simulation->size;
}
