/* test_module.c: what is said of a module that cannot be loaded. */
#include <config.h>

#include "mappings.h"
#include "temp_folder.h"
#include "unit.h"

#include "base/module.h"

static void expect_failure(struct hvd_error *err)
{
    void *module = NULL;
    folder_put("mine.so", "no module");
    ck_assert_int_eq(setenv("HVD_MODULE_PATH", folder, 1), 0);
    ck_assert_ptr_null(module_open("mine.so", NULL, &module, err));
    ck_assert_ptr_null(module);
    ck_assert_ptr_nonnull(strstr(err->text, "/mine.so cannot be loaded: "));
}

START_TEST(a_limit_of_memory_is_named)
{
    struct hvd_error err;
    char expected[64];
    struct rlimit limit;
    limit_mappings(UINT64_C(64) << 20);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    snprintf(expected, sizeof(expected), "is %llu MiB", (unsigned long long)limit.rlim_cur >> 20);
    expect_failure(&err);
    ck_assert_ptr_nonnull(strstr(err.text, expected));
    ck_assert_ptr_nonnull(strstr(err.text, "raise `ulimit -v`"));
}
END_TEST

START_TEST(no_limit_is_named_where_there_is_none)
{
    struct hvd_error err;
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &none); /* fails where this test itself is limited */
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    expect_failure(&err);
    ck_assert_int_eq(strstr(err.text, "ulimit") == NULL, limit.rlim_cur == RLIM_INFINITY);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("module");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, NULL, folder_empty);
    tcase_add_test(tcase, a_limit_of_memory_is_named);
    tcase_add_test(tcase, no_limit_is_named_where_there_is_none);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("module", fill);
}
