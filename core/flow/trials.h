/* trials.h: feeds the autotuner. Measures the steps of the program, on the root of the control tree, where
 * --hvd-autotune asks for it; does nothing elsewhere.
 *
 * Owns the autotuner and its measurements. Calls no other stage: who asks for the settings sends them on. */
#ifndef FLOW_TRIALS_H
#define FLOW_TRIALS_H

#include "backend/backend_env.h"
#include "flow/autotuner.h"
#include "negotiate/negotiate.h"

struct trials {
    bool on;
    const struct backend_env *env; /* its log and configuration */
    struct autotuner autotuner;
    uint32_t marker;       /* decision.id of the operation that begins a step; WIRE_NO_ID: none yet */
    uint32_t next_marker;  /* the operation after it, ... */
    int next_marker_count; /* ... and how often that was decided since the marker */
    int64_t bytes;         /* transferred in this step */
    int64_t busy_us;       /* time in this step with a batch to transfer, until busy_from_us */
    int64_t busy_from_us;  /* clock_us; 0: there is no batch */
};

/* [start]: the settings in use, which are the baseline. */
void trials_init(struct trials *trials, const struct backend_env *env, bool root,
                 const struct tuned_settings *start);

/* An operation was decided, which may end a step. The settings that all ranks should use from now on; NULL
 * where they do not change. */
const struct tuned_settings *trials_decided(struct trials *trials, const struct decision *decision);

/* A batch was queued. */
void trials_batch_queued(struct trials *trials);

/* A batch of [bytes] is over. [more]: others are queued. */
void trials_batch_done(struct trials *trials, int64_t bytes, bool more);

#endif
