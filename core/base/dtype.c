/* dtype.c: names, sizes and kinds of element types, and names of operations and wire formats. */
#include "base/dtype.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct dtype_row {
    const char *name;
    size_t bytes;
};

static const struct dtype_row dtypes[] = {
    [HVD_INT32] = {"int32", 4},
    [HVD_INT64] = {"int64", 8},
    [HVD_FLOAT32] = {"float32", 4},
    [HVD_FLOAT64] = {"float64", 8},
    [HVD_UINT8] = {"uint8", 1},
    [HVD_INT8] = {"int8", 1},
    [HVD_UINT16] = {"uint16", 2},
    [HVD_INT16] = {"int16", 2},
    [HVD_FLOAT16] = {"float16", 2},
    [HVD_BFLOAT16] = {"bfloat16", 2},
    [HVD_BOOL] = {"bool", 1},
    [HVD_FLOAT8_E4M3] = {"float8_e4m3fn", 1},
    [HVD_FLOAT8_E5M2] = {"float8_e5m2", 1},
};
_Static_assert(COUNT(dtypes) == DTYPE_COUNT, "a type has no row");

static const char *const ops[] = {
    [HVD_SUM] = "sum",          [HVD_AVERAGE] = "average", [HVD_MIN] = "min",
    [HVD_MAX] = "max",          [HVD_PRODUCT] = "product", [HVD_ADASUM] = "adasum",
    [HVD_BAND] = "bitwise and", [HVD_BOR] = "bitwise or",  [HVD_BXOR] = "bitwise xor",
};

static const char *const wires[] = {
    [HVD_WIRE_EXACT] = "exact",
    [HVD_WIRE_FLOAT16] = "float16",
    [HVD_WIRE_BFLOAT16] = "bfloat16",
};

size_t dtype_bytes(enum hvd_dtype dtype)
{
    return (size_t)dtype < COUNT(dtypes) ? dtypes[dtype].bytes : 0;
}

bool dtype_is_real(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT32 || dtype == HVD_FLOAT64 || dtype_is_narrow(dtype);
}

bool dtype_is_narrow(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 || dtype_is_float8(dtype);
}

bool dtype_is_float8(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT8_E4M3 || dtype == HVD_FLOAT8_E5M2;
}

const char *dtype_name(enum hvd_dtype dtype)
{
    return (size_t)dtype < COUNT(dtypes) ? dtypes[dtype].name : NULL;
}

const char *op_name(enum hvd_op op)
{
    return (size_t)op < COUNT(ops) ? ops[op] : NULL;
}

bool op_is_bitwise(enum hvd_op op)
{
    return op == HVD_BAND || op == HVD_BOR || op == HVD_BXOR;
}

const char *wire_name(enum hvd_wire wire)
{
    return (size_t)wire < COUNT(wires) ? wires[wire] : NULL;
}
