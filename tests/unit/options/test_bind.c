/* test_bind.c: the values of --hvd-bind. */
#include "options/bind.h"

#include <string.h>

#include "unit.h"

static const struct {
    const char *text;
    struct bind_options options;
} good[] = {
    {"auto", {.policy = BIND_AUTO}},
    {"gpu", {.policy = BIND_GPU}},
    {"numa", {.policy = BIND_NUMA}},
    {"socket", {.policy = BIND_SOCKET}},
    {"l3", {.policy = BIND_L3}},
    {"core", {.policy = BIND_CORE}},
    {"none", {.policy = BIND_NONE}},
    {"verbose", {.policy = BIND_AUTO, .verbose = true}},
    {"auto,verbose,force,smt:1,reserve:2",
     {.policy = BIND_AUTO, .verbose = true, .force = true, .smt = 1, .reserve = 2}},
    {"reserve:8,smt:64,numa", {.policy = BIND_NUMA, .smt = 64, .reserve = 8}},
    {"core,reserve:0", {.policy = BIND_CORE}},
    {"l3,verbose,force,smt:64,reserve:4096",
     {.policy = BIND_L3, .verbose = true, .force = true, .smt = 64, .reserve = 4096}},
};

START_TEST(values_are_read)
{
    struct bind_options options;
    const char *why = "";
    memset(&options, 0x55, sizeof(options));
    ck_assert_msg(bind_parse(good[_i].text, &options, &why) == 0, "%s: %s", good[_i].text, why);
    ck_assert_int_eq(options.policy, good[_i].options.policy);
    ck_assert_int_eq(options.verbose, good[_i].options.verbose);
    ck_assert_int_eq(options.force, good[_i].options.force);
    ck_assert_int_eq(options.smt, good[_i].options.smt);
    ck_assert_int_eq(options.reserve, good[_i].options.reserve);
}
END_TEST

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "is empty"},
    {",", "has an empty word"},
    {"auto,", "has an empty word"},
    {"Auto", "has an unknown word"},
    {" auto", "has an unknown word"},
    {"auto verbose", "has an unknown word"},
    {"auto,numa", "names two policies"},
    {"verbose,verbose", "has a word twice"},
    {"smt:1,smt:1", "has a word twice"},
    {"smt", "has an unknown word"},
    {"smt:", "not a whole one"},
    {"smt:-1", "not a whole one"},
    {"smt:1.5", "not a whole one"},
    {"smt:0", "too small"},
    {"smt:65", "too large"},
    {"reserve:4097", "too large"},
    {"reserve:99999999999999999999", "too large"},
    {"reserve:1k", "not a whole one"},
};

START_TEST(bad_values_are_refused)
{
    struct bind_options options = {.smt = 4711};
    const char *why = "";
    ck_assert_int_eq(bind_parse(bad[_i].text, &options, &why), -1);
    ck_assert_msg(strstr(why, bad[_i].why) != NULL, "%s: %s", bad[_i].text, why);
    ck_assert_int_eq(options.smt, 4711);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("bind");
    unit_add_rounds(tcase, values_are_read, 0, sizeof(good) / sizeof(good[0]));
    unit_add_rounds(tcase, bad_values_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("bind", fill);
}
