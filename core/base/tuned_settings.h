/* tuned_settings.h: the settings that may change while a job runs, and the check that each is in its range.
 */
#ifndef BASE_TUNED_SETTINGS_H
#define BASE_TUNED_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"

/* All ranks switch to new settings at the same place in the agreed order. */
struct tuned_settings {
    int64_t fusion_bytes; /* --hvd-fusion */
    int64_t chunk_bytes;  /* --hvd-chunk */
    int64_t inflight;     /* --hvd-inflight */
};

static inline bool option_allows(enum option_id id, int64_t value)
{
    return value >= option_table[id].min && value <= option_table[id].max;
}

/* Would the options of these names accept these values? */
static inline bool tuned_settings_valid(const struct tuned_settings *settings)
{
    return option_allows(OPT_FUSION, settings->fusion_bytes) &&
           option_allows(OPT_CHUNK, settings->chunk_bytes) && option_allows(OPT_INFLIGHT, settings->inflight);
}

#endif
