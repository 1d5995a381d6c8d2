/* flight_sums.c: how much a rank has carried since it joined its job. */
#include "trace/flight_sums.h"

#include <stddef.h>

#define RELAXED memory_order_relaxed

static void add(_Atomic int64_t *sum, int64_t value)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, RELAXED) + value, RELAXED);
}

/* A reader passes over a mark without a time. */
static void take_mark(struct flight_sums *sums, int64_t now_us)
{
    struct flight_mark *mark = &sums->marks[sums->next_mark];
    atomic_store(&mark->at_us, 0);
    for (int i = 0; i < SUM_COUNT; i++)
        atomic_store_explicit(&mark->sums[i], atomic_load_explicit(&sums->sums[i], RELAXED),
                              memory_order_release);
    atomic_store(&mark->at_us, now_us);
    sums->next_mark = (sums->next_mark + 1) % FLIGHT_MARKS;
    sums->marked_us = now_us;
}

void flight_sums_begin(struct flight_sums *sums, int64_t now_us)
{
    take_mark(sums, now_us);
}

void flight_count_decided(struct flight_sums *sums, bool cached)
{
    add(&sums->sums[SUM_OPERATIONS], 1);
    add(&sums->sums[SUM_CACHED], cached);
}

void flight_count_batch(struct flight_sums *sums, enum backend_id backend, int tensors, int64_t bytes,
                        int64_t now_us)
{
    if (now_us - sums->marked_us >= FLIGHT_MARK_US)
        take_mark(sums, now_us);
    add(&sums->sums[SUM_BATCHES], 1);
    add(&sums->sums[SUM_TENSORS], tensors);
    add(&sums->sums[SUM_BYTES + backend], bytes);
}

void flight_count_commit(struct flight_sums *sums, int64_t now_us)
{
    add(&sums->commits, 1);
    atomic_store(&sums->committed_us, now_us);
}

/* What others have written there may be anything: differences must not overflow. */
static int64_t plain(const _Atomic int64_t *from)
{
    int64_t value = atomic_load(from);
    return value < 0 || value > INT64_MAX / 4 ? 0 : value;
}

void flight_read_totals(const struct flight_sums *sums, struct flight_totals *totals)
{
    for (int i = 0; i < SUM_COUNT; i++)
        totals->sums[i] = plain(&sums->sums[i]);
    totals->commits = plain(&sums->commits);
    totals->committed_us = plain(&sums->committed_us);
}

/* The oldest mark that is not much older than [since_us], or NULL. Sets *pastp if there are older ones. */
static const struct flight_mark *find_mark(const struct flight_sums *sums, int64_t since_us, bool *pastp)
{
    const struct flight_mark *best = NULL;
    *pastp = false;
    for (int i = 0; i < FLIGHT_MARKS; i++) {
        const struct flight_mark *mark = &sums->marks[i];
        int64_t at_us = plain(&mark->at_us);
        if (at_us != 0 && at_us < since_us - FLIGHT_MARK_US)
            *pastp = true;
        else if (at_us != 0 && (best == NULL || at_us < plain(&best->at_us)))
            best = mark;
    }
    return best;
}

/* There is a mark at the first batch after each pause: before that nothing was carried. */
bool flight_read_recent(const struct flight_sums *sums, int64_t since_us, int64_t recent[SUM_COUNT],
                        int64_t *from_us)
{
    bool past = false;
    const struct flight_mark *mark = find_mark(sums, since_us, &past);
    for (int i = 0; i < SUM_COUNT; i++)
        recent[i] = mark == NULL ? 0 : plain(&sums->sums[i]) - plain(&mark->sums[i]);
    *from_us = mark == NULL || (past && plain(&mark->at_us) > since_us) ? since_us : plain(&mark->at_us);
    return mark != NULL || past;
}
