/* hvdbench_negotiate.c: the agreement alone: real messages along the real tree, between ranks that are
 * simulated in one process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/local.h"
#include "flow/negotiate.h"
#include "tools/hvdbench_cases.h"
#include "tools/hvdbench_report.h"

/* Descriptions are made anew in each step of a program: equal in content, but not the same memory, so that
 * comparing them costs here what it costs there. */
#define GENERATIONS 3

struct simulated {
    struct control *control;
    struct negotiate *negotiate;
    uint64_t order; /* which decisions came in this round, in their order */
    int64_t decided;
    double busy_us;           /* in this round */
    uint64_t messages, bytes; /* received until this round */
};

struct simulation {
    struct local_world *world;
    struct simulated *ranks;
    int size, tensor_count;
    struct desc **descs; /* [GENERATIONS * tensor_count], of all ranks */
    int64_t bytes_before;
};

/* What one round cost. */
struct cost {
    double messages;   /* that the busiest rank received */
    double bytes;      /* in them, at the rank with the most */
    double root_bytes; /* at rank 0 */
    double rank_us;    /* of CPU time, mean of all ranks */
    double root_us;
};

/* Bytes of memory that this process has. */
static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*d %lld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
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
    int status = local_world_open(&simulation->world, node_of_rank, simulation->size, err);
    free(node_of_rank);
    return status;
}

static int open_rank(struct simulation *simulation, int rank, struct hvd_error *err)
{
    struct simulated *self = &simulation->ranks[rank];
    self->control = local_world_rank(simulation->world, rank);
    const struct negotiate_place place = {.rank = rank,
                                          .size = simulation->size,
                                          .root = self->control->parent < 0,
                                          .child_count = self->control->child_count,
                                          .child_ranks = self->control->child_ranks,
                                          .plane_order = {PLANE_TCP, -1}};
    return negotiate_create(&self->negotiate, &place, err);
}

static void simulation_close(struct simulation *simulation)
{
    for (int rank = 0; simulation->ranks != NULL && rank < simulation->size; rank++)
        negotiate_destroy(simulation->ranks[rank].negotiate);
    for (int i = 0; simulation->descs != NULL && i < GENERATIONS * simulation->tensor_count; i++)
        desc_release(simulation->descs[i]);
    local_world_close(simulation->world);
    free(simulation->ranks);
    free(simulation->descs);
    *simulation = (struct simulation){.size = 0};
}

static int simulation_open(struct simulation *simulation, const struct bench_options *options,
                           struct hvd_error *err)
{
    *simulation = (struct simulation){.size = (int)options->ranks, .tensor_count = (int)options->tensors};
    simulation->bytes_before = resident_bytes();
    int status = open_world(simulation, (int)options->node_ranks, err);
    if (status != HVD_OK)
        return status;
    simulation->ranks = calloc((size_t)simulation->size, sizeof(simulation->ranks[0]));
    simulation->descs = calloc(GENERATIONS * (size_t)simulation->tensor_count, sizeof(simulation->descs[0]));
    bool complete = simulation->ranks != NULL && simulation->descs != NULL;
    for (int i = 0; complete && i < GENERATIONS * simulation->tensor_count; i++) {
        simulation->descs[i] = describe(i % simulation->tensor_count);
        complete = simulation->descs[i] != NULL;
    }
    if (!complete)
        status = error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d simulated ranks with %d tensors",
                           simulation->size, simulation->tensor_count);
    for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++)
        status = open_rank(simulation, rank, err);
    if (status != HVD_OK)
        simulation_close(simulation);
    return status;
}

/* ---- A round -------------------------------------------------------------------------------------- */

/* All tensors of a step, in the same order on all ranks. */
static int submit_all(struct simulation *simulation, struct simulated *self, int64_t round,
                      struct hvd_error *err)
{
    int generation = round == 0 ? 0 : 1 + (int)(round % 2);
    int status = HVD_OK;
    for (int i = 0; i < simulation->tensor_count && status == HVD_OK; i++) {
        struct desc **descp = &simulation->descs[generation * simulation->tensor_count + i];
        const struct submission submission = {.desc = *descp, .planes = 1U << PLANE_TCP, .user = descp};
        status = negotiate_submit(self->negotiate, &submission, err);
    }
    return status;
}

static int receive_all(struct simulated *self, bool *movedp, struct hvd_error *err)
{
    struct control_event event;
    int status = self->control->ops->receive(self->control, &event, err);
    while (status == HVD_OK) {
        *movedp = true;
        if (event.link == CONTROL_PARENT)
            status = negotiate_from_parent(self->negotiate, event.bytes, event.length, err);
        else
            status = negotiate_from_child(self->negotiate, event.link - 1, event.bytes, event.length, err);
        if (status == HVD_OK)
            status = self->control->ops->receive(self->control, &event, err);
    }
    return status == HVD_IN_PROGRESS ? HVD_OK : status;
}

