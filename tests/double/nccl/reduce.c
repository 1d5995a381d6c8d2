/* reduce.c: arithmetic, one element after another. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

#include "base/narrow.h"

int64_t double_dtype_bytes(ncclDataType_t dtype)
{
    switch (dtype) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    default:
        return 8;
    }
}

static bool is_whole(ncclDataType_t dtype)
{
    return dtype == ncclInt8 || dtype == ncclUint8 || dtype == ncclInt32 || dtype == ncclUint32 ||
           dtype == ncclInt64 || dtype == ncclUint64;
}

double double_value(ncclDataType_t dtype, const void *element)
{
    union {
        double float64;
        float float32;
        uint16_t half;
        uint8_t float8;
    } value;
    memcpy(&value, element, (size_t)double_dtype_bytes(dtype));
    switch (dtype) {
    case ncclFloat64:
        return value.float64;
    case ncclFloat32:
        return (double)value.float32;
    case ncclFloat16:
        return (double)single_of(float16_widened(value.half));
    case ncclBfloat16:
        return (double)single_of(bfloat16_widened(value.half));
    case ncclFloat8e4m3:
        return (double)single_of(float8_e4m3_widened(value.float8));
    case ncclFloat8e5m2:
        return (double)single_of(float8_e5m2_widened(value.float8));
    default:
        double_complain("type %d is no real one", (int)dtype);
    }
}

static void store_value(ncclDataType_t dtype, void *element, double value)
{
    float single = (float)value;
    uint32_t narrow = 0; /* little endian */
    switch (dtype) {
    case ncclFloat64:
        memcpy(element, &value, sizeof(value));
        return;
    case ncclFloat32:
        narrow = bits_of(single);
        break;
    case ncclFloat16:
        narrow = float16_narrowed(bits_of(single));
        break;
    case ncclFloat8e4m3:
        narrow = float8_e4m3_narrowed(bits_of(single));
        break;
    case ncclFloat8e5m2:
        narrow = float8_e5m2_narrowed(bits_of(single));
        break;
    default:
        narrow = bfloat16_narrowed(bits_of(single));
    }
    memcpy(element, &narrow, (size_t)double_dtype_bytes(dtype));
}

static int64_t whole_value(ncclDataType_t dtype, const char *element)
{
    int32_t narrow = 0;
    int64_t wide = 0;
    switch (double_dtype_bytes(dtype)) {
    case 1:
        return dtype == ncclInt8 ? *(const int8_t *)element : *(const uint8_t *)element;
    case 4:
        memcpy(&narrow, element, sizeof(narrow));
        return dtype == ncclInt32 ? narrow : (int64_t)(uint32_t)narrow;
    default:
        memcpy(&wide, element, sizeof(wide));
        return wide;
    }
}

static double real_of(ncclRedOp_t op, double a, double b)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMin:
        return b < a ? b : a;
    case ncclMax:
        return b > a ? b : a;
    default:
        return a + b;
    }
}

static int64_t whole_of(ncclRedOp_t op, int64_t a, int64_t b)
{
    switch (op) {
    case ncclProd:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case ncclMin:
        return b < a ? b : a;
    case ncclMax:
        return b > a ? b : a;
    case ncclSum:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    default:
        double_complain("operation %d is not one of whole numbers", (int)op);
    }
}

void double_reduce(const struct operation *operation, const char *const *inputs, int size)
{
    ncclDataType_t dtype = operation->dtype;
    int64_t bytes = double_dtype_bytes(dtype);
    for (int64_t at = 0; at < operation->count * bytes; at += bytes) {
        int64_t whole = is_whole(dtype) ? whole_value(dtype, inputs[0] + at) : 0;
        double real = is_whole(dtype) ? 0 : double_value(dtype, inputs[0] + at) * operation->factor;
        for (int rank = 1; rank < size; rank++) {
            if (is_whole(dtype))
                whole = whole_of(operation->op, whole, whole_value(dtype, inputs[rank] + at));
            else
                real =
                    real_of(operation->op, real, double_value(dtype, inputs[rank] + at) * operation->factor);
        }
        if (is_whole(dtype))
            memcpy(operation->output + at, &whole, (size_t)bytes); /* little endian */
        else
            store_value(dtype, operation->output + at, real);
    }
}
