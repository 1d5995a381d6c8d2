/* fail.h: calls of a double that fail because a test said so. */
#ifndef TESTS_DOUBLE_FAIL_H
#define TESTS_DOUBLE_FAIL_H

#include <stdbool.h>

/* The variable in which a test names calls that fail: NAME:NTH, or NAME:NTH:CODE, separated by commas. Each
 * double defines its own; CODE is otherwise [double_fail_code]. */
extern const char double_fail_variable[];
extern const int double_fail_code;

/* Is [name], such as cuMemAlloc_v2, the call [wanted] in one of its versions? */
bool double_is_call(const char *name, const char *wanted);

/* Begins every call that can fail: the error that the test chose for it, or 0. */
int double_chosen_error(const char *name);

/* In place of the variable, by a program that finds it in the double: from now on the [nth] call of [name]
 * fails with [code]; 0: none does. Returns whether that call has come which was chosen before. */
bool double_choose(const char *name, int nth, int code);

/* Calls of this thread do not count until it says false as often: they are those of the test. */
void double_spare(bool spare);

#endif
