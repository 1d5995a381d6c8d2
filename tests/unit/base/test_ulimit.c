/* test_ulimit.c: whether the limit of the address space leaves room. */
#include <config.h>

#include "mappings.h"
#include "unit.h"

#include "base/ulimit.h"

#define MIB ((size_t)1 << 20)

START_TEST(what_does_not_fit_is_told_with_the_limit)
{
    struct hvd_error err = {.text = "untouched"};
    char expected[200];
    unsigned long long limit_mib = 0;
    limit_mappings(64 * MIB);
    ck_assert(ulimit_address_space(&limit_mib));
    ck_assert_uint_ge(limit_mib, 64);
    ck_assert_int_eq(ulimit_leaves_room("a library", 16 * MIB, &err), HVD_OK);
    ck_assert_str_eq(err.text, "untouched");
    for (int i = 0; i < 8; i++) /* nothing stays mapped */
        ck_assert_int_eq(ulimit_leaves_room("a library", 16 * MIB, &err), HVD_OK);
    ck_assert_int_eq(ulimit_leaves_room("a library", 65 * MIB, &err), HVD_ERR_NO_MEMORY);
    snprintf(expected, sizeof(expected),
             "a library needs 65 MiB of address space to start, more than this process has left of its limit "
             "of %llu MiB; raise `ulimit -v`",
             limit_mib);
    ck_assert_str_eq(err.text, expected);
}
END_TEST

START_TEST(without_a_limit_there_is_room_for_anything)
{
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    unsigned long long limit_mib = 7;
    bool limited = setrlimit(RLIMIT_AS, &none) != 0; /* who runs this test has set a hard limit */
    ck_assert_int_eq(ulimit_address_space(&limit_mib), limited);
    ck_assert(limited || limit_mib == 7);
    ck_assert_int_eq(ulimit_leaves_room("a library", SIZE_MAX, NULL), limited ? HVD_ERR_NO_MEMORY : HVD_OK);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("ulimit");
    tcase_add_test(tcase, what_does_not_fit_is_told_with_the_limit);
    tcase_add_test(tcase, without_a_limit_there_is_room_for_anything);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("ulimit", fill);
}
