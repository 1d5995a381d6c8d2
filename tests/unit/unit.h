/* unit.h: the main of every unit test: one suite, results as TAP. */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stdlib.h>

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
