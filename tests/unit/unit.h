/* unit.h: the main of every unit test: one suite, results as TAP; and what it says of where a test is. */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Check hears of each assertion that holds, so as to tell behind which one a test crashed, and keeps them
 * all: where millions hold that is most of the time. So it hears of each line once. */
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

/* Run the cases that [fill] adds and return main's exit status. */
static inline int unit_run(const char *name, void (*fill)(Suite *suite))
{
    Suite *suite = suite_create(name);
    fill(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
