/* dtype.h: names, sizes and kinds of element types, sums of such sizes, and names of operations and wire
 * formats. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hvd.h"

#define DTYPE_COUNT (HVD_FLOAT8_E5M2 + 1)

/* Bytes of one element. */
size_t dtype_bytes(enum hvd_dtype dtype);

/* The most bytes that one tensor has: the addresses of a process, 47 bits, reach no further. The bytes of a
 * group can then be added up without overflow. */
#define BYTES_MAX (INT64_C(1) << 47)

/* The sum of two numbers of bytes; INT64_MAX where it is larger. */
static inline int64_t bytes_add(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Does it have a fraction? */
bool dtype_is_real(enum hvd_dtype dtype);

/* Is it a real type narrower than float32, as which it is computed? */
bool dtype_is_narrow(enum hvd_dtype dtype);
bool dtype_is_float8(enum hvd_dtype dtype);

/* The names that sentences use: "float32", "sum", "exact"; NULL for an unknown number. */
const char *dtype_name(enum hvd_dtype dtype);
const char *op_name(enum hvd_op op);
bool op_is_bitwise(enum hvd_op op);
const char *wire_name(enum hvd_wire wire);

#endif
