/* judge.c: who waits for whom: compares the records of all ranks of a job that were seen. */
#include "tools/hvdinfo/ps/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct rank *ranks_add(struct ranks *ranks)
{
    if (ranks->count == ranks->capacity) {
        int capacity = ranks->capacity == 0 ? 16 : 2 * ranks->capacity;
        struct rank *list = realloc(ranks->list, (size_t)capacity * sizeof(*list));
        if (list == NULL)
            return NULL;
        ranks->list = list;
        ranks->capacity = capacity;
    }
    struct rank *rank = &ranks->list[ranks->count++];
    memset(rank, 0, sizeof(*rank));
    return rank;
}

void ranks_free(struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        free(ranks->list[i].operations);
        free(ranks->list[i].waits_for);
    }
    free(ranks->list);
    *ranks = (struct ranks){0};
}

bool judge_same_job(const struct rank *a, const struct rank *b)
{
    return strcmp(a->key, b->key) == 0 && a->first == b->first;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right)
{
    const struct rank *a = left;
    const struct rank *b = right;
    int order = strcmp(a->key, b->key);
    if (order == 0)
        order = compare(a->first, b->first);
    if (order == 0)
        order = compare(a->rank, b->rank);
    if (order == 0)
        order = compare(b->phase, a->phase);
    return order == 0 ? compare(a->pid, b->pid) : order;
}

/* ---- One rank by itself ------------------------------------------------------------------------- */

static bool has_ended(const struct rank *rank)
{
    return rank->process == 'Z' || rank->process == 'X';
}

static bool is_stopped(const struct rank *rank)
{
    return rank->process == 'T' || rank->process == 't';
}

static enum rank_doing state_of_process(const struct rank *rank)
{
    if (has_ended(rank))
        return RANK_ENDED;
    return is_stopped(rank) ? RANK_STOPPED : RANK_COMPUTES;
}

static enum rank_doing state_of_phase(const struct rank *rank)
{
    switch (rank->phase) {
    case FLIGHT_NO_PHASE:
        return RANK_NOT_BEGUN;
    case FLIGHT_STARTS:
        return rank->is_newcomer ? RANK_SPARE : RANK_STARTS;
    case FLIGHT_LEAVES:
        return rank->left ? RANK_LEFT : RANK_LEAVES;
    case FLIGHT_WORKS:
        break;
    }
    return rank->left ? RANK_LEFT : RANK_COMPUTES;
}

/* The oldest operation that is not done, the last one that was submitted, and when the last one was done. */
static int64_t look_at_operations(struct rank *rank)
{
    int64_t done_us = rank->phase_us;
    for (int i = 0; i < rank->operation_count; i++) {
        const struct flight_operation *operation = &rank->operations[i];
        rank->submitted_last = operation;
        if (operation->step == TRACE_DONE) {
            done_us = flight_step_us(operation) > done_us ? flight_step_us(operation) : done_us;
            continue;
        }
        rank->pending = rank->pending == NULL ? operation : rank->pending;
        rank->pending_count++;
    }
    return done_us;
}

static void judge_alone(struct rank *rank)
{
    enum rank_doing process = state_of_process(rank);
    int64_t done_us = look_at_operations(rank);
    rank->state = process != RANK_COMPUTES ? process : state_of_phase(rank);
    rank->since_us = rank->phase_us;
    if (rank->phase != FLIGHT_WORKS)
        return;
    rank->since_us = done_us;
    if (rank->pending == NULL || !rank->waits)
        return;
    bool decided = rank->pending->agreed != 0;
    if (rank->state == RANK_COMPUTES)
        rank->state = decided ? RANK_MOVES : RANK_WAITS;
    rank->since_us = decided ? flight_step_us(rank->pending) : rank->pending->submitted_us;
}

/* ---- One rank and another ------------------------------------------------------------------------ */

uint32_t judge_last_agreed(const struct rank *rank, int set)
{
    uint32_t last = 0;
    for (int i = 0; i < rank->operation_count; i++) {
        const struct flight_operation *operation = &rank->operations[i];
        if (operation->set == set && operation->agreed > last)
            last = operation->agreed;
    }
    return last;
}

