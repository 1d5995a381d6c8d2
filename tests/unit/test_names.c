/* test_names.c: names and sizes of element types and operations. */
#include "unit.h"

#include "plane/plane.h"

static const struct {
    int dtype;
    const char *name;
    size_t bytes;
} dtypes[] = {
    {HVD_INT32, "int32", sizeof(int32_t)},
    {HVD_INT64, "int64", sizeof(int64_t)},
    {HVD_FLOAT32, "float32", sizeof(float)},
    {HVD_FLOAT64, "float64", sizeof(double)},
    {HVD_FLOAT64 + 1, NULL, 0},
    {-1, NULL, 0},
    {INT32_MAX, NULL, 0},
};

START_TEST(names_types)
{
    ck_assert_uint_eq(dtype_bytes((enum hvd_dtype)dtypes[_i].dtype), dtypes[_i].bytes);
    ck_assert_pstr_eq(dtype_name((enum hvd_dtype)dtypes[_i].dtype), dtypes[_i].name);
}
END_TEST

START_TEST(names_operations)
{
    ck_assert_str_eq(op_name(HVD_SUM), "sum");
    ck_assert_str_eq(op_name(HVD_AVERAGE), "average");
    ck_assert_ptr_null(op_name((enum hvd_op)2));
    ck_assert_ptr_null(op_name((enum hvd_op) - 1));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("names");
    tcase_add_loop_test(tcase, names_types, 0, sizeof(dtypes) / sizeof(dtypes[0]));
    tcase_add_test(tcase, names_operations);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("names", fill);
}
