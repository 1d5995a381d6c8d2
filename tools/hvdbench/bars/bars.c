/* bars.c: hvdbench bars: run the commands of the bars and report which bars are met. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hvdbench/bars/bar_run.h"
#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/cores.h"
#include "tools/hvdbench/cache_line_latency.h"
#include "tools/hvdbench/report.h"

#define RECORDS       (BAR_COMMANDS * BAR_TURNS_MAX)
#define TITLE_COLUMN  34
#define NUMBER_COLUMN 10

/* The results of one limit. */
struct result {
    double seen[BENCH_RUNS_MAX];
    int runs;
    enum bar_result met;
    struct hvd_error why; /* why the run after the last one in [seen] gave no number */
};

struct bars {
    const struct bench_options *options;
    int cores[2];
    struct programs programs;
    struct spawned spawned;
    struct record records[RECORDS]; /* the records of one run */
    int counts[BAR_RESULT_COUNT];   /* number of bars by their worst result */
    char names[BAR_RESULT_COUNT][256];
};

/* ---- Output --------------------------------------------------------------------------------------- */

static void show_nothing(void)
{
    printf("  %*s", NUMBER_COLUMN, "-");
}

static void show_number(const struct limit *limit, double number)
{
    char text[REPORT_TEXT_BYTES];
    if (limit->unit == UNIT_US)
        report_time(number, text);
    else
        snprintf(text, sizeof(text), limit->unit == UNIT_TIMES ? "%.3f x" : "%.0f", number);
    printf("  %*s", NUMBER_COLUMN, text);
}

static void show_head(int runs)
{
    printf("  %-*s", TITLE_COLUMN, "");
    for (int run = 1; run <= runs; run++)
        printf("  %*s %d", NUMBER_COLUMN - 2, "run", run);
    printf("  %*s  %*s%s\n", NUMBER_COLUMN, "bar", NUMBER_COLUMN, "stretch", runs > 0 ? "  met" : "");
}

static void show_bar(const struct bar *bar, const struct programs *programs)
{
    printf("%s: %s\n", bar->name, bar->title);
    for (int i = 0; i < bar_commands(bar); i++) {
        struct command command;
        char text[256];
        command_describe(&command, programs, &bar->commands[i]);
        command_format(&command, text, sizeof(text));
        printf("  $ %s\n", text);
    }
    fflush(stdout);
}

/* [result] is NULL if nothing was run. */
static void show_limit(const struct limit *limit, const struct result *result, int runs)
{
    printf("  %-*s", TITLE_COLUMN, limit->title);
    for (int run = 0; result != NULL && run < runs; run++)
        if (run < result->runs)
            show_number(limit, result->seen[run]);
        else
            show_nothing();
    if (limit_is_judged(limit))
        show_number(limit, limit->most);
    else
        show_nothing();
    if (limit->stretch > 0)
        show_number(limit, limit->stretch);
    else
        show_nothing();
    if (result != NULL)
        printf("  %s", bar_result_name(result->met));
    putchar('\n');
    if (result != NULL && result->why.text[0] != 0)
        printf("    %s\n", result->why.text);
    fflush(stdout);
}

/* The latency between the two cores before each run, to put the other numbers into perspective. */
static void show_lines(const double *lines_ns, int runs)
{
    printf("  %-*s", TITLE_COLUMN, "core-to-core cache line round trip");
    for (int run = 0; run < runs; run++)
        if (isnan(lines_ns[run]))
            show_nothing();
        else
            printf("  %*.0f ns", NUMBER_COLUMN - 3, lines_ns[run]);
    putchar('\n');
}

static void show_json(const struct bar *bar, const struct limit *limit, const struct result *result,
                      const double *lines_ns)
{
    struct json json = json_open(stdout);
    json_text(&json, "case", bench_case_name(BENCH_BARS));
    json_text(&json, "bar", bar->name);
    json_text(&json, "version", hvd_version());
    json_text(&json, "limit", limit->title);
    json_numbers(&json, "seen", result->seen, result->runs);
    if (limit_is_judged(limit))
        json_number(&json, "most", limit->most);
    if (limit->stretch > 0)
        json_number(&json, "stretch", limit->stretch);
    json_text(&json, "met", bar_result_name(result->met));
    json_numbers(&json, "line_ns", lines_ns, result->runs);
    if (result->why.text[0] != 0)
        json_text(&json, "why", result->why.text);
    json_close_line(&json);
}

/* ---- Runs ----------------------------------------------------------------------------------------- */

/* One run of all limits of a bar. A limit that could not be measured, or failed, is not tried again. */
static void run_once(struct bars *bars, const struct bar *bar, struct result *results)
{
    struct hvd_error err = {""};
    int ran = bar_run(bar, &bars->programs, &bars->spawned, bars->records, &err);
    for (int i = 0; i < BAR_LIMITS && bar->limits[i].title != NULL; i++) {
        struct result *result = &results[i];
        int status = ran;
        if (result->why.text[0] != 0)
            continue;
        if (ran == HVD_OK)
            status =
                limit_measure(&bar->limits[i], bar, bars->records, &result->seen[result->runs], &result->why);
        else
            result->why = err;
        result->runs += status == HVD_OK;
        if (status != HVD_OK)
            result->met = limit_judge_failed(&bar->limits[i], status);
    }
}

