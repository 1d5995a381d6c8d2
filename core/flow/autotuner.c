/* autotuner.c: tries the values of one setting after the other; then compares the best with the start. */
#include "flow/autotuner.h"

#include <stdlib.h>
#include <string.h>

#define WARMUP_STEPS  2 /* not measured: decided with the settings of the trial before */
#define MIN_GAIN      1.03
#define CONFIRM_TURNS 6 /* turns of each side */

enum search_phase { BASELINE, SEARCH, CONFIRM, DONE };

enum parameter { FUSION, CHUNK, INFLIGHT, PARAMETERS };

#define KIB         INT64_C(1024)
#define MIB         (1024 * KIB)
#define MOST_VALUES 5

/* The values to try of each. */
static const struct {
    int count;
    int64_t values[MOST_VALUES];
} parameters[PARAMETERS] = {
    [FUSION] = {5, {2 * MIB, 8 * MIB, 32 * MIB, 64 * MIB, 256 * MIB}},
    [CHUNK] = {3, {32 * KIB, 64 * KIB, 128 * KIB}},
    [INFLIGHT] = {4, {1, 2, 4, 16}},
};

static int64_t *value_of(struct tuned_settings *settings, int parameter)
{
    switch (parameter) {
    case FUSION:
        return &settings->fusion_bytes;
    case CHUNK:
        return &settings->chunk_bytes;
    default:
        return &settings->inflight;
    }
}

void autotuner_begin(struct autotuner *autotuner, const struct tuned_settings *start)
{
    memset(autotuner, 0, sizeof(*autotuner));
    autotuner->start = autotuner->best = autotuner->now = *start;
    autotuner->phase = BASELINE;
}

static int compare_rates(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(struct autotuner *autotuner)
{
    qsort(autotuner->rates, AUTOTUNER_STEPS, sizeof(autotuner->rates[0]), compare_rates);
    return autotuner->rates[AUTOTUNER_STEPS / 2];
}

/* Begin a trial of the next value that differs from the best; false where there is none. */
static bool next_trial(struct autotuner *autotuner)
{
    for (; autotuner->parameter < PARAMETERS; autotuner->parameter++, autotuner->choice = 0) {
        while (autotuner->choice < parameters[autotuner->parameter].count) {
            int64_t value = parameters[autotuner->parameter].values[autotuner->choice++];
            autotuner->now = autotuner->best;
            *value_of(&autotuner->now, autotuner->parameter) = value;
            if (value != *value_of(&autotuner->best, autotuner->parameter))
                return true;
        }
    }
    autotuner->now = autotuner->best;
    return false;
}

static bool settings_equal(const struct tuned_settings *a, const struct tuned_settings *b)
{
    return a->fusion_bytes == b->fusion_bytes && a->chunk_bytes == b->chunk_bytes &&
           a->inflight == b->inflight;
}

/* The machine may have become faster or slower since the trials began, so the best and the start settings are
 * measured again, in turns. */
static void begin_confirmation(struct autotuner *autotuner)
{
    autotuner->phase = settings_equal(&autotuner->best, &autotuner->start) ? DONE : CONFIRM;
    autotuner->turn = 0;
    autotuner->now = autotuner->best;
}

static void end_confirmation_turn(struct autotuner *autotuner, double rate)
{
    bool for_best = autotuner->turn % 2 == 0;
    autotuner->confirm_rates[for_best ? 0 : 1] += rate;
    autotuner->turn++;
    autotuner->now = for_best ? autotuner->start : autotuner->best;
    if (autotuner->turn < 2 * CONFIRM_TURNS)
        return;
    if (autotuner->confirm_rates[0] < autotuner->confirm_rates[1] * MIN_GAIN)
        autotuner->best = autotuner->start;
    autotuner->now = autotuner->best;
    autotuner->phase = DONE;
}

static void end_trial(struct autotuner *autotuner)
{
    double rate = median(autotuner);
    autotuner->step = 0;
    if (autotuner->phase == CONFIRM) {
        end_confirmation_turn(autotuner, rate);
        return;
    }
    if (autotuner->phase == BASELINE || rate > autotuner->best_rate * MIN_GAIN) {
        autotuner->best = autotuner->now;
        autotuner->best_rate = rate;
    }
    autotuner->phase = SEARCH;
    if (!next_trial(autotuner))
        begin_confirmation(autotuner);
}

bool autotuner_step(struct autotuner *autotuner, int64_t bytes, int64_t busy_us)
{
    if (autotuner->phase == DONE || bytes <= 0 || busy_us <= 0)
        return false;
    struct tuned_settings before = autotuner->now;
    int counted = autotuner->step++ - WARMUP_STEPS;
    autotuner->steps++;
    if (counted < 0)
        return false;
    autotuner->rates[counted] = (double)bytes / (double)busy_us;
    if (counted == AUTOTUNER_STEPS - 1)
        end_trial(autotuner);
    return !settings_equal(&before, &autotuner->now);
}

bool autotuner_over(const struct autotuner *autotuner)
{
    return autotuner->phase == DONE;
}

double autotuner_gain(const struct autotuner *autotuner)
{
    return settings_equal(&autotuner->best, &autotuner->start)
               ? 1
               : autotuner->confirm_rates[0] / autotuner->confirm_rates[1];
}
