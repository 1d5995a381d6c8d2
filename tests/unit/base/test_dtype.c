/* test_dtype.c: names and sizes of element types, operations and what travels. */
#include "unit.h"

#include "base/dtype.h"

static const struct {
    int dtype;
    const char *name;
    size_t bytes;
} dtypes[] = {
    {HVD_INT32, "int32", 4},
    {HVD_INT64, "int64", 8},
    {HVD_FLOAT32, "float32", 4},
    {HVD_FLOAT64, "float64", 8},
    {HVD_UINT8, "uint8", 1},
    {HVD_INT8, "int8", 1},
    {HVD_UINT16, "uint16", 2},
    {HVD_INT16, "int16", 2},
    {HVD_FLOAT16, "float16", 2},
    {HVD_BFLOAT16, "bfloat16", 2},
    {HVD_BOOL, "bool", 1},
    {HVD_FLOAT8_E4M3, "float8_e4m3fn", 1},
    {HVD_FLOAT8_E5M2, "float8_e5m2", 1},
    {HVD_FLOAT8_E5M2 + 1, NULL, 0},
    {-1, NULL, 0},
    {INT32_MAX, NULL, 0},
};

START_TEST(names_types)
{
    ck_assert_uint_eq(dtype_bytes((enum hvd_dtype)dtypes[_i].dtype), dtypes[_i].bytes);
    ck_assert_pstr_eq(dtype_name((enum hvd_dtype)dtypes[_i].dtype), dtypes[_i].name);
}
END_TEST

static const struct {
    int op;
    const char *name;
} ops[] = {
    {HVD_SUM, "sum"},
    {HVD_AVERAGE, "average"},
    {HVD_MIN, "min"},
    {HVD_MAX, "max"},
    {HVD_PRODUCT, "product"},
    {HVD_ADASUM, "adasum"},
    {HVD_BAND, "bitwise and"},
    {HVD_BOR, "bitwise or"},
    {HVD_BXOR, "bitwise xor"},
    {HVD_BXOR + 1, NULL},
    {-1, NULL},
};

START_TEST(names_operations)
{
    ck_assert_pstr_eq(op_name((enum hvd_op)ops[_i].op), ops[_i].name);
}
END_TEST

static const struct {
    int wire;
    const char *name;
} wires[] = {
    {HVD_WIRE_EXACT, "exact"},
    {HVD_WIRE_FLOAT16, "float16"},
    {HVD_WIRE_BFLOAT16, "bfloat16"},
    {HVD_WIRE_BFLOAT16 + 1, NULL},
    {-1, NULL},
};

START_TEST(names_what_travels)
{
    ck_assert_pstr_eq(wire_name((enum hvd_wire)wires[_i].wire), wires[_i].name);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("dtype");
    unit_add_rounds(tcase, names_types, 0, sizeof(dtypes) / sizeof(dtypes[0]));
    unit_add_rounds(tcase, names_operations, 0, sizeof(ops) / sizeof(ops[0]));
    unit_add_rounds(tcase, names_what_travels, 0, sizeof(wires) / sizeof(wires[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("dtype", fill);
}
