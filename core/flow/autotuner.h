/* autotuner.h: looks for better settings while a job runs: tries others for some steps each, and keeps what
 * was clearly faster. Pure: measurements in, settings out. */
#ifndef FLOW_AUTOTUNER_H
#define FLOW_AUTOTUNER_H

#include <stdbool.h>
#include <stdint.h>

/* What all ranks use from some place in the agreed order on. */
struct tune_settings {
    int64_t fusion_bytes; /* --hvd-fusion */
    int64_t chunk_bytes;  /* --hvd-chunk */
    int64_t window;       /* --hvd-window */
};

/* Are they what the options of these names may be? */
bool tune_valid(const struct tune_settings *settings);

#define TUNE_STEPS 5 /* of a trial that count: their median does */

struct tune {
    struct tune_settings start; /* what was set */
    struct tune_settings best;  /* so far */
    struct tune_settings now;   /* to be used; what a trial is about */
    int phase;
    int knob, choice; /* the trial: which setting, and which of its values */
    int step;         /* of the trial; the first ones are not counted */
    double rates[TUNE_STEPS];
    double best_rate; /* bytes a microsecond */
    int turn;         /* of the duel between [best] and [start] at the end */
    double won[2];    /* sums of what these two reached in it */
    int64_t steps;    /* in all */
};

/* At most as many steps until tune_over. */
#define TUNE_MOST_STEPS 300

void tune_begin(struct tune *tune, const struct tune_settings *start);

/* A step is over, in which [bytes] were carried while there was something to carry for [busy_us]. True where
 * tune->now has changed. A step in which nothing was carried tells nothing. */
bool tune_step(struct tune *tune, int64_t bytes, int64_t busy_us);

/* Nothing more will be tried: tune->now stays, and is tune->start unless something was better. */
bool tune_over(const struct tune *tune);

/* How much faster than what was set, 1.1 being a tenth; 1 where that was kept. Once it is over. */
double tune_gain(const struct tune *tune);

#endif
