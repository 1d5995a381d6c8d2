/* unit.h: the main function of every unit test: one suite, with its results as TAP. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Check records every assertion that passed, so that it can report the last one before a crash. With millions
 * of assertions that takes most of the time, so report each line only once. */
#define UNIT_LINES 4096

static inline void unit_mark(const char *file, int line)
{
    static atomic_bool heard[UNIT_LINES];
    atomic_bool *here = &heard[line % UNIT_LINES];
    if (atomic_load_explicit(here, memory_order_relaxed))
        return;
    atomic_store_explicit(here, true, memory_order_relaxed);
    _mark_point(file, line);
}

#define _mark_point(file, line) unit_mark(file, line)

/* ---- Rounds of a test ----
 * Check starts a process for each round of a loop test, which sanitizers make dear. Rounds that leave nothing
 * behind in their process share one. */

#define UNIT_BATCH 20 /* rounds in a process */

struct unit_rounds {
    TTest batches; /* as Check knows the test */
    TFun run;
    int begin, end;
    int first_batch; /* the batches of all tests are numbered */
    struct unit_rounds *next;
};

static struct unit_rounds *unit_tests_with_rounds;
static int unit_round = -1; /* the one that runs; -1: none */

static inline void unit_run_batch(int batch)
{
    const struct unit_rounds *test = unit_tests_with_rounds; /* the last that was added */
    while (test->first_batch > batch)
        test = test->next;
    int begin = test->begin + (batch - test->first_batch) * UNIT_BATCH;
    for (unit_round = begin; unit_round < begin + UNIT_BATCH && unit_round < test->end; unit_round++)
        test->run(unit_round);
    unit_round = -1;
}

/* Like tcase_add_loop_test, but several rounds in one process. */
static inline void unit_add_rounds(TCase *tcase, const TTest *test, int begin, int end)
{
    static int batches;
    struct unit_rounds *rounds = malloc(sizeof(*rounds));
    if (rounds == NULL)
        abort();
    *rounds = (struct unit_rounds){{test->name, unit_run_batch, test->file, test->line},
                                   test->fn,
                                   begin,
                                   end,
                                   batches,
                                   unit_tests_with_rounds};
    unit_tests_with_rounds = rounds;
    batches += (end - begin + UNIT_BATCH - 1) / UNIT_BATCH;
    tcase_add_loop_test(tcase, &rounds->batches, rounds->first_batch, batches);
}

static inline void unit_free_rounds(void)
{
    while (unit_tests_with_rounds != NULL) {
        struct unit_rounds *next = unit_tests_with_rounds->next;
        free(unit_tests_with_rounds);
        unit_tests_with_rounds = next;
    }
}

/* As Check's _ck_assert_failed, and says in which round. */
static inline void __attribute__((format(printf, 4, 5), noreturn))
unit_fail(const char *file, int line, const char *expression, const char *format, ...)
{
    char text[4096];
    int used = unit_round < 0 ? 0 : snprintf(text, sizeof(text), "round %d: ", unit_round);
    va_list args;
    va_start(args, format);
    if (format == NULL)
        snprintf(text + used, sizeof(text) - (size_t)used, "%s", expression);
    else
        vsnprintf(text + used, sizeof(text) - (size_t)used, format, args);
    va_end(args);
    _ck_assert_failed(file, line, expression, "%s", text);
}

#define _ck_assert_failed(file, line, ...) unit_fail(file, line, __VA_ARGS__)

/* ThreadSanitizer is slow, and finds nothing where there are no threads: of a suite that has a case of this
 * name it runs that alone. */
#define UNIT_THREADS "threads"

/* NULL: all cases. */
static inline const char *unit_case(Suite *suite)
{
#ifdef __SANITIZE_THREAD__
    return suite_tcase(suite, UNIT_THREADS) ? UNIT_THREADS : NULL;
#else
    (void)suite;
    return NULL;
#endif
}

/* AddressSanitizer's, if the program is built with it: returns nonzero if memory was leaked. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* Each process that Check starts looks for leaks in ten million bytes of the sanitizer's own, and half of
 * that time goes into faults of their pages: what has been read here comes to it by fork. */
static inline void unit_touch_what_leak_checks_read(void)
{
    if (__lsan_do_recoverable_leak_check != NULL)
        (void)__lsan_do_recoverable_leak_check();
}

/* Run the cases that [fill] adds and return main's exit status. */
static inline int unit_run(const char *name, void (*fill)(Suite *suite))
{
    unit_touch_what_leak_checks_read();
    Suite *suite = suite_create(name);
    fill(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run(runner, NULL, unit_case(suite), CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    unit_free_rounds();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
