/* report.h: what every double has: numbers that a test sets, complaints about the program, and its report. */
#ifndef TESTS_DOUBLE_REPORT_H
#define TESTS_DOUBLE_REPORT_H

/* Which library this double stands in for; each double defines its own. */
extern const char double_library[];

/* The program broke a rule. Does not return. */
void double_complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A line of the report: something was not given back. */
void double_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number in the environment's [variable], from 0, or [otherwise] where it is unset or empty. */
int double_number(const char *variable, int otherwise);

#endif
