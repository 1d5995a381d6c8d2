/* reduce.c: element-wise sums and quotients, the arithmetic that all CPU planes share. */
#include "plane/plane.h"

/* "omp simd" promises the compiler that no iteration reads what an earlier one wrote, which holds where out
 * is one of the operands too; -fopenmp-simd makes it vectorise at any level of optimisation. It never
 * reorders a sum: each element is one addition. */
#define ADD_KERNEL(type)                                                                     \
    static void add_##type(type *out, const type *left, const type *right, int64_t count)    \
    {                                                                                        \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) out[i] = left[i] + right[i]; \
    }

ADD_KERNEL(uint32_t) /* integers are added unsigned: they wrap around, where signed ones are undefined */
ADD_KERNEL(uint64_t)
ADD_KERNEL(float)
ADD_KERNEL(double)
#undef ADD_KERNEL

void reduce_add(enum hvd_dtype dtype, void *out, const void *left, const void *right, int64_t count)
{
    switch (dtype) {
    case HVD_INT32:
        add_uint32_t(out, left, right, count);
        break;
    case HVD_INT64:
        add_uint64_t(out, left, right, count);
        break;
    case HVD_FLOAT32:
        add_float(out, left, right, count);
        break;
    case HVD_FLOAT64:
        add_double(out, left, right, count);
        break;
    }
}

static void divide_int32(int32_t *data, int64_t count, int32_t divisor)
{
    for (int64_t i = 0; i < count; i++)
        data[i] /= divisor;
}

static void divide_int64(int64_t *data, int64_t count, int64_t divisor)
{
    for (int64_t i = 0; i < count; i++)
        data[i] /= divisor;
}

static void divide_float32(float *data, int64_t count, float divisor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        data[i] /= divisor;
}

static void divide_float64(double *data, int64_t count, double divisor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        data[i] /= divisor;
}

void reduce_divide(enum hvd_dtype dtype, void *data, int64_t count, int divisor)
{
    switch (dtype) {
    case HVD_INT32:
        divide_int32(data, count, divisor);
        break;
    case HVD_INT64:
        divide_int64(data, count, divisor);
        break;
    case HVD_FLOAT32:
        divide_float32(data, count, (float)divisor);
        break;
    case HVD_FLOAT64:
        divide_float64(data, count, divisor);
        break;
    }
}