bool judge_is_member(const struct rank *rank, int set)
{
    if (set == HVD_ALL_RANKS)
        return true;
    if (set >= 0 && set < 64 * FLIGHT_SET_WORDS)
        return (rank->sets[set / 64] >> set % 64 & 1) != 0;
    for (int i = 0; i < rank->operation_count; i++) {
        if (rank->operations[i].set == set)
            return true;
    }
    return false;
}

/* Does [rank] have this operation of another rank, or has it joined? One of the same name whose number, up to
 * [agreed], the other rank has seen already is an earlier one. */
static bool has_submitted(const struct rank *rank, const struct flight_operation *wanted, uint32_t agreed)
{
    for (int i = 0; i < rank->operation_count; i++) {
        const struct flight_operation *own = &rank->operations[i];
        bool earlier = own->agreed != 0 && own->agreed <= agreed;
        if (own->step == TRACE_DONE || own->set != wanted->set || earlier)
            continue;
        if (strcmp(own->kind, "join") == 0 ||
            (strcmp(own->kind, wanted->kind) == 0 && strcmp(own->name, wanted->name) == 0))
            return true;
    }
    return false;
}

static const struct flight_operation *find_agreed(const struct rank *rank, int set, uint32_t agreed)
{
    for (int i = 0; i < rank->operation_count; i++) {
        if (rank->operations[i].set == set && rank->operations[i].agreed == agreed)
            return &rank->operations[i];
    }
    return NULL;
}

/* [rank]'s operation is undecided: has [other] not submitted it? One that has more operations decided than
 * [rank] is past it. */
static bool misses(const struct rank *other, const struct rank *rank)
{
    int set = rank->pending->set;
    uint32_t agreed = judge_last_agreed(rank, set);
    return other->phase == FLIGHT_WORKS && !other->left && judge_is_member(other, set) &&
           !has_submitted(other, rank->pending, agreed) && judge_last_agreed(other, set) <= agreed;
}

/* [rank]'s operation runs: has [other] not begun it, or can it not go on with it? */
static bool lags(const struct rank *other, const struct rank *rank)
{
    const struct flight_operation *pending = rank->pending;
    const struct flight_operation *own = find_agreed(other, pending->set, pending->agreed);
    if (other->phase != FLIGHT_WORKS || !judge_is_member(other, pending->set) ||
        (own == NULL && judge_last_agreed(other, pending->set) > pending->agreed))
        return false;
    if (own != NULL && own->step == TRACE_DONE)
        return false;
    return state_of_process(other) != RANK_COMPUTES || own == NULL ||
           (own->step == TRACE_DECIDED && pending->step > TRACE_DECIDED);
}

/* The other end of a message, by its name, "to rank 3 with tag 5"; -1: it may be any, or is not a rank's
 * number in the job. */
static int other_end(const struct flight_operation *operation)
{
    int end = -1;
    if (operation->set != HVD_ALL_RANKS || (sscanf(operation->name, "to rank %9d ", &end) != 1 &&
                                            sscanf(operation->name, "from rank %9d ", &end) != 1))
        return -1;
    return end;
}

/* Involves two ranks only: nobody agrees on it. */
static bool is_message(const struct flight_operation *operation)
{
    return strcmp(operation->kind, "send") == 0 || strcmp(operation->kind, "recv") == 0 ||
           strcmp(operation->kind, "exchange") == 0;
}

static bool keeps_waiting(const struct rank *other, const struct rank *rank)
{
    if (rank->phase == FLIGHT_STARTS)
        return other->phase == FLIGHT_NO_PHASE ||
               (other->phase == FLIGHT_STARTS && state_of_process(other) != RANK_COMPUTES);
    if (rank->phase == FLIGHT_LEAVES)
        return other->phase == FLIGHT_WORKS && !other->left;
    if (rank->pending == NULL || other->epoch != rank->epoch)
        return false;
    if (is_message(rank->pending))
        return other->rank == other_end(rank->pending);
    return rank->pending->agreed == 0 ? misses(other, rank) : lags(other, rank);
}

