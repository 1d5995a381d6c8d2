/* tuned_settings.h: the settings that may change while a job runs, and the check that each is in its range.
 */
#ifndef OPTIONS_TUNED_SETTINGS_H
#define OPTIONS_TUNED_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "options/config.h"

/* All ranks switch to new settings at the same point of the agreed order. No other code reads the options of
 * the same names. */
struct tuned_settings {
    int64_t fusion_bytes; /* --hvd-fusion */
    int64_t chunk_bytes;  /* --hvd-chunk */
    int64_t inflight;     /* --hvd-inflight */
};

/* The settings with which a job starts. */
static inline struct tuned_settings tuned_settings_at_start(const struct hvd_config *config)
{
    return (struct tuned_settings){config->fusion_bytes, config->chunk_bytes, config->inflight};
}

static inline bool option_allows(const struct hvd_option *option, int64_t value)
{
    return value >= option->min && value <= option->max;
}

/* Would the options accept these values? */
static inline bool tuned_settings_valid(const struct tuned_settings *settings)
{
    return option_allows(OPTION_OF(fusion_bytes), settings->fusion_bytes) &&
           option_allows(OPTION_OF(chunk_bytes), settings->chunk_bytes) &&
           option_allows(OPTION_OF(inflight), settings->inflight);
}

#endif
