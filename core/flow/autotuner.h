/* autotuner.h: looks for better settings while a job runs: tries others for some steps each, and keeps what
 * was clearly faster. Pure: measurements in, settings out. */
#ifndef FLOW_AUTOTUNER_H
#define FLOW_AUTOTUNER_H

#include "base/tuned_settings.h"

#define AUTOTUNER_STEPS 5 /* of a trial that count: their median does */

struct autotuner {
    struct tuned_settings start; /* what was set */
    struct tuned_settings best;  /* so far */
    struct tuned_settings now;   /* to be used; what a trial is about */
    int phase;
    int parameter, choice; /* the trial: which setting, and which of its values */
    int step;              /* of the trial; the first ones are not counted */
    double rates[AUTOTUNER_STEPS];
    double best_rate;        /* bytes a microsecond */
    int turn;                /* of the duel between [best] and [start] at the end */
    double confirm_rates[2]; /* sums of what these two reached in it */
    int64_t steps;           /* in all */
};

/* At most as many steps until autotuner_over. */
#define AUTOTUNER_MAX_STEPS 300

void autotuner_begin(struct autotuner *autotuner, const struct tuned_settings *start);

/* A step is over, in which [bytes] were carried while there was something to carry for [busy_us]. True where
 * autotuner->now has changed. A step in which nothing was carried tells nothing. */
bool autotuner_step(struct autotuner *autotuner, int64_t bytes, int64_t busy_us);

/* Nothing more will be tried: autotuner->now stays, and is autotuner->start unless something was better. */
bool autotuner_over(const struct autotuner *autotuner);

/* How much faster than what was set, 1.1 being a tenth; 1 where that was kept. Once it is over. */
double autotuner_gain(const struct autotuner *autotuner);

#endif
