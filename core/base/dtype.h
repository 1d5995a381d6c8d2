/* dtype.h: names and sizes of element types, and names of operations and wire formats. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stddef.h>

#include "hvd.h"

/* Bytes of one element. */
size_t dtype_bytes(enum hvd_dtype dtype);

/* The names that sentences use: "float32", "sum", "exact"; NULL for an unknown number. */
const char *dtype_name(enum hvd_dtype dtype);
const char *op_name(enum hvd_op op);
const char *wire_name(enum hvd_wire wire);

#endif
