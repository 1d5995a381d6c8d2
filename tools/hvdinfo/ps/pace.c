/* pace.c: rates and shares of time from the last operations of a rank. */
#include "tools/hvdinfo/ps/pace.h"

#include <stdlib.h>
#include <string.h>

#define RECENT_US    (INT64_C(1000000) * PACE_S)
#define LONG_US      INT64_C(300000000)
#define STEP_NAMES   16 /* the last operations, whose repetitions are counted */
#define SHARES_LEAST 10 /* operations; fewer say nothing of the rank's time */

struct span {
    int64_t begin_us, end_us;
};

static int by_begin(const void *left, const void *right)
{
    const struct span *a = left;
    const struct span *b = right;
    return (a->begin_us > b->begin_us) - (a->begin_us < b->begin_us);
}

/* The time in which at least one of them was. */
static int64_t covered_us(struct span *spans, int count)
{
    int64_t sum_us = 0;
    int64_t until_us = INT64_MIN;
    qsort(spans, (size_t)count, sizeof(*spans), by_begin);
    for (int i = 0; i < count; i++) {
        int64_t begin_us = spans[i].begin_us > until_us ? spans[i].begin_us : until_us;
        if (spans[i].end_us > begin_us) {
            sum_us += spans[i].end_us - begin_us;
            until_us = spans[i].end_us;
        }
    }
    return sum_us;
}

/* Of messages between two ranks nothing is agreed: they move from their begin on. */
static int64_t decided_us(const struct flight_operation *operation, int64_t now_us)
{
    if (operation->step == TRACE_SUBMITTED)
        return now_us;
    uint32_t after_us = operation->after_us[TRACE_DECIDED - 1];
    return operation->submitted_us + (after_us == 0 ? 0 : (int64_t)after_us - 1);
}

static void add_shares(const struct rank *rank, int first, struct pace *pace)
{
    struct span flying[FLIGHT_SLOTS] = {{0, 0}};
    struct span moving[FLIGHT_SLOTS] = {{0, 0}};
    int count = 0;
    int64_t begin_us = rank->operations[first].submitted_us;
    for (int i = first; i < rank->operation_count; i++, count++) {
        const struct flight_operation *operation = &rank->operations[i];
        bool done = operation->step == TRACE_DONE && flight_step_us(operation) < rank->read_us;
        int64_t end_us = done ? flight_step_us(operation) : rank->read_us;
        flying[count] = (struct span){operation->submitted_us, end_us};
        moving[count] = (struct span){decided_us(operation, rank->read_us), end_us};
    }
    double whole_us = (double)(rank->read_us - begin_us);
    double moving_us = (double)covered_us(moving, count);
    pace->moving = moving_us / whole_us;
    pace->waiting = ((double)covered_us(flying, count) - moving_us) / whole_us;
}

static bool is_same(const struct flight_operation *a, const struct flight_operation *b)
{
    return a->set == b->set && strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0;
}

/* How many operations are in a step of the program, which repeats its names; 0: it does not, or there are
 * more than the record has. Some names may come several times in a step. */
static int operations_of_step(const struct rank *rank)
{
    int longest = 0;
    int last = rank->operation_count - 1;
    for (int i = last; i >= 0 && i > last - STEP_NAMES; i--) {
        int k = i - 1;
        while (k >= 0 && !is_same(&rank->operations[k], &rank->operations[i]))
            k--;
        if (k >= 0 && i - k > longest)
            longest = i - k;
    }
    return longest;
}

/* Does the record reach back so far? Otherwise its operations are of a moment, and the sums say more. */
static bool is_whole(const struct rank *rank)
{
    return rank->operation_count < FLIGHT_SLOTS ||
           rank->read_us - rank->operations[0].submitted_us > RECENT_US;
}

static void add_recent(const struct rank *rank, const int64_t *recent, double seconds, struct pace *pace)
{
    double bytes = 0;
    for (int i = 0; i < BACKEND_COUNT; i++) {
        pace->backend_bytes[i] = (double)recent[SUM_BYTES + i] / seconds;
        bytes += pace->backend_bytes[i];
    }
    if (!is_whole(rank) && recent[SUM_OPERATIONS] > 0) { /* messages are in the record only */
        pace->operations = (double)recent[SUM_OPERATIONS] / seconds;
        pace->bytes = bytes;
    }
    if (recent[SUM_OPERATIONS] < SHARES_LEAST || recent[SUM_BATCHES] == 0)
        return;
    pace->batch_tensors = (double)recent[SUM_TENSORS] / (double)recent[SUM_BATCHES];
    pace->cached = (double)recent[SUM_CACHED] / (double)recent[SUM_OPERATIONS];
}

static void add_sums(const struct rank *rank, const struct flight_sums *sums, struct pace *pace)
{
    int64_t recent[SUM_COUNT], from_us = 0;
    int in_step = operations_of_step(rank);
    if (flight_read_recent(sums, rank->read_us - LONG_US, recent, &from_us) && from_us < rank->read_us &&
        in_step > 0)
        pace->long_steps =
            (double)recent[SUM_OPERATIONS] / in_step / ((double)(rank->read_us - from_us) / 1e6);
    if (flight_read_recent(sums, rank->read_us - RECENT_US, recent, &from_us) && from_us < rank->read_us)
        add_recent(rank, recent, (double)(rank->read_us - from_us) / 1e6, pace);
    if (in_step > 0 && pace->operations >= 0)
        pace->steps = pace->operations / in_step;
}

static struct pace pace_of_operations(const struct rank *rank)
{
    struct pace pace = {-1, -1, -1, -1, -1, -1, -1, -1, {0}};
    int first = rank->operation_count;
    double bytes = 0;
    for (; first > 0; first--) {
        const struct flight_operation *operation = &rank->operations[first - 1];
        if (operation->submitted_us > rank->read_us || rank->read_us - operation->submitted_us > RECENT_US)
            break;
        bytes += (double)operation->bytes;
    }
    int count = rank->operation_count - first;
    if (count < 2 || rank->operations[first].submitted_us >= rank->read_us)
        return pace;
    double seconds = (double)(rank->read_us - rank->operations[first].submitted_us) / 1e6;
    pace.operations = count / seconds;
    pace.bytes = bytes / seconds;
    if (count >= SHARES_LEAST)
        add_shares(rank, first, &pace);
    return pace;
}

struct pace pace_of(const struct rank *rank, const struct flight_sums *sums)
{
    struct pace pace = pace_of_operations(rank);
    if (sums != NULL)
        add_sums(rank, sums, &pace);
    return pace;
}
