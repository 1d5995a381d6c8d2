/* trials.c: feeds the autotuner with the steps of the program. */
#include "flow/trials.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/clock.h"
#include "base/ulimit.h"
#include "options/parse.h"

#define NEXT_MARKER_LIMIT 4
#define TEXT_BYTES        128

void trials_init(struct trials *trials, const struct backend_env *env, bool root,
                 const struct tuned_settings *start)
{
    trials->on = env->config->autotune && root;
    trials->env = env;
    trials->marker = trials->next_marker = WIRE_NO_ID;
    autotuner_begin(&trials->autotuner, start);
}

/* ---- The result ------------------------------------------------------------------------------- */

/* As in the YAML mapping that --hvd-config reads. */
static void settings_text(const struct tuned_settings *settings, const char *separator, char text[TEXT_BYTES])
{
    char fusion[32];
    char chunk[32];
    format_size(settings->fusion_bytes, fusion, sizeof(fusion));
    format_size(settings->chunk_bytes, chunk, sizeof(chunk));
    snprintf(text, TEXT_BYTES, "%s: %s%s%s: %s%s%s: %" PRId64, OPTION_OF(fusion_bytes)->name, fusion,
             separator, OPTION_OF(chunk_bytes)->name, chunk, separator, OPTION_OF(inflight)->name,
             settings->inflight);
}

static void write_file(const struct trials *trials, const char *path)
{
    char text[TEXT_BYTES];
    settings_text(&trials->autotuner.now, "\n", text);
    FILE *file = ulimit_allows_file(sizeof(text)) ? fopen(path, "we") : NULL;
    bool written = file != NULL && fprintf(file, "# by --hvd-autotune, for --hvd-config\n%s\n", text) > 0;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        log_write(trials->env->log, LOG_WARN, "autotune",
                  "the settings that were found cannot be written to %s: %s; name a writable file in "
                  "--hvd-autotune-file",
                  path, error_text(errno));
}

static void report_result(const struct trials *trials)
{
    const struct autotuner *autotuner = &trials->autotuner;
    const struct hvd_log *log = trials->env->log;
    const char *path = trials->env->config->autotune_file;
    char text[TEXT_BYTES];
    settings_text(&autotuner->now, ", ", text);
    if (autotuner_gain(autotuner) == 1)
        log_requested(log, "autotune",
                      "in %" PRId64 " steps nothing was clearly better than the settings in use (%s)",
                      autotuner->steps, text);
    else
        log_requested(
            log, "autotune",
            "from now on %s: transfers %.0f %% more bytes a second than the settings before (%" PRId64
            " steps)",
            text, 100 * (autotuner_gain(autotuner) - 1), autotuner->steps);
    if (path[0] != 0)
        write_file(trials, path);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

/* Add the time since busy_from_us to this step. [busy]: there still is a batch to transfer. */
static void count_busy(struct trials *trials, bool busy)
{
    int64_t now_us = clock_us();
    if (trials->busy_from_us != 0)
        trials->busy_us += now_us - trials->busy_from_us;
    trials->busy_from_us = busy ? now_us : 0;
}

/* True where the settings to use have changed. */
static bool end_step(struct trials *trials)
{
    count_busy(trials, trials->busy_from_us != 0);
    bool changed = autotuner_step(&trials->autotuner, trials->bytes, trials->busy_us);
    trials->bytes = trials->busy_us = 0;
    if (autotuner_over(&trials->autotuner)) {
        trials->on = false;
        report_result(trials);
    }
    return changed;
}

/* Has the operation after the marker come so often that the marker will not come again? */
static bool marker_is_gone(struct trials *trials, uint32_t number)
{
    if (trials->next_marker == WIRE_NO_ID)
        trials->next_marker = number;
    if (number == trials->next_marker)
        trials->next_marker_count++;
    return trials->next_marker_count == NEXT_MARKER_LIMIT;
}

/* A step lasts from one decision of an operation to the next of the same operation. A program may run other
 * operations before it begins to train: a marker that does not come again is replaced. */
const struct tuned_settings *trials_decided(struct trials *trials, const struct decision *decision)
{
    bool changed = false;
    if (!trials->on || decision->set != HVD_ALL_RANKS || decision->id == WIRE_NO_ID ||
        decision->desc->kind != DESC_ALLREDUCE)
        return NULL;
    if (decision->id == trials->marker)
        changed = end_step(trials);
    else if (trials->marker != WIRE_NO_ID && !marker_is_gone(trials, decision->id))
        return NULL;
    trials->marker = decision->id;
    trials->next_marker = WIRE_NO_ID;
    trials->next_marker_count = 0;
    return changed ? &trials->autotuner.now : NULL;
}

void trials_batch_queued(struct trials *trials)
{
    if (trials->on && trials->busy_from_us == 0)
        count_busy(trials, true);
}

void trials_batch_done(struct trials *trials, int64_t bytes, bool more)
{
    if (!trials->on)
        return;
    trials->bytes = bytes_add(trials->bytes, bytes);
    count_busy(trials, more);
}