static int say_all(struct simulated *self, bool *movedp, struct hvd_error *err)
{
    int status = HVD_OK;
    for (int link = 0; link <= self->control->child_count && status == HVD_OK; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        status = negotiate_say(self->negotiate, link, &bytes, &length, err);
        if (status != HVD_OK || length == 0)
            continue;
        *movedp = true;
        status = self->control->ops->send(self->control, link, bytes, length, err);
    }
    return status;
}

static void take_decisions(const struct simulation *simulation, struct simulated *self)
{
    struct decision decision;
    while (negotiate_next(self->negotiate, &decision)) {
        uint64_t which = (uint64_t)((struct desc **)decision.user - simulation->descs);
        if (decision.kind != DECISION_RUN)
            continue;
        self->order = self->order * UINT64_C(0x100000001b3) + which;
        self->decided++;
    }
}

/* What the loop of a rank does with messages. A turn in which nothing happens is none that a rank would have
 * woken up for: it does not count. */
static int take_turn(const struct simulation *simulation, struct simulated *self, bool *movedp,
                     struct hvd_error *err)
{
    bool moved = false;
    int64_t begin_ns = bench_now_ns();
    int status = receive_all(self, &moved, err);
    if (status == HVD_OK)
        status = negotiate_decide(self->negotiate, err);
    if (status == HVD_OK)
        status = say_all(self, &moved, err);
    take_decisions(simulation, self);
    if (moved)
        self->busy_us += (double)(bench_now_ns() - begin_ns) / 1000;
    *movedp |= moved;
    return status;
}

/* Nothing lost, nothing twice, and in the same order everywhere. */
static int check_round(const struct simulation *simulation, struct hvd_error *err)
{
    for (int rank = 0; rank < simulation->size; rank++) {
        const struct simulated *self = &simulation->ranks[rank];
        if (self->decided != simulation->tensor_count)
            return error_set(err, HVD_ERR_SYSTEM, "simulated rank %d was told to run %lld operations of %d",
                             rank, (long long)self->decided, simulation->tensor_count);
        if (self->order != simulation->ranks[0].order)
            return error_set(err, HVD_ERR_SYSTEM, "simulated rank %d was told another order than rank 0",
                             rank);
    }
    return HVD_OK;
}

static void begin_round(struct simulation *simulation)
{
    for (int rank = 0; rank < simulation->size; rank++) {
        struct simulated *self = &simulation->ranks[rank];
        local_world_counts(simulation->world, rank, &self->messages, &self->bytes);
        self->order = 0;
        self->decided = 0;
        self->busy_us = 0;
    }
}

static struct cost end_round(const struct simulation *simulation)
{
    struct cost cost = {.root_us = simulation->ranks[0].busy_us};
    for (int rank = 0; rank < simulation->size; rank++) {
        const struct simulated *self = &simulation->ranks[rank];
        uint64_t messages = 0;
        uint64_t bytes = 0;
        local_world_counts(simulation->world, rank, &messages, &bytes);
        double received = (double)(bytes - self->bytes);
        double count = (double)(messages - self->messages);
        cost.messages = count > cost.messages ? count : cost.messages;
        cost.bytes = received > cost.bytes ? received : cost.bytes;
        cost.root_bytes = rank == 0 ? received : cost.root_bytes;
        cost.rank_us += self->busy_us / simulation->size;
    }
    return cost;
}

/* All ranks submit all tensors, and take turns until nobody has anything to say: upwards, as parents have
 * lower ranks than their children, and downwards. */
static int run_round(struct simulation *simulation, int64_t round, struct cost *cost, struct hvd_error *err)
{
    int status = HVD_OK;
    bool moved = true;
    begin_round(simulation);
    for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++) {
        int64_t begin_ns = bench_now_ns();
        status = submit_all(simulation, &simulation->ranks[rank], round, err);
        simulation->ranks[rank].busy_us += (double)(bench_now_ns() - begin_ns) / 1000;
    }
    while (moved && status == HVD_OK) {
        moved = false;
        for (int rank = simulation->size - 1; rank >= 0 && status == HVD_OK; rank--)
            status = take_turn(simulation, &simulation->ranks[rank], &moved, err);
        for (int rank = 0; rank < simulation->size && status == HVD_OK; rank++)
            status = take_turn(simulation, &simulation->ranks[rank], &moved, err);
    }
    if (status == HVD_OK)
        status = check_round(simulation, err);
    *cost = end_round(simulation);
    return status;
}

/* ---- The case ------------------------------------------------------------------------------------- */

struct found {
    int depth; /* links from the root to the rank farthest from it */
    int links; /* of the rank with the most */
    int64_t rank_bytes;
    struct cost first, steady;
};

