/* test_hvdbench_bar.c: the JSON of the cases is read, and judged by the bars. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/hvdbench/bars/bar.h"

/* JSON as the cases write it, shortened. */
#define ALLREDUCE                                                                                         \
    "{\"case\": \"allreduce\", \"ranks\": 2, \"version\": \"0.1.0\", \"hvd_us\": 14000, \"mpi_one_us\": " \
    "42000, "                                                                                             \
    "\"memcpy_us\": 12500.5, \"p99_us\": null, \"mpi_best_us\": 20000, \"mpi_best\": \"mpi-pieces\"}\n"
#define NO_MPI "{\"hvd_us\": 14000, \"memcpy_us\": 14000, \"no_mpi\": \"left out by --no-mpi\"}\n"

static const struct limit by_mpi = {"time / best MPI", LIMIT_BY, UNIT_TIMES, "hvd_us", "mpi_best_us", 0.7, 0};
static const struct limit by_copy = {"time / memcpy", LIMIT_BY, UNIT_TIMES, "hvd_us", "memcpy_us", 1.2, 1.0};
static const struct limit time_us = {"time", LIMIT_VALUE, UNIT_US, "hvd_us", NULL, 20, 3};
static const struct limit shown = {"shown", LIMIT_VALUE, UNIT_US, "hvd_us", NULL, NO_BAR, 0};
static const struct bar one = {.name = "one", .commands = {{RUNNER_SINGLE, 0, NULL, "x"}}};
static const struct bar three = {.name = "three",
                                 .commands = {{RUNNER_SINGLE, 0, NULL, "x"},
                                              {RUNNER_SINGLE, 0, NULL, "y"},
                                              {RUNNER_SINGLE, 0, NULL, "z"}}};
static const struct bar turns = {
    .name = "turns", .turns = 3, .commands = {{RUNNER_SINGLE, 0, NULL, "x"}, {RUNNER_SINGLE, 0, NULL, "y"}}};

static struct record record_of(const char *key, double number, const char *other, double other_number)
{
    struct record record = {.count = other != NULL ? 2 : 1};
    snprintf(record.fields[0].key, sizeof(record.fields[0].key), "%s", key);
    record.fields[0].number = number;
    if (other != NULL)
        snprintf(record.fields[1].key, sizeof(record.fields[1].key), "%s", other);
    record.fields[1].number = other_number;
    return record;
}

/* The value of a run whose commands gave these values of hvd_us. */
static double measure(enum limit_kind kind, const struct bar *bar, const double *values, int count)
{
    struct record records[8];
    struct hvd_error why = {""};
    double seen = NAN;
    const struct limit limit = {
        "", kind, UNIT_US, "hvd_us", kind == LIMIT_VALUE || kind == LIMIT_SPREAD ? NULL : "of", 1, 0};
    for (int i = 0; i < count; i++)
        records[i] = record_of("hvd_us", values[i], "of", 4);
    ck_assert_int_eq(limit_measure(&limit, bar, records, &seen, &why), HVD_OK);
    return seen;
}

/* ---- Reading -------------------------------------------------------------------------------------- */

/* Was hvdbench built with the library that reads JSON? */
static bool can_read(void)
{
    struct record record;
    struct hvd_error err = {""};
    int status = record_read(&record, "{}", &err);
    ck_assert(status == HVD_OK || (status == HVD_ERR_UNSUPPORTED && strstr(err.text, "jansson") != NULL));
    return status == HVD_OK;
}

START_TEST(numbers_are_read_and_found)
{
    struct record record;
    struct hvd_error err = {""};
    if (!can_read())
        return;
    ck_assert_int_eq(record_read(&record, ALLREDUCE, &err), HVD_OK);
    ck_assert_double_eq(*record_find(&record, "hvd_us"), 14000);
    ck_assert_double_eq(*record_find(&record, "memcpy_us"), 12500.5);
    ck_assert_ptr_null(record_find(&record, "mpi_best")); /* a string */
    ck_assert_ptr_null(record_find(&record, "p99_us"));   /* null */
    ck_assert_ptr_null(record_find(&record, "hvd_u"));
    ck_assert_str_eq(record.no_mpi, "");
    ck_assert_int_eq(record_read(&record, NO_MPI, &err), HVD_OK);
    ck_assert_str_eq(record.no_mpi, "left out by --no-mpi");
}
END_TEST

