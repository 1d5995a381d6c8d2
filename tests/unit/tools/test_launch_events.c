/* test_launch_events.c: the tables of events and metrics, and what is written by them. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/launch_events.h"

static char *written;
static size_t written_bytes;

static FILE *open_memory(void)
{
    FILE *file = open_memstream(&written, &written_bytes);
    ck_assert_ptr_nonnull(file);
    return file;
}

static const struct event_facts facts = {.run_id = "r\"1",
                                         .node = "n1",
                                         .reason = "killed by SIGKILL",
                                         .time_us = 1795768092944276,
                                         .epoch = 2,
                                         .restart = 3,
                                         .ranks = 4,
                                         .slots = 5,
                                         .rank = 6,
                                         .pid = 7,
                                         .status = 137,
                                         .lived_us = 1000001,
                                         .rendezvous_us = 7};

static void expect_line(enum launch_event event, const struct event_facts *of, const char *expected)
{
    FILE *file = open_memory();
    launch_event_write(event, of, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(written, expected);
    free(written);
}

START_TEST(a_line_has_what_its_row_names)
{
    expect_line(EVENT_RANK_LOST, &facts,
                "{\"event\":\"rank_lost\",\"time\":1795768092.944276,\"run_id\":\"r\\\"1\",\"epoch\":2,"
                "\"rank\":6,\"node\":\"n1\",\"pid\":7,\"status\":137,\"reason\":\"killed by SIGKILL\","
                "\"lived\":1.000001}\n");
    expect_line(EVENT_EPOCH_FORMED, &facts,
                "{\"event\":\"epoch_formed\",\"time\":1795768092.944276,\"run_id\":\"r\\\"1\",\"epoch\":2,"
                "\"ranks\":4,\"rendezvous\":0.000007}\n");
}
END_TEST

START_TEST(a_line_says_how_many_were_dropped_before_it)
{
    struct event_facts after = facts;
    after.dropped = 9;
    expect_line(EVENT_SLOTS_CHANGED, &after,
                "{\"event\":\"slots_changed\",\"time\":1795768092.944276,\"run_id\":\"r\\\"1\",\"epoch\":2,"
                "\"dropped\":9,\"slots\":5}\n");
}
END_TEST

/* Each row is whole, and each member of the lines is in one of them. */
START_TEST(the_tables_are_complete)
{
    unsigned named = 1u << FIELD_TIME | 1u << FIELD_RUN_ID | 1u << FIELD_EPOCH | 1u << FIELD_DROPPED;
    for (int event = 0; event < LAUNCH_EVENT_COUNT; event++) {
        ck_assert_ptr_nonnull(launch_events_table[event].name);
        ck_assert_ptr_nonnull(launch_events_table[event].help);
        named |= launch_events_table[event].fields;
    }
    for (int field = 0; field < LAUNCH_FIELD_COUNT; field++)
        ck_assert_msg((named >> field & 1) != 0, "no event has %s", launch_fields[field].key);
    for (int i = 0; i < LAUNCH_METRIC_COUNT; i++) {
        const struct launch_metric_row *row = &launch_metrics_table[i];
        size_t length = strlen(row->name);
        bool is_total = length > 6 && strcmp(row->name + length - 6, "_total") == 0;
        ck_assert_msg(is_total == (row->type == METRIC_COUNTER), "%s", row->name);
    }
}
END_TEST

START_TEST(metrics_have_help_type_and_label)
{
    struct launch_metrics metrics = {.status = -1, .rendezvous_us = 1500000, .dropped = 3};
    metrics.events[EVENT_RANK_LOST] = 2;
    FILE *file = open_memory();
    launch_metrics_write(&metrics, "a\\b\"c\nd", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_ptr_nonnull(strstr(written, "# HELP hvdrun_rank_losses_total Ranks that failed.\n"
                                          "# TYPE hvdrun_rank_losses_total counter\n"
                                          "hvdrun_rank_losses_total{run_id=\"a\\\\b\\\"c\\nd\"} 2\n"));
    ck_assert_ptr_nonnull(strstr(written, "# TYPE hvdrun_job_exit_status gauge\n"));
    ck_assert_ptr_nonnull(strstr(written, "\nhvdrun_job_exit_status{run_id=\"a\\\\b\\\"c\\nd\"} -1\n"));
    ck_assert_ptr_nonnull(
        strstr(written, "\nhvdrun_rendezvous_last_seconds{run_id=\"a\\\\b\\\"c\\nd\"} 1.500000\n"));
    ck_assert_ptr_nonnull(strstr(written, "\nhvdrun_events_dropped_total{run_id=\"a\\\\b\\\"c\\nd\"} 3\n"));
    free(written);
}
END_TEST

/* Help and manual have a line for each row. */
START_TEST(help_and_manual_list_all_rows)
{
    char line[100];
    FILE *file = open_memory();
    launch_events_help(file);
    launch_events_man(file);
    ck_assert_int_eq(fclose(file), 0);
    for (int event = 0; event < LAUNCH_EVENT_COUNT; event++) {
        snprintf(line, sizeof(line), "\n  %s ", launch_events_table[event].name);
        ck_assert_ptr_nonnull(strstr(written, line));
        snprintf(line, sizeof(line), "\n.It Cm %s\n", launch_events_table[event].name);
        ck_assert_ptr_nonnull(strstr(written, line));
    }
    for (int i = 0; i < LAUNCH_METRIC_COUNT; i++) {
        snprintf(line, sizeof(line), "\n  %s ", launch_metrics_table[i].name);
        ck_assert_ptr_nonnull(strstr(written, line));
        snprintf(line, sizeof(line), "\n.It Cm %s Pq ", launch_metrics_table[i].name);
        ck_assert_ptr_nonnull(strstr(written, line));
    }
    free(written);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("launch_events");
    tcase_add_test(tcase, a_line_has_what_its_row_names);
    tcase_add_test(tcase, a_line_says_how_many_were_dropped_before_it);
    tcase_add_test(tcase, the_tables_are_complete);
    tcase_add_test(tcase, metrics_have_help_type_and_label);
    tcase_add_test(tcase, help_and_manual_list_all_rows);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("launch_events", fill);
}