/* Others wait for [other], which has not submitted this: the one that has waited longest counts. */
static void blame(struct rank *other, const struct rank *rank)
{
    if (rank->phase != FLIGHT_WORKS || rank->pending->agreed != 0 || is_message(rank->pending))
        return;
    if (other->missed == NULL || rank->pending->submitted_us < other->missed->submitted_us)
        other->missed = rank->pending;
    if (other->state == RANK_COMPUTES)
        other->state = RANK_LATE;
}

/* ---- All of a job -------------------------------------------------------------------------------- */

static bool waits_for_others(const struct rank *rank)
{
    return rank->state == RANK_WAITS || rank->state == RANK_MOVES || rank->state == RANK_STARTS ||
           rank->state == RANK_LEAVES ||
           (rank->state == RANK_STOPPED && rank->pending != NULL && rank->waits);
}

static int judge_waiting(struct rank *job, int count, struct rank *rank)
{
    rank->waits_for = malloc((size_t)count * sizeof(*rank->waits_for));
    if (rank->waits_for == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        if (&job[i] == rank || !keeps_waiting(&job[i], rank))
            continue;
        rank->waits_for[rank->waits_for_count++] = job[i].rank;
        rank->awaited = rank->waits_for_count == 1 ? &job[i] : NULL;
        blame(&job[i], rank);
    }
    rank->waits_for_unseen = rank->waits_for_count == 0 && rank->state != RANK_MOVES && count < rank->size;
    return HVD_OK;
}

static bool makes_progress(const struct rank *rank, int64_t now_us, int64_t still_us)
{
    if (rank->state == RANK_COMPUTES || rank->state == RANK_LEFT || rank->state == RANK_SPARE)
        return true;
    if (rank->state == RANK_STOPPED || rank->state == RANK_ENDED)
        return false;
    int64_t since_us = rank->state == RANK_LATE ? rank->missed->submitted_us : rank->since_us;
    return now_us - since_us < still_us;
}

static int judge_job(struct rank *job, int count, int64_t now_us, int64_t still_us)
{
    int rc = HVD_OK;
    bool spans_nodes = false;
    for (int i = 0; i < count; i++) {
        judge_alone(&job[i]);
        spans_nodes = spans_nodes || strcmp(job[i].node, job[0].node) != 0;
    }
    for (int i = 0; rc == HVD_OK && i < count; i++) {
        if (waits_for_others(&job[i]))
            rc = judge_waiting(job, count, &job[i]);
    }
    for (int i = 0; i < count; i++) {
        job[i].stands_still = !makes_progress(&job[i], now_us, still_us);
        job[i].spans_nodes = spans_nodes;
    }
    return rc;
}

/* Of processes that have the same rank, as a program that a rank has started may claim to, the one that is
 * furthest in the job has it. */
static void drop_doubles(struct ranks *ranks)
{
    int kept = 0;
    for (int i = 0; i < ranks->count; i++) {
        struct rank *rank = &ranks->list[i];
        const struct rank *before = kept > 0 ? &ranks->list[kept - 1] : NULL;
        if (before != NULL && judge_same_job(before, rank) && before->rank == rank->rank)
            free(rank->operations);
        else
            ranks->list[kept++] = *rank;
    }
    ranks->count = kept;
}

int judge_ranks(struct ranks *ranks, int64_t still_us)
{
    int rc = HVD_OK;
    if (ranks->count > 0)
        qsort(ranks->list, (size_t)ranks->count, sizeof(ranks->list[0]), by_place);
    drop_doubles(ranks);
    for (int i = 0, end = 0; rc == HVD_OK && i < ranks->count; i = end) {
        for (end = i + 1; end < ranks->count && judge_same_job(&ranks->list[i], &ranks->list[end]);)
            end++;
        rc = judge_job(&ranks->list[i], end - i, ranks->now_us, still_us);
    }
    return rc;
}