START_TEST(what_is_no_object_is_refused)
{
    static const char *const texts[] = {"",
                                        "hvd: hello",
                                        "[1]",
                                        "3",
                                        "{\"hvd_us\": 1",
                                        ALLREDUCE ALLREDUCE,
                                        "{\"a\": 1, \"a\": 2}",
                                        "{\"a_name_that_is_longer_than_any_of_ours\": 1}"};
    char many[RECORD_FIELDS * 16 + 16] = "{";
    struct record record;
    if (!can_read())
        return;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hvd_error err = {""};
        ck_assert_int_eq(record_read(&record, texts[i], &err), HVD_ERR_INVALID);
        ck_assert_str_ne(err.text, "");
    }
    for (int i = 0; i <= RECORD_FIELDS; i++)
        snprintf(many + strlen(many), 16, "%s\"k%d\": %d", i > 0 ? ", " : "", i, i);
    snprintf(many + strlen(many), 2, "}");
    struct hvd_error err = {""};
    ck_assert_int_eq(record_read(&record, many, &err), HVD_ERR_INVALID);
}
END_TEST

START_TEST(a_run_of_allreduce_is_judged)
{
    struct record record;
    struct hvd_error err = {""};
    double seen = 0;
    if (!can_read())
        return;
    ck_assert_int_eq(record_read(&record, ALLREDUCE, &err), HVD_OK);
    ck_assert_int_eq(limit_measure(&by_mpi, &one, &record, &seen, &err), HVD_OK);
    ck_assert_double_eq(seen, 0.7);
    ck_assert_int_eq(limit_judge(&by_mpi, &seen, 1), BAR_MET);
    ck_assert_int_eq(limit_measure(&by_copy, &one, &record, &seen, &err), HVD_OK);
    ck_assert_double_eq_tol(seen, 1.11996, 1e-5);
    ck_assert_int_eq(limit_judge(&by_copy, &seen, 1), BAR_MET);
    /* without MPI, limits that need it are not judged, with a reason; the others are judged */
    ck_assert_int_eq(record_read(&record, NO_MPI, &err), HVD_OK);
    ck_assert_int_eq(limit_measure(&by_mpi, &one, &record, &seen, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text, "MPI was left out: left out by --no-mpi");
    ck_assert_int_eq(limit_measure(&by_copy, &one, &record, &seen, &err), HVD_OK);
    ck_assert_int_eq(limit_judge(&by_copy, &seen, 1), BAR_STRETCH);
}
END_TEST

/* ---- Measuring ------------------------------------------------------------------------------------ */

START_TEST(the_command_with_the_most_counts)
{
    const double values[] = {5, 9, 2};
    ck_assert_double_eq(measure(LIMIT_VALUE, &three, values, 3), 9);
    ck_assert_double_eq(measure(LIMIT_BY, &three, values, 3), 2.25);
    ck_assert_double_eq(measure(LIMIT_ABOVE, &three, values, 3), 5);
    ck_assert_double_eq(measure(LIMIT_SPREAD, &three, values, 3), 4.5);
    ck_assert_double_eq(measure(LIMIT_SPREAD, &three, (const double[]){7, 7, 7}, 3), 1);
}
END_TEST

/* The commands x and y run in turn, x y x y x y: the median of each counts. */
START_TEST(turns_of_a_command_have_a_median)
{
    const double values[] = {10, 8, 90, 1, 11, 9};
    ck_assert_double_eq(measure(LIMIT_VALUE, &turns, values, 6), 11);
    ck_assert_double_eq(measure(LIMIT_BY, &turns, values, 6), 2.75);
    ck_assert_double_eq(measure(LIMIT_ABOVE, &turns, values, 6), 7);
}
END_TEST

/* LIMIT_SPREAD compares the x and the y of each turn, and not the medians of all turns. */
START_TEST(a_spread_is_of_what_ran_side_by_side)
{
    /* x takes as long as y, and the machine slows down while a turn runs */
    ck_assert_double_eq(measure(LIMIT_SPREAD, &turns, (const double[]){10, 10, 10, 20, 20, 20}, 6), 1);
    /* y always takes a tenth more, while the speed of the machine changes */
    ck_assert_double_eq_tol(measure(LIMIT_SPREAD, &turns, (const double[]){10, 11, 40, 44, 20, 22}, 6), 1.1,
                            1e-12);
    /* y takes less: that is just as wrong; the median of the three turns counts */
    ck_assert_double_eq_tol(measure(LIMIT_SPREAD, &turns, (const double[]){10, 8, 90, 1, 10, 9}, 6), 1.25,
                            1e-12);
    /* y takes once more and once less: chance */
    ck_assert_double_eq(measure(LIMIT_SPREAD, &turns, (const double[]){10, 12, 10, 8, 10, 10}, 6), 1);
}
END_TEST

START_TEST(what_is_not_there_is_no_number)
{
    double seen = 0;
    struct hvd_error why = {""};
    struct record records[] = {record_of("hvd_us", 1, NULL, 0), record_of("other", 1, NULL, 0),
                               record_of("hvd_us", 1, NULL, 0)};
    ck_assert_int_eq(limit_measure(&time_us, &three, records, &seen, &why), HVD_ERR_UNSUPPORTED);
    ck_assert_str_eq(why.text, "nothing was said of hvd_us");
    /* a ratio with a divisor of zero has no value, not even 0 / 0 */
    struct record zero = record_of("hvd_us", 0, "memcpy_us", 0);
    ck_assert_int_eq(limit_measure(&by_copy, &one, &zero, &seen, &why), HVD_ERR_UNSUPPORTED);
    struct record none = record_of("hvd_us", 1, "memcpy_us", 0);
    ck_assert_int_eq(limit_measure(&by_copy, &one, &none, &seen, &why), HVD_ERR_UNSUPPORTED);
}
END_TEST

/* ---- Judging -------------------------------------------------------------------------------------- */

START_TEST(all_runs_have_to_meet_it)
{
    static const struct {
        double seen[3];
        int runs;
        enum bar_result verdict;
    } cases[] = {
        {{20}, 1, BAR_MET},           {{20.001}, 1, BAR_MISSED},   {{3}, 1, BAR_STRETCH},
        {{3.001}, 1, BAR_MET},        {{1, 2, 3}, 3, BAR_STRETCH}, {{1, 2, 4}, 3, BAR_MET},
        {{1, 21, 4}, 3, BAR_MISSED},  {{21, 1, 1}, 3, BAR_MISSED}, {{1, 1, 21}, 2, BAR_STRETCH},
        {{NAN, 1, 1}, 3, BAR_MISSED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_int_eq(limit_judge(&time_us, cases[i].seen, cases[i].runs), cases[i].verdict);
    /* if the limit has no stretch, it cannot be met */
    ck_assert_int_eq(limit_judge(&by_mpi, (const double[]){0.1}, 1), BAR_MET);
}
END_TEST

/* A limit without a bar is measured like the others, but never judged, whatever its value. */
START_TEST(what_has_no_bar_is_not_judged)
{
    double seen = 0;
    struct hvd_error why = {""};
    struct record record = record_of("hvd_us", 7, NULL, 0);
    ck_assert_int_eq(limit_measure(&shown, &one, &record, &seen, &why), HVD_OK);
    ck_assert_double_eq(seen, 7);
    ck_assert_int_eq(limit_judge(&shown, (const double[]){0, 7, NAN}, 3), BAR_NONE);
    ck_assert_int_eq(limit_judge_failed(&shown, HVD_ERR_SYSTEM), BAR_NONE);
    ck_assert_int_eq(limit_judge_failed(&shown, HVD_ERR_UNSUPPORTED), BAR_NONE);
    ck_assert_str_eq(bar_result_name(BAR_NONE), "-");
    /* BAR_NONE is the least of all verdicts, so it never outweighs that of a judged limit */
    for (int verdict = BAR_NONE + 1; verdict < BAR_RESULT_COUNT; verdict++)
        ck_assert_int_gt(verdict, BAR_NONE);
}
END_TEST

START_TEST(what_fails_is_missed)
{
    ck_assert_int_eq(limit_judge_failed(&time_us, HVD_ERR_SYSTEM), BAR_MISSED);
    ck_assert_int_eq(limit_judge_failed(&time_us, HVD_ERR_UNSUPPORTED), BAR_NOT_RUN);
}
END_TEST

/* ---- The bars ------------------------------------------------------------------------------------- */

START_TEST(the_table_is_sound)
{
    for (const struct bar *bar = bar_table; bar->name != NULL; bar++) {
        ck_assert_int_ge(bar_commands(bar), 1);
        ck_assert_int_le(bar_turns(bar), BAR_TURNS_MAX);
        ck_assert_ptr_nonnull(bar->limits[0].title);
        ck_assert(limit_is_judged(&bar->limits[0]));
        for (const struct bar *other = bar_table; other != bar; other++)
            ck_assert_str_ne(bar->name, other->name);
        for (int i = 0; i < BAR_LIMITS && bar->limits[i].title != NULL; i++) {
            const struct limit *limit = &bar->limits[i];
            bool has_other = limit->kind == LIMIT_BY || limit->kind == LIMIT_ABOVE;
            ck_assert_ptr_nonnull(limit->field);
            ck_assert_int_eq(limit->of != NULL, has_other);
            ck_assert(limit->stretch <= limit->most);
            ck_assert(limit_is_judged(limit) || limit->stretch == 0);
            for (int other = 0; other < i; other++)
                ck_assert_str_ne(limit->title, bar->limits[other].title);
        }
    }
}
END_TEST

/* On one node, models are judged with tensors in memory of hvd_alloc; the same ratios for memory of malloc
 * are only shown. */
START_TEST(models_on_one_node_are_judged_in_memory_of_hvd_alloc)
{
    for (const struct bar *bar = bar_table; bar->name != NULL; bar++) {
        bool is_one = bar->commands[0].place == RUNNER_HVDRUN && bar->turns == 0 &&
                      strstr(bar->commands[0].arguments, "--model=") != NULL;
        int judged = 0;
        int beside = 0;
        for (int i = 0; i < BAR_LIMITS && bar->limits[i].title != NULL; i++) {
            const struct limit *limit = &bar->limits[i];
            bool is_given = strcmp(limit->field, "hvd_alloc_us") == 0;
            ck_assert_int_eq(is_given, is_one && limit_is_judged(limit));
            judged += is_given;
            beside += !limit_is_judged(limit) && strcmp(limit->field, "hvd_us") == 0;
        }
        ck_assert_int_eq(judged > 0, is_one);
        ck_assert_int_eq(beside, judged);
    }
}
END_TEST

START_TEST(bars_are_chosen_by_name)
{
    const struct bar *first = &bar_table[0];
    char both[128];
    struct hvd_error err = {""};
    snprintf(both, sizeof(both), "%s,%s", bar_table[1].name, first->name);
    ck_assert(bar_is_chosen(first, NULL));
    ck_assert(bar_is_chosen(first, first->name));
    ck_assert(bar_is_chosen(first, both));
    ck_assert(!bar_is_chosen(&bar_table[2], both));
    ck_assert_int_eq(bar_check_names(both, &err), HVD_OK);
    static const char *const wrong[] = {"nosuch",  "small,",       ",", "small,,latency", "smal",
                                        "smaller", "small latency"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_int_eq(bar_check_names(wrong[i], &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "expected some of resnet50, "));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("bar");
    tcase_add_test(tcase, numbers_are_read_and_found);
    tcase_add_test(tcase, what_is_no_object_is_refused);
    tcase_add_test(tcase, a_run_of_allreduce_is_judged);
    tcase_add_test(tcase, the_command_with_the_most_counts);
    tcase_add_test(tcase, turns_of_a_command_have_a_median);
    tcase_add_test(tcase, a_spread_is_of_what_ran_side_by_side);
    tcase_add_test(tcase, what_is_not_there_is_no_number);
    tcase_add_test(tcase, all_runs_have_to_meet_it);
    tcase_add_test(tcase, what_has_no_bar_is_not_judged);
    tcase_add_test(tcase, what_fails_is_missed);
    tcase_add_test(tcase, the_table_is_sound);
    tcase_add_test(tcase, models_on_one_node_are_judged_in_memory_of_hvd_alloc);
    tcase_add_test(tcase, bars_are_chosen_by_name);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdbench_bar", fill);
}
