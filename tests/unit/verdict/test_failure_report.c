/* test_failure_report.c: what a node tells srun is read as it was, or not at all. */
#include "config.h"
#include "unit.h"

#include "full_report.h"

static const char token[FAILURE_TOKEN_BYTES] = "0123456789abcdef0123456789abcdef";

START_TEST(a_report_arrives_as_it_was)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    static struct failure_report report, received;
    report = full_report();
    report.follows = report.node_killed = true;
    size_t length = failure_report_encode(&report, token, message);
    ck_assert_uint_gt(length, 0);
    ck_assert(failure_report_decode(message, length, token, &received));
    ck_assert_mem_eq(&received, &report, sizeof(report));
    for (size_t cut = 0; cut < length; cut++)
        ck_assert(!failure_report_decode(message, cut, token, &received));
    ck_assert(!failure_report_decode(message, length, "0123456789abcdef0123456789abcdeX", &received));
}
END_TEST

/* Whatever follows. */
START_TEST(the_start_of_a_report_of_another_version_is_read)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    static struct failure_report report, received;
    size_t start = 0;
    report = full_report();
    size_t length = failure_report_encode(&report, token, message);
    message[4]++; /* its version */
    while (start < length && !failure_report_decode(message, start, token, &received))
        start++;
    ck_assert_uint_lt(start, length / 2);
    for (; start <= length; start++) {
        ck_assert(failure_report_decode(message, start, token, &received));
        ck_assert(received.other_version);
        ck_assert_int_eq(received.rank, report.rank);
        ck_assert_str_eq(received.node, report.node);
        ck_assert_int_eq(received.end.wait_status, report.end.wait_status);
        ck_assert_str_eq(received.facts.error, "");
    }
    ck_assert(!failure_report_decode(message, length, "0123456789abcdef0123456789abcdeX", &received));
}
END_TEST

static void spoil_rank(struct failure_report *report)
{
    report->rank = report->size;
}

static void spoil_size(struct failure_report *report)
{
    report->size = FAILURE_MAX_SIZE + 1;
}

static void spoil_status(struct failure_report *report)
{
    report->end.wait_status = UINT16_MAX + 1;
}

static void spoil_text(struct failure_report *report)
{
    memcpy(report->node, "\033[2J", 5);
}

/* Of a newer plug-in, as a question is to an older one. */
static void spoil_kind(struct failure_report *report)
{
    report->kind = FAILURE_KINDS;
}

static void (*const spoilers[])(struct failure_report *) = {spoil_rank, spoil_size, spoil_status, spoil_text,
                                                            spoil_kind};

START_TEST(a_report_out_of_bounds_is_none)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    static struct failure_report report, received;
    report = full_report();
    spoilers[_i](&report);
    size_t length = failure_report_encode(&report, token, message);
    ck_assert(!failure_report_decode(message, length, token, &received));
}
END_TEST

START_TEST(a_variable_that_says_something_else_is_not_believed)
{
    static const char *const odd[] = {"",
                                      "1",
                                      "1:",
                                      "1:0123",
                                      "0:0123456789abcdef0123456789abcdef",
                                      "65536:0123456789abcdef0123456789abcdef",
                                      "x:0123456789abcdef0123456789abcdef",
                                      "1:0123456789abcdef0123456789abcdef0"};
    char found[FAILURE_TOKEN_BYTES];
    int port = 0;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        ck_assert_msg(!failure_report_parse_variable(odd[i], &port, found), "%s", odd[i]);
    ck_assert(failure_report_parse_variable("24711:0123456789abcdef0123456789abcdef", &port, found));
    ck_assert_int_eq(port, 24711);
    ck_assert_str_eq(found, token);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("failure_report");
    tcase_add_test(tcase, a_report_arrives_as_it_was);
    tcase_add_test(tcase, the_start_of_a_report_of_another_version_is_read);
    tcase_add_loop_test(tcase, a_report_out_of_bounds_is_none, 0, sizeof(spoilers) / sizeof(spoilers[0]));
    tcase_add_test(tcase, a_variable_that_says_something_else_is_not_believed);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("failure_report", fill);
}
