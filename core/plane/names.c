/* names.c: names and sizes of element types and operations, for those who carry them and for sentences. */
#include "plane/plane.h"

struct dtype_row {
    const char *name;
    size_t bytes;
};

static const struct dtype_row dtypes[] = {
    [HVD_INT32] = {"int32", 4},
    [HVD_INT64] = {"int64", 8},
    [HVD_FLOAT32] = {"float32", 4},
    [HVD_FLOAT64] = {"float64", 8},
};

static const char *const ops[] = {[HVD_SUM] = "sum", [HVD_AVERAGE] = "average"};

size_t dtype_bytes(enum hvd_dtype dtype)
{
    return (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[dtype].bytes : 0;
}

const char *dtype_name(enum hvd_dtype dtype)
{
    return (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[dtype].name : NULL;
}

const char *op_name(enum hvd_op op)
{
    return (size_t)op < sizeof(ops) / sizeof(ops[0]) ? ops[op] : NULL;
}
