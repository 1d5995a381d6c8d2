/* merge.c: find ranks that are in the same state, write them as one, and make all of them from that one. */
#include "tools/hvdinfo/ps/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/hvdinfo/ps/awaited.h"
#include "tools/hvdinfo/ps/judge.h"
#include "tools/hvdinfo/ps/rank_codec.h"

#define RUN_BYTES (RANK_NODE_BYTES + 10) /* room for one of ranks, with its node */
#define FEW_BYTES 64                     /* for what else follows a rank */

/* ---- The state of a rank ------------------------------------------------------------------------- */

/* A rank, and its state as bytes. */
struct state_bytes {
    const struct rank *rank;
    unsigned char *bytes;
    size_t length;
};

/* Then it may be its own other end, for which it does not wait. */
static bool waits_in_message(const struct rank *rank)
{
    return rank->pending != NULL && rank->waits && awaited_is_message(rank->pending);
}

/* Without times, and of those that are done what judge.c looks at. */
static int blank_operations(const struct rank *rank, struct flight_operation *to)
{
    int count = 0;
    for (int i = 0; i < rank->operation_count; i++) {
        const struct flight_operation *from = &rank->operations[i];
        struct flight_operation blank = {.step = from->step, .set = from->set, .agreed = from->agreed};
        bool done = from->step == TRACE_DONE;
        bool named = !done || i == rank->operation_count - 1;
        if (!named && !rank_operation_is_last_of_set(rank, i))
            continue;
        blank.tensors = named ? from->tensors : 0;
        blank.bytes = done ? 0 : from->bytes;
        memcpy(blank.kind, from->kind, named ? sizeof(blank.kind) : 0);
        memcpy(blank.name, from->name, named ? sizeof(blank.name) : 0);
        to[count++] = blank;
    }
    return count;
}

/* What is not blanked here keeps ranks apart. */
static struct rank blank_rank(const struct rank *rank, struct flight_operation *operations)
{
    struct rank blank = *rank;
    bool in_operation = rank->state == RANK_WAITS || rank->state == RANK_MOVES;
    blank.rank = waits_in_message(rank) ? rank->rank : 0;
    blank.pid = 0;
    blank.cores[0] = blank.node[0] = blank.host[0] = 0;
    blank.phase_us = blank.read_us = 0;
    blank.submitted = 0;
    blank.pace = (struct pace){.waiting = rank->pace.waiting < 0,
                               .batch_tensors = rank->pace.batch_tensors < 0,
                               .cached = rank->pace.cached < 0};
    blank.totals = (struct flight_totals){.commits = rank->totals.commits};
    if (in_operation) { /* nothing is said of its program */
        blank.process = 'S';
        blank.sleeps_in[0] = 0;
    }
    blank.operations = operations;
    blank.operation_count = blank_operations(rank, operations);
    return blank;
}

static int find_state(const struct rank *rank, struct state_bytes *state)
{
    struct flight_operation operations[FLIGHT_SLOTS];
    struct rank blank = blank_rank(rank, operations);
    size_t most = rank_encoded_most(&blank);
    unsigned char *bytes = malloc(most);
    struct encoder encoder = {.at = bytes, .left = most};
    if (bytes == NULL)
        return HVD_ERR_NO_MEMORY;
    rank_encode(&encoder, &blank, 0);
    *state = (struct state_bytes){rank, bytes, most - encoder.left};
    return HVD_OK;
}

static int compare_states(const struct state_bytes *a, const struct state_bytes *b)
{
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->length);
}

