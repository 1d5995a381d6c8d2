/* test_abi.c: what hvd declares of CUDA's driver and of NCCL is what their own headers declare, where these
 * were found. Types and values are compared when this file is compiled. */
#include "config.h"

#ifndef HAVE_CUDA_H

#include <stdio.h>

int main(void)
{
    puts("1..0 # SKIP configure has found no cuda.h to compare with");
    return 0;
}

#else

#include "unit.h"

#include <cuda.h>
#include <string.h>

#include "cuda/driver_abi.h"

#define IS_TYPE(name, type) \
    _Static_assert(__builtin_types_compatible_p(name, type), #name " is another type");
#define IS_VALUE(name, value) _Static_assert((long long)(name) == (value), #name " has another value");

CUDA_TYPES(IS_TYPE)
CUDA_RESULTS(IS_VALUE)
CUDA_DEVICE_ATTRIBUTES(IS_VALUE)
CUDA_MEMORY_TYPES(IS_VALUE)
CUDA_POINTER_ATTRIBUTES(IS_VALUE)
CUDA_CAPTURE_MODES(IS_VALUE)
CUDA_CAPTURE_STATES(IS_VALUE)
CUDA_FLAGS(IS_VALUE)
#define IS_ENUMERATION(type)  _Static_assert(sizeof(type) == sizeof(int), #type " has another size");
IS_ENUMERATION(CUresult)
IS_ENUMERATION(CUdevice_attribute)
IS_ENUMERATION(CUmemorytype)
IS_ENUMERATION(CUpointer_attribute)
IS_ENUMERATION(CUstreamCaptureMode)
IS_ENUMERATION(CUstreamCaptureStatus)

#define IS_CALL(name, version, parameters)                                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult parameters), \
                   #name " has other parameters");
CUDA_DRIVER_CALLS(IS_CALL, IS_CALL)

#define QUOTE(name)                        #name
#define QUOTED(name)                       QUOTE(name) /* the symbol: cuda.h has a macro for each function with a version */

/* The oldest version of cuEventElapsedTime is in all drivers; the one of CUDA 12.8 takes the same. */
START_TEST(functions_have_the_symbols_of_cuda_h)
{
#define SYMBOLS(name, version, parameters) {#name #version, QUOTED(name)},
    static const char *const symbols[][2] = {CUDA_DRIVER_CALLS(SYMBOLS, SYMBOLS)};
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        if (strcmp(symbols[i][0], "cuEventElapsedTime") != 0)
            ck_assert_str_eq(symbols[i][0], symbols[i][1]);
}
END_TEST

/* ---- NCCL --------------------------------------------------------------------------------------- */

#ifdef HAVE_NCCL_H
#include <nccl.h>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 24, 0)
#define ncclFloat8e4m3 10
#define ncclFloat8e5m2 11
#endif

#include "backend/nccl/nccl_abi.h"

IS_TYPE(ncclComm_t, struct ncclComm *)
NCCL_NUMBERS(IS_VALUE)
NCCL_RESULTS(IS_VALUE)
NCCL_DTYPES(IS_VALUE)
NCCL_OPS(IS_VALUE)
NCCL_SCALAR_PLACES(IS_VALUE)
IS_ENUMERATION(ncclResult_t)
IS_ENUMERATION(ncclDataType_t)
IS_ENUMERATION(ncclRedOp_t)
IS_ENUMERATION(ncclScalarResidence_t)
_Static_assert(sizeof(ncclUniqueId) == NCCL_UNIQUE_ID_BYTES, "ncclUniqueId has another size");

#define IS_NCCL_CALL(result, name, parameters)                                        \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), result parameters), \
                   #name " has other parameters");
NCCL_CALLS(IS_NCCL_CALL, IS_NCCL_CALL)

struct config {
#define FIELD(type, name, initial) type name;
    NCCL_CONFIG_FIELDS(FIELD)
};
#define IS_FIELD(type, name, initial)                                                             \
    _Static_assert(offsetof(struct config, name) == offsetof(ncclConfig_t, name) &&               \
                       __builtin_types_compatible_p(__typeof__(((ncclConfig_t *)0)->name), type), \
                   #name " is elsewhere in ncclConfig_t, or of another type");
NCCL_CONFIG_FIELDS(IS_FIELD)
_Static_assert(sizeof(struct config) <= sizeof(ncclConfig_t), "ncclConfig_t is smaller");

START_TEST(a_configuration_begins_as_that_of_nccl_h)
{
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
#define INITIAL(type, name, initial) .name = (initial),
    const struct config ours = {NCCL_CONFIG_FIELDS(INITIAL)};
    ck_assert_uint_eq(ours.size, sizeof(ours));
    ck_assert_uint_eq(ours.magic, theirs.magic);
    ck_assert_uint_le(ours.version, theirs.version);
    size_t behind_version = offsetof(struct config, blocking);
    ck_assert_mem_eq(&ours.blocking, &theirs.blocking, offsetof(struct config, netName) - behind_version);
    ck_assert_ptr_eq(ours.netName, theirs.netName);
    ck_assert_int_eq(ours.splitShare, theirs.splitShare);
}
END_TEST
#endif

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("abi");
    tcase_add_test(tcase, functions_have_the_symbols_of_cuda_h);
#ifdef HAVE_NCCL_H
    tcase_add_test(tcase, a_configuration_begins_as_that_of_nccl_h);
#endif
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("abi", fill_suite);
}
#endif
