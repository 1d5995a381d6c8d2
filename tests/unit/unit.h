/* unit.h: the main function of every unit test: one suite, with its results as TAP. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
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

/* Run the cases that [fill] adds and return main's exit status. */
static inline int unit_run(const char *name, void (*fill)(Suite *suite))
{
    Suite *suite = suite_create(name);
    fill(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run(runner, NULL, unit_case(suite), CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
