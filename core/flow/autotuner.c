/* autotuner.c: one setting after the other, each value for some steps; then the best of them against what was
 * set.
 */
#include "flow/autotuner.h"

#include <stdlib.h>
#include <string.h>

#include "base/option.h"

#define SETTLE_STEPS 2 /* not counted: decided under what was tried before */
#define CLEARLY      1.03
#define DUELS        6 /* turns of each side */

enum phase { BASELINE, CLIMB, DUEL, OVER };

enum knob { FUSION, CHUNK, WINDOW, KNOBS };

#define KIB         INT64_C(1024)
#define MIB         (1024 * KIB)
#define MOST_VALUES 5

/* What is worth trying of each. */
static const struct {
    int count;
    int64_t values[MOST_VALUES];
} knobs[KNOBS] = {
    [FUSION] = {5, {2 * MIB, 8 * MIB, 32 * MIB, 64 * MIB, 256 * MIB}},
    [CHUNK] = {3, {32 * KIB, 64 * KIB, 128 * KIB}},
    [WINDOW] = {4, {1, 2, 4, 16}},
};

static int64_t *value_of(struct tune_settings *settings, int knob)
{
    switch (knob) {
    case FUSION:
        return &settings->fusion_bytes;
    case CHUNK:
        return &settings->chunk_bytes;
    default:
        return &settings->window;
    }
}

static bool may_be(enum option_id id, int64_t value)
{
    return value >= option_table[id].min && value <= option_table[id].max;
}

bool tune_valid(const struct tune_settings *settings)
{
    return may_be(OPT_FUSION, settings->fusion_bytes) && may_be(OPT_CHUNK, settings->chunk_bytes) &&
           may_be(OPT_WINDOW, settings->window);
}

void tune_begin(struct tune *tune, const struct tune_settings *start)
{
    memset(tune, 0, sizeof(*tune));
    tune->start = tune->best = tune->now = *start;
    tune->phase = BASELINE;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(struct tune *tune)
{
    qsort(tune->rates, TUNE_STEPS, sizeof(tune->rates[0]), by_size);
    return tune->rates[TUNE_STEPS / 2];
}

/* Begin a trial of the next value of a setting that is not the one in use; false where there is none. */
static bool next_trial(struct tune *tune)
{
    for (; tune->knob < KNOBS; tune->knob++, tune->choice = 0) {
        while (tune->choice < knobs[tune->knob].count) {
            int64_t value = knobs[tune->knob].values[tune->choice++];
            tune->now = tune->best;
            *value_of(&tune->now, tune->knob) = value;
            if (value != *value_of(&tune->best, tune->knob))
                return true;
        }
    }
    tune->now = tune->best;
    return false;
}

static bool same(const struct tune_settings *a, const struct tune_settings *b)
{
    return a->fusion_bytes == b->fusion_bytes && a->chunk_bytes == b->chunk_bytes && a->window == b->window;
}

/* The machine may have become faster or slower meanwhile: only side by side is it known what is better. */
static void begin_duel(struct tune *tune)
{
    tune->phase = same(&tune->best, &tune->start) ? OVER : DUEL;
    tune->turn = 0;
    tune->now = tune->best;
}

static void end_duel_turn(struct tune *tune, double rate)
{
    bool for_best = tune->turn % 2 == 0;
    tune->won[for_best ? 0 : 1] += rate;
    tune->turn++;
    tune->now = for_best ? tune->start : tune->best;
    if (tune->turn < 2 * DUELS)
        return;
    if (tune->won[0] < tune->won[1] * CLEARLY)
        tune->best = tune->start;
    tune->now = tune->best;
    tune->phase = OVER;
}

static void end_trial(struct tune *tune)
{
    double rate = median(tune);
    tune->step = 0;
    if (tune->phase == DUEL) {
        end_duel_turn(tune, rate);
        return;
    }
    if (tune->phase == BASELINE || rate > tune->best_rate * CLEARLY) {
        tune->best = tune->now;
        tune->best_rate = rate;
    }
    tune->phase = CLIMB;
    if (!next_trial(tune))
        begin_duel(tune);
}

bool tune_step(struct tune *tune, int64_t bytes, int64_t busy_us)
{
    if (tune->phase == OVER || bytes <= 0 || busy_us <= 0)
        return false;
    struct tune_settings before = tune->now;
    int counted = tune->step++ - SETTLE_STEPS;
    tune->steps++;
    if (counted < 0)
        return false;
    tune->rates[counted] = (double)bytes / (double)busy_us;
    if (counted == TUNE_STEPS - 1)
        end_trial(tune);
    return !same(&before, &tune->now);
}

bool tune_over(const struct tune *tune)
{
    return tune->phase == OVER;
}

double tune_gain(const struct tune *tune)
{
    return same(&tune->best, &tune->start) ? 1 : tune->won[0] / tune->won[1];
}
