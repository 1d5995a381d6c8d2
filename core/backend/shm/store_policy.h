/* store_policy.h: whether what a member writes goes through its cache or past it. To write to lines that
 * another core's cache holds, and to read those that another's has changed, takes little where the cores
 * share a cache; where they are far apart it takes more than to write to memory and to read from there. And a
 * result that leaves the cache again before it is used need not be fetched into it. So all ways are tried now
 * and then; only results go past the cache unless another mode took clearly less. Pure.
 *
 * Each member goes by what it measured itself. All of them try the same at the same chunks, as what one does
 * costs the others time, too. */
#ifndef BACKEND_SHM_STORE_POLICY_H
#define BACKEND_SHM_STORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* What goes past the cache: what this member alone reads, or nothing, or what others read, too. */
enum store_mode { STORE_STREAM_RESULTS, STORE_CACHED, STORE_STREAM_ALL, STORE_MODES };

/* Zeroed at first. */
struct store_policy {
    enum store_mode mode;
    enum store_mode tried; /* last */
    struct {
        int64_t spent_ns, bytes;
    } trials[STORE_MODES];
};

/* Is one of the ways tried at [chunk]? */
bool store_policy_is_trial(uint64_t chunk);

/* The mode for [chunk]. */
enum store_mode store_policy_mode(const struct store_policy *store_policy, uint64_t chunk);

/* In a trial: so many bytes took so long. */
void store_policy_record(struct store_policy *store_policy, uint64_t chunk, int64_t spent_ns, int64_t bytes);

#endif
