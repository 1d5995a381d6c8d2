/* test_drop_report.c: the first dropped connection is told at once, the next ones together. */
#include "config.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/drop_report.h"

static char lines[2000];

static void record_line(void *arg, enum log_level level, const char *component, const char *line)
{
    (void)arg;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof(lines) - used, "%d %s: %s\n", (int)level, component, line);
}

static const struct hvd_log log_warnings = {LOG_WARN, record_line, NULL};

static void add(struct drop_report *report, int64_t now_us, int number)
{
    drop_report_add(report, now_us, &log_warnings, "here", "dropped %d", number);
}

START_TEST(the_first_is_told_at_once)
{
    struct drop_report report = {0};
    add(&report, 5, 1);
    ck_assert_str_eq(lines, "2 here: dropped 1\n");
    drop_report_tell(&report, INT64_MAX, &log_warnings, "here");
    ck_assert_str_eq(lines, "2 here: dropped 1\n");
}
END_TEST

START_TEST(the_next_are_told_together)
{
    struct drop_report report = {0};
    for (int i = 1; i <= 1000; i++)
        add(&report, i, i);
    drop_report_tell(&report, DROP_REPORT_INTERVAL_US, &log_warnings, "here");
    ck_assert_str_eq(lines, "2 here: dropped 1\n");
    drop_report_tell(&report, 1 + DROP_REPORT_INTERVAL_US, &log_warnings, "here");
    ck_assert_str_eq(lines,
                     "2 here: dropped 1\n2 here: dropped 1000; it is the last of 999 such connections\n");
}
END_TEST

START_TEST(at_the_end_nothing_stays_untold)
{
    struct drop_report report = {0};
    add(&report, 1, 1);
    add(&report, 2, 2);
    drop_report_tell(&report, INT64_MAX, &log_warnings, "here");
    ck_assert_str_eq(lines, "2 here: dropped 1\n2 here: dropped 2\n");
    add(&report, 3, 3);
    ck_assert_str_eq(lines, "2 here: dropped 1\n2 here: dropped 2\n2 here: dropped 3\n");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("drops");
    tcase_add_test(tcase, the_first_is_told_at_once);
    tcase_add_test(tcase, the_next_are_told_together);
    tcase_add_test(tcase, at_the_end_nothing_stays_untold);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("drop_report", fill);
}