static void measure_tree(const struct simulation *simulation, struct found *found)
{
    for (int rank = 0; rank < simulation->size; rank++) {
        int depth = 0;
        const struct control *control = simulation->ranks[rank].control;
        int links = control->child_count + (control->parent >= 0);
        for (int at = control->parent; at >= 0; at = simulation->ranks[at].control->parent)
            depth++;
        found->depth = depth > found->depth ? depth : found->depth;
        found->links = links > found->links ? links : found->links;
    }
    found->rank_bytes = (resident_bytes() - simulation->bytes_before) / simulation->size;
}

/* Of many rounds: times are medians, what was said is that of the worst. */
static int run_steady(struct simulation *simulation, int64_t rounds, struct cost *steady,
                      struct hvd_error *err)
{
    int status = HVD_OK;
    double *rank_us = calloc(2 * (size_t)rounds, sizeof(double));
    if (rank_us == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld rounds", (long long)rounds);
    double *root_us = rank_us + rounds;
    *steady = (struct cost){.messages = 0};
    for (int64_t round = 0; round < rounds && status == HVD_OK; round++) {
        struct cost cost;
        status = run_round(simulation, round + 1, &cost, err);
        rank_us[round] = cost.rank_us;
        root_us[round] = cost.root_us;
        steady->messages = cost.messages > steady->messages ? cost.messages : steady->messages;
        steady->bytes = cost.bytes > steady->bytes ? cost.bytes : steady->bytes;
        steady->root_bytes = cost.root_bytes > steady->root_bytes ? cost.root_bytes : steady->root_bytes;
    }
    if (status == HVD_OK) {
        steady->rank_us = stats_of(rank_us, (int)rounds).median;
        steady->root_us = stats_of(root_us, (int)rounds).median;
    }
    free(rank_us);
    return status;
}

static void json_cost(struct json *json, const char *when, const struct cost *cost)
{
    const struct {
        const char *key;
        double number;
    } fields[] = {{"messages", cost->messages},
                  {"bytes", cost->bytes},
                  {"root_bytes", cost->root_bytes},
                  {"rank_us", cost->rank_us},
                  {"root_us", cost->root_us}};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char key[64];
        snprintf(key, sizeof(key), "%s%s", when, fields[i].key);
        json_number(json, key, fields[i].number);
    }
}

static void show_json(const struct bench_options *options, const struct found *found)
{
    struct json json = json_open(stdout, bench_case_name(options->chosen));
    json_count(&json, "ranks", options->ranks);
    json_count(&json, "node_ranks", options->node_ranks);
    json_count(&json, "tensors", options->tensors);
    json_count(&json, "rounds", options->rounds);
    json_text(&json, "version", hvd_version());
    json_count(&json, "depth", found->depth);
    json_count(&json, "links", found->links);
    json_count(&json, "rank_bytes", found->rank_bytes);
    json_cost(&json, "first_", &found->first);
    json_cost(&json, "", &found->steady);
    json_close(&json);
}

static void show_row(const char *what, const struct cost *cost)
{
    char bytes[2][REPORT_TEXT_BYTES];
    char times[2][REPORT_TEXT_BYTES];
    printf("  %-12s  %8.0f  %12s  %12s  %12s  %12s\n", what, cost->messages,
           report_bytes((int64_t)cost->bytes, bytes[0]), report_bytes((int64_t)cost->root_bytes, bytes[1]),
           report_time(cost->rank_us, times[0]), report_time(cost->root_us, times[1]));
}

static void show_table(const struct bench_options *options, const struct found *found)
{
    char bytes[REPORT_TEXT_BYTES];
    printf("negotiate: %lld simulated rank%s, %lld a node; %lld tensor%s, %lld round%s\n",
           (long long)options->ranks, report_s(options->ranks), (long long)options->node_ranks,
           (long long)options->tensors, report_s(options->tensors), (long long)options->rounds,
           report_s(options->rounds));
    printf("  the tree is %d deep, no rank has more than %d links, each uses about %s\n", found->depth,
           found->links, report_bytes(found->rank_bytes, bytes));
    printf("  %-12s  %8s  %12s  %12s  %12s  %12s\n", "", "messages", "bytes", "at the root", "CPU a rank",
           "at the root");
    show_row("first round", &found->first);
    show_row("steady round", &found->steady);
    printf("  messages and bytes are those that the rank with the most receives in a round\n");
}

int case_negotiate(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    struct simulation simulation;
    struct found found = {.depth = 0};
    int status = simulation_open(&simulation, options, err);
    if (status == HVD_OK)
        status = run_round(&simulation, 0, &found.first, err);
    if (status == HVD_OK)
        status = run_steady(&simulation, options->rounds, &found.steady, err);
    if (status == HVD_OK) {
        measure_tree(&simulation, &found);
        if (options->json)
            show_json(options, &found);
        else
            show_table(options, &found);
    }
    simulation_close(&simulation);
    return status;
}
