/* judge.c: what each rank does, from the records of all ranks of a job that were seen. */
#include "tools/hvdinfo/ps/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/hvdinfo/ps/awaited.h"

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
    for (int i = 0; i < ranks->count; i++)
        free(ranks->list[i].operations);
    for (struct awaited_list *list = ranks->awaited, *next; list != NULL; list = next) {
        next = list->next;
        free(list);
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

/* ---- All of a job -------------------------------------------------------------------------------- */

static bool makes_progress(const struct rank *rank, int64_t now_us, int64_t still_us)
{
    if (rank->state == RANK_COMPUTES || rank->state == RANK_LEFT || rank->state == RANK_SPARE)
        return true;
    if (rank->state == RANK_STOPPED || rank->state == RANK_ENDED)
        return false;
    int64_t since_us = rank->state == RANK_LATE ? rank->missed->submitted_us : rank->since_us;
    return now_us - since_us < still_us;
}

static int judge_job(struct ranks *ranks, struct rank *job, int count, int64_t still_us)
{
    bool spans_nodes = false;
    for (int i = 0; i < count; i++) {
        judge_alone(&job[i]);
        spans_nodes = spans_nodes || strcmp(job[i].node, job[0].node) != 0;
    }
    int rc = awaited_find(ranks, job, count);
    for (int i = 0; i < count; i++) {
        job[i].stands_still = !makes_progress(&job[i], ranks->now_us, still_us);
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
        rc = judge_job(ranks, &ranks->list[i], end - i, still_us);
    }
    return rc;
}
