/* bar.c: compare measurements with the bars. */
#include "tools/hvdbench/bars/bar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/hvdbench/stats.h"

/* ---- Bars ----------------------------------------------------------------------------------------- */

int bar_commands(const struct bar *bar)
{
    int count = 0;
    while (count < BAR_COMMANDS && bar->commands[count].place != RUNNER_NONE)
        count++;
    return count;
}

int bar_turns(const struct bar *bar)
{
    return bar->turns > 0 ? bar->turns : 1;
}

/* Find the next name in a comma-separated list. Returns its length, or 0 after the last. */
static size_t next_name(const char **atp, const char **namep)
{
    *atp += **atp == ',';
    *namep = *atp;
    *atp += strcspn(*atp, ",");
    return (size_t)(*atp - *namep);
}

static bool is_named(const struct bar *bar, const char *name, size_t length)
{
    return strlen(bar->name) == length && memcmp(bar->name, name, length) == 0;
}

bool bar_is_chosen(const struct bar *bar, const char *only)
{
    const char *name = NULL;
    if (only == NULL)
        return true;
    for (size_t length = next_name(&only, &name); length > 0; length = next_name(&only, &name))
        if (is_named(bar, name, length))
            return true;
    return false;
}

int bar_check_names(const char *only, struct hvd_error *err)
{
    const char *name = NULL;
    const char *at = only;
    char list[512] = "";
    for (const struct bar *bar = bar_table; bar->name != NULL; bar++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", used > 0 ? ", " : "", bar->name);
    }
    do {
        const struct bar *bar = bar_table;
        size_t length = next_name(&at, &name);
        while (bar->name != NULL && !is_named(bar, name, length))
            bar++;
        if (bar->name == NULL)
            return error_set(err, HVD_ERR_INVALID,
                             "--only=%.100s: there is no bar \"%.*s\"; expected some of %s", only,
                             (int)(length < 60 ? length : 60), name, list);
    } while (*at != 0);
    return HVD_OK;
}

/* ---- Results ------------------------------------------------------------------------------------- */

static int find(const struct record *record, const char *field, double *numberp, struct hvd_error *why)
{
    const double *number = record_find(record, field);
    if (number == NULL && strncmp(field, "mpi", 3) == 0 && record->no_mpi[0] != 0)
        return error_set(why, HVD_ERR_UNSUPPORTED, "MPI was left out: %s", record->no_mpi);
    if (number == NULL)
        return error_set(why, HVD_ERR_UNSUPPORTED, "nothing was said of %s", field);
    *numberp = *number;
    return HVD_OK;
}

/* The number that one command reached in one turn. [first] is the record of the first command of that turn:
 * for a spread, each number is divided by the first command's, which cancels drift from turn to turn. */
static int measure_once(const struct limit *limit, const struct record *record, const struct record *first,
                        double *numberp, struct hvd_error *why)
{
    double other = 0;
    int status = find(record, limit->field, numberp, why);
    if (status == HVD_OK && limit->of != NULL)
        status = find(record, limit->of, &other, why);
    else if (status == HVD_OK && limit->kind == LIMIT_SPREAD)
        status = find(first, limit->field, &other, why);
    if (limit->kind == LIMIT_ABOVE)
        *numberp -= other;
    else if (limit->kind != LIMIT_VALUE)
        *numberp /= other;
    if (status == HVD_OK && !isfinite(*numberp))
        status = error_set(why, HVD_ERR_UNSUPPORTED, "there is no number for %s", limit->title);
    return status;
}

int limit_measure(const struct limit *limit, const struct bar *bar, const struct record *records,
                  double *seenp, struct hvd_error *why)
{
    int commands = bar_commands(bar);
    int turns = bar_turns(bar);
    double least = INFINITY;
    double most = -INFINITY;
    int status = HVD_OK;
    for (int command = 0; command < commands && status == HVD_OK; command++) {
        double numbers[BAR_TURNS_MAX] = {0};
        for (int turn = 0; turn < turns && status == HVD_OK; turn++) {
            const struct record *first = &records[turn * commands];
            status = measure_once(limit, &first[command], first, &numbers[turn], why);
        }
        double number = stats_of(numbers, turns).median;
        least = number < least ? number : least;
        most = number > most ? number : most;
    }
    *seenp = limit->kind == LIMIT_SPREAD ? most / least : most;
    return status;
}

enum bar_result limit_judge(const struct limit *limit, const double *seen, int runs)
{
    enum bar_result result = BAR_NONE;
    for (int run = 0; run < runs && limit_is_judged(limit); run++) {
        /* written so that NaN does not meet the bar */
        enum bar_result one = !(seen[run] <= limit->most)                         ? BAR_MISSED
                              : limit->stretch > 0 && seen[run] <= limit->stretch ? BAR_STRETCH
                                                                                  : BAR_MET;
        result = one > result ? one : result;
    }
    return result;
}

enum bar_result limit_judge_failed(const struct limit *limit, int status)
{
    if (!limit_is_judged(limit))
        return BAR_NONE;
    return status == HVD_ERR_UNSUPPORTED ? BAR_NOT_RUN : BAR_MISSED;
}

const char *bar_result_name(enum bar_result result)
{
    static const char *const names[] = {[BAR_NONE] = "-",
                                        [BAR_STRETCH] = "stretch",
                                        [BAR_MET] = "yes",
                                        [BAR_NOT_RUN] = "not run",
                                        [BAR_MISSED] = "no"};
    return names[result];
}