/* Whether no limit is left to measure. */
static bool is_over(const struct bar *bar, const struct result *results)
{
    for (int i = 0; i < BAR_LIMITS && bar->limits[i].title != NULL; i++)
        if (results[i].why.text[0] == 0)
            return false;
    return true;
}

static enum bar_result run_bar(struct bars *bars, const struct bar *bar)
{
    int runs = (int)bars->options->runs;
    enum bar_result worst = BAR_NONE;
    struct result results[BAR_LIMITS];
    double lines_ns[BENCH_RUNS_MAX];
    int run = 0;
    memset(results, 0, sizeof(results));
    for (; run < runs && !is_over(bar, results); run++) {
        lines_ns[run] = cache_line_round_trip_ns(bars->cores[0], bars->cores[1]);
        run_once(bars, bar, results);
    }
    for (int i = 0; i < BAR_LIMITS && bar->limits[i].title != NULL; i++) {
        const struct limit *limit = &bar->limits[i];
        enum bar_result seen =
            results[i].runs > 0 ? limit_judge(limit, results[i].seen, results[i].runs) : BAR_NONE;
        results[i].met = seen > results[i].met ? seen : results[i].met;
        worst = results[i].met > worst ? results[i].met : worst;
        if (bars->options->json)
            show_json(bar, limit, &results[i], lines_ns);
        else
            show_limit(limit, &results[i], runs);
    }
    if (!bars->options->json)
        show_lines(lines_ns, run);
    return worst;
}

/* ---- The case ------------------------------------------------------------------------------------- */

static void count(struct bars *bars, const struct bar *bar, enum bar_result result)
{
    char *names = bars->names[result];
    size_t used = strlen(names);
    bars->counts[result]++;
    snprintf(names + used, sizeof(bars->names[0]) - used, "%s%s", used > 0 ? ", " : "", bar->name);
}

/* Returns HVD_OK only if all bars are met. */
static int sum_up(const struct bars *bars, struct hvd_error *err)
{
    const int *counts = bars->counts;
    char missed[300] = "";
    char not_run[300] = "";
    int met = counts[BAR_MET] + counts[BAR_STRETCH];
    int all = met + counts[BAR_MISSED] + counts[BAR_NOT_RUN];
    if (met == all) {
        if (!bars->options->json)
            printf("all %d bar%s met in all runs\n", all, all == 1 ? " is" : "s are");
        return HVD_OK;
    }
    if (counts[BAR_MISSED] > 0)
        snprintf(missed, sizeof(missed), "; missed: %s", bars->names[BAR_MISSED]);
    if (counts[BAR_NOT_RUN] > 0)
        snprintf(not_run, sizeof(not_run), "; not run: %s", bars->names[BAR_NOT_RUN]);
    return error_set(err, HVD_ERR_SYSTEM, "%d of %d bars are met%s%s", met, all, missed, not_run);
}

/* Set up what all bars need. */
static int prepare(struct bars *bars, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int *cores = bars->cores;
    int status = programs_check_alone(bench_case_name(BENCH_BARS), err);
    if (status == HVD_OK)
        status = record_read(&bars->records[0], "{}", &why);
    if (status == HVD_OK)
        status = cores_take_two(cores, &why);
    if (why.text[0] != 0)
        return error_set(err, status, "hvdbench bars cannot be run: %s", why.text);
    if (status != HVD_OK)
        return status;
    /* containers often have no other user than root */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    if (!bars->options->json)
        printf("bars: %lld run%s on cores %d and %d, hvd %s\n", (long long)bars->options->runs,
               report_s(bars->options->runs), cores[0], cores[1], hvd_version());
    return HVD_OK;
}

static int run_all(struct bars *bars, struct hvd_error *err)
{
    const struct bench_options *options = bars->options;
    int status = programs_find(&bars->programs, err);
    if (status == HVD_OK && !options->list)
        status = prepare(bars, err);
    if (status != HVD_OK)
        return status;
    if (options->list || !options->json)
        show_head(options->list ? 0 : (int)options->runs);
    for (const struct bar *bar = bar_table; bar->name != NULL; bar++) {
        if (!bar_is_chosen(bar, options->only))
            continue;
        if (options->list || !options->json)
            show_bar(bar, &bars->programs);
        if (!options->list)
            count(bars, bar, run_bar(bars, bar));
        for (int i = 0; options->list && i < BAR_LIMITS && bar->limits[i].title != NULL; i++)
            show_limit(&bar->limits[i], NULL, 0);
    }
    return options->list ? HVD_OK : sum_up(bars, err);
}

int case_bars(struct bench *bench, struct hvd_error *err)
{
    struct bars *bars = calloc(1, sizeof(*bars));
    if (bars == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for what the bars are measured by");
    bars->options = bench->options;
    int status = run_all(bars, err);
    free(bars);
    return status;
}
