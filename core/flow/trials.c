/* trials.c: measures the steps of the program on the root, for the search for better settings. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "flow/stages.h"

#define RIVAL_COUNT 4
#define WORDS_BYTES 128

void tuning_begin(struct loop *loop)
{
    const struct hvd_config *config = loop->planes.env.config;
    struct tuning *tuning = &loop->tuning;
    loop->settings = (struct tune_settings){config->fusion_bytes, config->chunk_bytes, config->window};
    tuning->on = config->autotune && loop->control->parent < 0;
    tuning->mark = tuning->rival = WIRE_NO_ID;
    tune_begin(&tuning->search, &loop->settings);
}

/* ---- What it came to ------------------------------------------------------------------------ */

/* As in the YAML mapping that --hvd-config reads. */
static void words_of(const struct tune_settings *settings, const char *between, char words[WORDS_BYTES])
{
    char fusion[32];
    char chunk[32];
    format_size(settings->fusion_bytes, fusion, sizeof(fusion));
    format_size(settings->chunk_bytes, chunk, sizeof(chunk));
    snprintf(words, WORDS_BYTES, "%s: %s%s%s: %s%s%s: %" PRId64, option_table[OPT_FUSION].name, fusion,
             between, option_table[OPT_CHUNK].name, chunk, between, option_table[OPT_WINDOW].name,
             settings->window);
}

static void write_file(const struct loop *loop, const char *path)
{
    char words[WORDS_BYTES];
    words_of(&loop->tuning.search.now, "\n", words);
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fprintf(file, "# by --hvd-autotune, for --hvd-config\n%s\n", words) > 0;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        log_write(loop->planes.env.log, LOG_WARN, "autotune",
                  "what was found cannot be written into %s: %s; name a file that can be written in "
                  "--hvd-autotune-file",
                  path, strerror(errno));
}

static void tell(const struct loop *loop)
{
    const struct tune *search = &loop->tuning.search;
    const char *path = loop->planes.env.config->autotune_file;
    char words[WORDS_BYTES];
    words_of(&search->now, ", ", words);
    if (tune_gain(search) == 1)
        log_answer(loop->planes.env.log, "autotune",
                   "in %" PRId64 " steps nothing was clearly better than what is set (%s)", search->steps,
                   words);
    else
        log_answer(loop->planes.env.log, "autotune",
                   "from now on %s: carries %.0f %% more bytes a second than what was set (%" PRId64
                   " steps)",
                   words, 100 * (tune_gain(search) - 1), search->steps);
    if (path[0] != 0)
        write_file(loop, path);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

/* Time that has passed with something to carry becomes part of this step. */
static void count_busy(struct tuning *tuning, bool goes_on)
{
    int64_t now_us = clock_us();
    if (tuning->busy_from_us != 0)
        tuning->busy_us += now_us - tuning->busy_from_us;
    tuning->busy_from_us = goes_on ? now_us : 0;
}

static void end_step(struct loop *loop)
{
    struct tuning *tuning = &loop->tuning;
    count_busy(tuning, tuning->busy_from_us != 0);
    if (tune_step(&tuning->search, tuning->bytes, tuning->busy_us))
        negotiate_tune(loop->negotiate, &tuning->search.now);
    tuning->bytes = tuning->busy_us = 0;
    if (!tune_over(&tuning->search))
        return;
    tuning->on = false;
    tell(loop);
}

/* Has the operation behind the last mark come so often that the mark will not come again? */
static bool mark_is_gone(struct tuning *tuning, uint32_t number)
{
    if (tuning->rival == WIRE_NO_ID)
        tuning->rival = number;
    if (number == tuning->rival)
        tuning->rival_count++;
    return tuning->rival_count == RIVAL_COUNT;
}

/* A step goes from one time that an operation is decided to the next. What a program only does before it
 * begins to train is forgotten. */
void tuning_decided(struct loop *loop, const struct decision *decision)
{
    struct tuning *tuning = &loop->tuning;
    if (!tuning->on || decision->set != HVD_ALL_RANKS || decision->number == WIRE_NO_ID ||
        decision->desc->kind != DESC_ALLREDUCE)
        return;
    if (decision->number == tuning->mark)
        end_step(loop);
    else if (tuning->mark != WIRE_NO_ID && !mark_is_gone(tuning, decision->number))
        return;
    tuning->mark = decision->number;
    tuning->rival = WIRE_NO_ID;
    tuning->rival_count = 0;
}

void tuning_busy(struct loop *loop)
{
    if (loop->tuning.on && loop->tuning.busy_from_us == 0)
        count_busy(&loop->tuning, true);
}

void tuning_carried(struct loop *loop, int64_t bytes)
{
    if (!loop->tuning.on)
        return;
    loop->tuning.bytes += bytes;
    count_busy(&loop->tuning, loop->batches != NULL);
}