static int by_state(const void *left, const void *right)
{
    const struct state_bytes *a = left;
    const struct state_bytes *b = right;
    int order = compare_states(a, b);
    return order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* ---- One for all --------------------------------------------------------------------------------- */

static struct pace mean_pace(const struct merged *merged)
{
    struct pace mean =
        merged->ranks[0]->pace; /* of its operations and steps the text has those of one rank */
    mean.bytes = mean.waiting = mean.moving = mean.batch_tensors = mean.cached = 0;
    memset(mean.backend_bytes, 0, sizeof(mean.backend_bytes));
    for (int i = 0; i < merged->count; i++) {
        const struct pace *pace = &merged->ranks[i]->pace;
        mean.bytes += pace->bytes / merged->count;
        mean.waiting += pace->waiting / merged->count;
        mean.moving += pace->moving / merged->count;
        mean.batch_tensors += pace->batch_tensors / merged->count;
        mean.cached += pace->cached / merged->count;
        for (int k = 0; k < BACKEND_COUNT; k++)
            mean.backend_bytes[k] += pace->backend_bytes[k] / merged->count;
    }
    return mean;
}

static void find_waiters(struct merged *merged)
{
    const struct rank *least = merged->ranks[0], *most = merged->ranks[0];
    for (int i = 1; i < merged->count; i++) {
        const struct rank *rank = merged->ranks[i];
        least = rank->pace.waiting < least->pace.waiting ? rank : least;
        most = rank->pace.waiting > most->pace.waiting ? rank : most;
    }
    merged->least = (struct waiting_share){least->rank, least->pace.waiting};
    merged->most = (struct waiting_share){most->rank, most->pace.waiting};
}

/* The mean of those that wait neither least nor most, which rounding leaves between these two. */
static double waiting_of_others(const struct merged *merged, double mean)
{
    double others =
        merged->count < 3
            ? merged->least.waiting
            : (mean * merged->count - merged->least.waiting - merged->most.waiting) / (merged->count - 2);
    if (others < merged->least.waiting)
        return merged->least.waiting;
    return others > merged->most.waiting ? merged->most.waiting : others;
}

static void merge(struct merged *merged)
{
    const struct rank *first = merged->ranks[0];
    const struct rank *longest = first;
    for (int i = 1; i < merged->count; i++)
        longest = merged->ranks[i]->since_us < longest->since_us ? merged->ranks[i] : longest;
    merged->rank = *longest;
    if (merged->count == 1)
        return;
    find_waiters(merged);
    merged->rank.rank = first->rank;
    merged->rank.submitted = first->submitted;
    merged->rank.totals = first->totals;
    merged->rank.pace = mean_pace(merged);
    merged->rank.pace.waiting = waiting_of_others(merged, merged->rank.pace.waiting);
    merged->rank.pid = 0;
    merged->rank.cores[0] = 0;
}

static int merged_make(const struct ranks *ranks, struct merged_ranks *merged)
{
    size_t room = (size_t)ranks->count + 1;
    merged->list = calloc(room, sizeof(*merged->list));
    merged->ranks = calloc(room, sizeof(*merged->ranks));
    return merged->list == NULL || merged->ranks == NULL ? HVD_ERR_NO_MEMORY : HVD_OK;
}

/* One for the ranks from [first] to [end] - 1 of the list. */
static void add_merged(struct merged_ranks *merged, int first, int end)
{
    struct merged *one = &merged->list[merged->count++];
    one->ranks = &merged->ranks[first];
    one->count = end - first;
    merge(one);
}

int merge_none(const struct ranks *ranks, struct merged_ranks *merged)
{
    int rc = merged_make(ranks, merged);
    for (int i = 0; rc == HVD_OK && i < ranks->count; i++) {
        merged->ranks[i] = &ranks->list[i];
        add_merged(merged, i, i + 1);
    }
    return rc;
}

int merge_same(const struct ranks *ranks, struct merged_ranks *merged)
{
    struct state_bytes *states = calloc((size_t)ranks->count + 1, sizeof(*states));
    int rc = states == NULL ? HVD_ERR_NO_MEMORY : merged_make(ranks, merged);
    for (int i = 0; rc == HVD_OK && i < ranks->count; i++)
        rc = find_state(&ranks->list[i], &states[i]);
    if (rc == HVD_OK)
        qsort(states, (size_t)ranks->count, sizeof(*states), by_state);
    for (int i = 0, end = 0; rc == HVD_OK && i < ranks->count; i = end) {
        for (end = i; end < ranks->count && compare_states(&states[end], &states[i]) == 0; end++)
            merged->ranks[end] = states[end].rank;
        add_merged(merged, i, end);
    }
    for (int i = 0; states != NULL && i < ranks->count; i++)
        free(states[i].bytes);
    free(states);
    return rc;
}

void merged_ranks_free(struct merged_ranks *merged)
{
    free(merged->list);
    free(merged->ranks);
    *merged = (struct merged_ranks){0};
}

/* ---- Encode -------------------------------------------------------------------------------------- */

/* Behind the run of ranks, all of one node, that begins at [first]. */
static int end_of_run(const struct merged *merged, int first)
{
    int end = first + 1;
    while (end < merged->count && merged->ranks[end]->rank == merged->ranks[end - 1]->rank + 1 &&
           strcmp(merged->ranks[end]->node, merged->ranks[first]->node) == 0)
        end++;
    return end;
}

size_t merged_encoded_most(const struct merged *merged)
{
    return rank_encoded_most(&merged->rank) + FEW_BYTES + (size_t)merged->count * RUN_BYTES;
}

static void encode_waiter(struct encoder *encoder, const struct waiting_share *waiter)
{
    encode_number(encoder, (uint64_t)waiter->rank, 4);
    encode_double(encoder, waiter->waiting);
}

void merged_encode(struct encoder *encoder, const struct merged *merged, int64_t now_us)
{
    int runs = 0;
    for (int i = 0; merged->count > 1 && i < merged->count; i = end_of_run(merged, i))
        runs++;
    rank_encode(encoder, &merged->rank, now_us);
    encode_number(encoder, (uint64_t)runs, 4); /* 0: it stands for itself */
    if (runs == 0)
        return;
    encode_waiter(encoder, &merged->least);
    encode_waiter(encoder, &merged->most);
    for (int i = 0, end = 0; i < merged->count; i = end) {
        end = end_of_run(merged, i);
        encode_text(encoder, merged->ranks[i]->node, RANK_NODE_BYTES);
        encode_number(encoder, (uint64_t)merged->ranks[i]->rank, 4);
        encode_number(encoder, (uint64_t)merged->ranks[end - 1]->rank, 4);
    }
}

/* ---- Decode -------------------------------------------------------------------------------------- */

static struct waiting_share decode_waiter(struct decoder *decoder)
{
    struct waiting_share waiter = {.rank = (int)decode_at_most(decoder, 4, INT32_MAX)};
    waiter.waiting = rank_decode_value(decoder);
    return waiter;
}

/* One of those for which [merged] stands. */
static int add_rank(struct ranks *ranks, const struct merged *merged, int number, const char *node)
{
    const struct rank *same = &merged->rank;
    size_t bytes = (size_t)same->operation_count * sizeof(*same->operations);
    struct flight_operation *operations = malloc(bytes + 1);
    struct rank *rank = operations == NULL ? NULL : ranks_add(ranks);
    if (rank == NULL) {
        free(operations);
        return HVD_ERR_NO_MEMORY;
    }
    *rank = *same;
    rank->rank = number;
    memcpy(operations, same->operations, bytes);
    rank->operations = operations;
    snprintf(rank->node, sizeof(rank->node), "%s", node);
    if (number == merged->least.rank)
        rank->pace.waiting = merged->least.waiting;
    if (number == merged->most.rank)
        rank->pace.waiting = merged->most.waiting;
    return HVD_OK;
}

/* A run of ranks, which follow those up to *lastp. */
static int decode_run(struct decoder *decoder, const struct merged *merged, int64_t *lastp,
                      struct ranks *ranks)
{
    char node[RANK_NODE_BYTES];
    int rc = HVD_OK;
    decode_printable(decoder, node, sizeof(node));
    int64_t first = (int64_t)decode_at_most(decoder, 4, INT32_MAX);
    int64_t last = (int64_t)decode_at_most(decoder, 4, INT32_MAX);
    decode_check(decoder, first > *lastp && first <= last && last - first < MERGED_RANKS - ranks->count);
    for (int64_t number = first; rc == HVD_OK && !decoder->failed && number <= last; number++)
        rc = add_rank(ranks, merged, (int)number, node);
    *lastp = last;
    return rc;
}

int merged_decode(struct decoder *decoder, struct ranks *ranks, int64_t now_us)
{
    struct merged merged = {.count = 0};
    int64_t last = -1;
    int rc = rank_decode(decoder, &merged.rank, now_us);
    uint64_t runs = decode_number(decoder, 4);
    if (runs > 0) {
        merged.least = decode_waiter(decoder);
        merged.most = decode_waiter(decoder);
    } else if (rc == HVD_OK && !decoder->failed) {
        merged.least = merged.most = (struct waiting_share){merged.rank.rank, merged.rank.pace.waiting};
        rc = add_rank(ranks, &merged, merged.rank.rank, merged.rank.node);
    }
    for (uint64_t i = 0; rc == HVD_OK && i < runs && !decoder->failed; i++)
        rc = decode_run(decoder, &merged, &last, ranks);
    free(merged.rank.operations);
    return rc;
}
