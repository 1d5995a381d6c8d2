/* store_policy.h: whether a member writes its results, and what others read, through its cache or with
 * streaming stores that bypass it. Pure.
 *
 * Which is faster depends on the machine. Where cores share a cache, writing a line that another core holds
 * and reading one that it has modified are cheap; where the cores are far apart, both cost more than a trip
 * to memory. And a result that leaves the cache before it is used need not be loaded into it. So each mode is
 * tried from time to time. STORE_STREAM_RESULTS is used unless another mode was clearly faster.
 *
 * Each member decides by its own measurements. All members try the same mode at the same chunks, because what
 * one does also slows down the others. */
#ifndef BACKEND_SHM_STORE_POLICY_H
#define BACKEND_SHM_STORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* What is written with streaming stores: results, which only this member reads; nothing; or results and what
 * others read. */
enum store_mode { STORE_STREAM_RESULTS, STORE_CACHED, STORE_STREAM_ALL, STORE_MODES };

/* All zero at first. */
struct store_policy {
    enum store_mode mode;
    enum store_mode tried; /* the mode of the last trial */
    struct {
        int64_t spent_ns, bytes;
    } trials[STORE_MODES];
};

/* Does [chunk] belong to a trial? */
bool store_policy_is_trial(uint64_t chunk);

/* The mode for [chunk]. */
enum store_mode store_policy_mode(const struct store_policy *store_policy, uint64_t chunk);

/* In a trial: [bytes] of [chunk] took [spent_ns]. */
void store_policy_record(struct store_policy *store_policy, uint64_t chunk, int64_t spent_ns, int64_t bytes);

#endif
