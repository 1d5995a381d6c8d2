/* trials.c: measures the steps of the program on the root, for the search for better settings. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "flow/stages.h"

#define NEXT_MARKER_LIMIT 4
#define TEXT_BYTES        128

void trials_begin(struct loop *loop)
{
    const struct hvd_config *config = loop->backends.env.config;
    struct trials *trials = &loop->trials;
    loop->settings = (struct tuned_settings){config->fusion_bytes, config->chunk_bytes, config->inflight};
    trials->on = config->autotune && loop->control->parent < 0;
    trials->marker = trials->next_marker = WIRE_NO_ID;
    autotuner_begin(&trials->search, &loop->settings);
}

/* ---- What it came to ------------------------------------------------------------------------ */

/* As in the YAML mapping that --hvd-config reads. */
static void settings_text(const struct tuned_settings *settings, const char *separator, char text[TEXT_BYTES])
{
    char fusion[32];
    char chunk[32];
    format_size(settings->fusion_bytes, fusion, sizeof(fusion));
    format_size(settings->chunk_bytes, chunk, sizeof(chunk));
    snprintf(text, TEXT_BYTES, "%s: %s%s%s: %s%s%s: %" PRId64, option_table[OPT_FUSION].name, fusion,
             separator, option_table[OPT_CHUNK].name, chunk, separator, option_table[OPT_INFLIGHT].name,
             settings->inflight);
}

static void write_file(const struct loop *loop, const char *path)
{
    char text[TEXT_BYTES];
    settings_text(&loop->trials.search.now, "\n", text);
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fprintf(file, "# by --hvd-autotune, for --hvd-config\n%s\n", text) > 0;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        log_write(loop->backends.env.log, LOG_WARN, "autotune",
                  "what was found cannot be written into %s: %s; name a file that can be written in "
                  "--hvd-autotune-file",
                  path, strerror(errno));
}

static void report_result(const struct loop *loop)
{
    const struct autotuner *search = &loop->trials.search;
    const char *path = loop->backends.env.config->autotune_file;
    char text[TEXT_BYTES];
    settings_text(&search->now, ", ", text);
    if (autotuner_gain(search) == 1)
        log_requested(loop->backends.env.log, "autotune",
                      "in %" PRId64 " steps nothing was clearly better than what is set (%s)", search->steps,
                      text);
    else
        log_requested(loop->backends.env.log, "autotune",
                      "from now on %s: carries %.0f %% more bytes a second than what was set (%" PRId64
                      " steps)",
                      text, 100 * (autotuner_gain(search) - 1), search->steps);
    if (path[0] != 0)
        write_file(loop, path);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

/* Time that has passed with something to carry becomes part of this step. */
static void count_busy(struct trials *trials, bool goes_on)
{
    int64_t now_us = clock_us();
    if (trials->busy_from_us != 0)
        trials->busy_us += now_us - trials->busy_from_us;
    trials->busy_from_us = goes_on ? now_us : 0;
}

static void end_step(struct loop *loop)
{
    struct trials *trials = &loop->trials;
    count_busy(trials, trials->busy_from_us != 0);
    if (autotuner_step(&trials->search, trials->bytes, trials->busy_us))
        negotiate_tune(loop->negotiate, &trials->search.now);
    trials->bytes = trials->busy_us = 0;
    if (!autotuner_over(&trials->search))
        return;
    trials->on = false;
    report_result(loop);
}

/* Has the operation behind the last marker come so often that the marker will not come again? */
static bool marker_is_gone(struct trials *trials, uint32_t number)
{
    if (trials->next_marker == WIRE_NO_ID)
        trials->next_marker = number;
    if (number == trials->next_marker)
        trials->next_marker_count++;
    return trials->next_marker_count == NEXT_MARKER_LIMIT;
}

/* A step goes from one time that an operation is decided to the next. What a program only does before it
 * begins to train is forgotten. */
void trials_decided(struct loop *loop, const struct decision *decision)
{
    struct trials *trials = &loop->trials;
    if (!trials->on || decision->set != HVD_ALL_RANKS || decision->number == WIRE_NO_ID ||
        decision->desc->kind != DESC_ALLREDUCE)
        return;
    if (decision->number == trials->marker)
        end_step(loop);
    else if (trials->marker != WIRE_NO_ID && !marker_is_gone(trials, decision->number))
        return;
    trials->marker = decision->number;
    trials->next_marker = WIRE_NO_ID;
    trials->next_marker_count = 0;
}

void trials_busy(struct loop *loop)
{
    if (loop->trials.on && loop->trials.busy_from_us == 0)
        count_busy(&loop->trials, true);
}

void trials_carried(struct loop *loop, int64_t bytes)
{
    if (!loop->trials.on)
        return;
    loop->trials.bytes += bytes;
    count_busy(&loop->trials, loop->batches != NULL);
}
