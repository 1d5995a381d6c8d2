/* autotuner.h: searches for better settings while a job runs. Each trial measures other settings for a few
 * steps, and the autotuner keeps those that are clearly faster. Pure: measurements in, settings out. */
#ifndef FLOW_AUTOTUNER_H
#define FLOW_AUTOTUNER_H

#include "options/tuned_settings.h"

#define AUTOTUNER_STEPS 5 /* measured in one trial; their median is its result */

struct autotuner {
    struct tuned_settings start; /* by configuration */
    struct tuned_settings best;  /* found so far */
    struct tuned_settings now;   /* to use now: those of the current trial */
    int phase;
    int parameter, choice; /* of the trial: which setting, and which value of it */
    int step;              /* of the trial; the first ones are not measured */
    double rates[AUTOTUNER_STEPS];
    double best_rate;        /* bytes a microsecond */
    int turn;                /* of the comparison between [best] and [start] at the end */
    double confirm_rates[2]; /* sums of the rates of these two in it */
    int64_t steps;           /* altogether */
};

/* autotuner_over is true after this many steps at most. */
#define AUTOTUNER_MAX_STEPS 300

void autotuner_begin(struct autotuner *autotuner, const struct tuned_settings *start);

/* A step is over, which transferred [bytes] in [busy_us]. True where autotuner->now has changed. A step
 * without transfers is ignored. */
bool autotuner_step(struct autotuner *autotuner, int64_t bytes, int64_t busy_us);

/* The search is over: autotuner->now stays, and is autotuner->start unless something was better. */
bool autotuner_over(const struct autotuner *autotuner);

/* After the search: the rate compared with that of autotuner->start, 1.1 for a tenth more; 1 where that
 * stays. */
double autotuner_gain(const struct autotuner *autotuner);

#endif
