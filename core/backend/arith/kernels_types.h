/* kernels_types.h: types for elements in a caller's memory, for kernels.c. */
#ifndef BACKEND_ARITH_KERNELS_TYPES_H
#define BACKEND_ARITH_KERNELS_TYPES_H

#include <stdint.h>

/* They may have any alignment, and the memory may have been declared as any type. */
#define ELEMENT __attribute__((aligned(1), may_alias))
typedef uint8_t ELEMENT uint8;
typedef int8_t ELEMENT int8;
typedef uint16_t ELEMENT uint16;
typedef int16_t ELEMENT int16;
typedef int32_t ELEMENT int32;
typedef int64_t ELEMENT int64;
typedef float ELEMENT float32;
typedef double ELEMENT float64;
typedef uint8_t ELEMENT boolean;
typedef uint32_t ELEMENT single_bits;
#undef ELEMENT

#endif
