/* pack_kernel.h: the work of one thread of the pack and unpack kernels, for nvcc and for the C compiler,
 * which runs the same code in tests.
 *
 * The work is the pieces of a plan, one after another, measured in bytes of the wider of the two types. It
 * is divided into tiles of equal size, independent of the sizes of the pieces, and a table contains the
 * first piece of each tile. Worker k of n, a warp, copies the tiles k, k + n, k + 2n and so on; its lanes
 * take turns within each run of elements that is in one piece and one tile. Threads share nothing, and no
 * two of them write the same byte. */
#ifndef CUDA_PACK_KERNEL_H
#define CUDA_PACK_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/narrow.h"
#include "hvd.h"

#ifdef __CUDACC__
#define KERNEL_CODE   static __device__ __forceinline__
#define KERNEL_ONCE   static __device__ __noinline__ /* code that is not inlined */
#define KERNEL_UNROLL _Pragma("unroll")
#define KERNEL_ALIAS
#else
#define KERNEL_CODE static inline __attribute__((always_inline))
#define KERNEL_ONCE static inline
#define KERNEL_UNROLL
#define KERNEL_ALIAS __attribute__((may_alias))
#endif

#define PACK_LANES         32  /* threads of a warp */
#define PACK_THREADS       256 /* threads of a block */
#define PACK_BLOCKS        4   /* concurrent blocks on a multiprocessor */
#define PACK_BLOCK_WORKERS (PACK_THREADS / PACK_LANES)
#define PACK_TILE_BYTES    8192
#define PACK_GROUP_BYTES   16 /* bytes that a thread loads at once if aligned */
#define PACK_LOADS         2  /* concurrent loads of a thread */

/* A piece as the device sees it. Its size is that of one memory access, so that reading the next entry's
 * work_at loads that whole entry. */
struct pack_entry {
    int64_t work_at;    /* bytes of work before it; a multiple of PACK_GROUP_BYTES */
    uint64_t tensor;    /* its address; 0: zeroes */
    uint64_t buffer_at; /* bytes before it in the buffer */
    int64_t count : 56; /* elements, > 0 */
    int64_t dtype : 8;
} __attribute__((aligned(32)));

struct pack_table {
    const struct pack_entry *entries; /* ended by one whose work_at is work_bytes */
    const uint32_t *first;            /* by tile: its first entry */
    int64_t work_bytes;
    int64_t tile_bytes; /* a multiple of PACK_GROUP_BYTES, at most PACK_TILE_BYTES */
    int64_t tile_count;
};

/* The argument of the kernel. */
struct pack_arguments {
    struct pack_table table;
    uint64_t buffer; /* its address */
    double scale;
    int buffer_dtype;
    bool unpack;
};

/* A pair of types as one number; 0 is no pair. */
#define PACK_TYPES(from, to) (1 + (from)*DTYPE_COUNT + (to))

/* ---- Up to 16 bytes of elements, in registers ----------------------------------------------- */

struct pack_words {
    uint64_t low, high;
} __attribute__((aligned(PACK_GROUP_BYTES))) KERNEL_ALIAS;

union pack_group {
    struct pack_words all;
    int8_t int8[16];
    uint8_t uint8[16];
    int16_t int16[8];
    uint16_t uint16[8]; /* half types, too */
    int32_t int32[4];
    uint32_t uint32[4];
    int64_t int64[2];
    uint64_t uint64[2];
    float float32[4];
    double float64[2];
};

/* For memory that may have been declared as any type. */
typedef uint64_t KERNEL_ALIAS memory_uint64;
typedef uint32_t KERNEL_ALIAS memory_uint32;
typedef uint16_t KERNEL_ALIAS memory_uint16;

/* Load [bytes] from an address that is a multiple of them. */
KERNEL_CODE void group_load(union pack_group *group, const char *from, int bytes)
{
    switch (bytes) {
    case 16:
        group->all = *(const struct pack_words *)from;
        break;
    case 8:
        group->uint64[0] = *(const memory_uint64 *)from;
        break;
    case 4:
        group->uint32[0] = *(const memory_uint32 *)from;
        break;
    case 2:
        group->uint16[0] = *(const memory_uint16 *)from;
        break;
    default:
        group->uint8[0] = *(const uint8_t *)from;
    }
}

KERNEL_CODE void group_store(char *to, const union pack_group *group, int bytes)
{
    switch (bytes) {
    case 16:
        *(struct pack_words *)to = group->all;
        break;
    case 8:
        *(memory_uint64 *)to = group->uint64[0];
        break;
    case 4:
        *(memory_uint32 *)to = group->uint32[0];
        break;
    case 2:
        *(memory_uint16 *)to = group->uint16[0];
        break;
    default:
        *(uint8_t *)to = group->uint8[0];
    }
}

/* [bytes] is a power of two. */
KERNEL_CODE bool is_multiple(const char *address, int bytes)
{
    return ((uint64_t)(uintptr_t)address & (unsigned)(bytes - 1)) == 0;
}

/* ---- Arithmetic ----------------------------------------------------------------------------- */

/* Elements of [dtype] have 1 << pack_dtype_shift bytes. */
KERNEL_CODE int pack_dtype_shift(int dtype)
{
    switch (dtype) {
    case HVD_INT64:
    case HVD_FLOAT64:
        return 3;
    case HVD_INT32:
    case HVD_FLOAT32:
        return 2;
    case HVD_UINT16:
    case HVD_INT16:
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
        return 1;
    default:
        return 0;
    }
}

KERNEL_CODE int pack_dtype_bytes(int dtype)
{
    return 1 << pack_dtype_shift(dtype);
}

KERNEL_CODE float single_load(int dtype, const union pack_group *from, int i)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return single_of(float16_widened(from->uint16[i]));
    case HVD_BFLOAT16:
        return single_of(bfloat16_widened(from->uint16[i]));
    case HVD_FLOAT8_E4M3:
        return single_of(float8_e4m3_widened(from->uint8[i]));
    case HVD_FLOAT8_E5M2:
        return single_of(float8_e5m2_widened(from->uint8[i]));
    default:
        return from->float32[i];
    }
}

KERNEL_CODE void single_store(int dtype, union pack_group *to, int i, float value)
{
    switch (dtype) {
    case HVD_FLOAT16:
        to->uint16[i] = (uint16_t)float16_narrowed(bits_of(value));
        break;
    case HVD_BFLOAT16:
        to->uint16[i] = (uint16_t)bfloat16_narrowed(bits_of(value));
        break;
    case HVD_FLOAT8_E4M3:
        to->uint8[i] = (uint8_t)float8_e4m3_narrowed(bits_of(value));
        break;
    case HVD_FLOAT8_E5M2:
        to->uint8[i] = (uint8_t)float8_e5m2_narrowed(bits_of(value));
        break;
    default:
        to->float32[i] = value;
    }
}

/* Truncated towards zero, and limited to [least] and [most]. */
KERNEL_CODE int64_t whole_scaled(int64_t value, double scale, int64_t least, int64_t most)
{
    double product = (double)value * scale;
    if (product >= (double)most)
        return most;
    if (product <= (double)least)
        return least;
    return (int64_t)product;
}

KERNEL_CODE void whole_scale(int dtype, union pack_group *to, const union pack_group *from, int i,
                             double scale)
{
    switch (dtype) {
    case HVD_UINT8:
        to->uint8[i] = (uint8_t)whole_scaled(from->uint8[i], scale, 0, UINT8_MAX);
        break;
    case HVD_INT8:
        to->int8[i] = (int8_t)whole_scaled(from->int8[i], scale, INT8_MIN, INT8_MAX);
        break;
    case HVD_UINT16:
        to->uint16[i] = (uint16_t)whole_scaled(from->uint16[i], scale, 0, UINT16_MAX);
        break;
    case HVD_INT16:
        to->int16[i] = (int16_t)whole_scaled(from->int16[i], scale, INT16_MIN, INT16_MAX);
        break;
    case HVD_INT32:
        to->int32[i] = (int32_t)whole_scaled(from->int32[i], scale, INT32_MIN, INT32_MAX);
        break;
    default:
        to->int64[i] = whole_scaled(from->int64[i], scale, INT64_MIN, INT64_MAX);
    }
}

/* to[i] = from[i] * scale. The types are equal, or float32 and a half type. */
KERNEL_CODE void element_convert(int to_dtype, union pack_group *to, int from_dtype,
                                 const union pack_group *from, int i, double scale)
{
    switch (from_dtype) {
    case HVD_FLOAT32:
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
    case HVD_FLOAT8_E4M3:
    case HVD_FLOAT8_E5M2:
        single_store(to_dtype, to, i, single_load(from_dtype, from, i) * (float)scale);
        break;
    case HVD_FLOAT64:
        to->float64[i] = from->float64[i] * scale;
        break;
    default:
        whole_scale(from_dtype, to, from, i, scale);
    }
}

/* ---- Runs: elements that are together in the tensor and in the buffer ----------------------- */

struct pack_run {
    char *to;
    const char *from;
    int count; /* elements; for copies, units of bytes */
    double scale;
    int lane;
};

/* Copy units of [bytes], a constant that divides both addresses. */
KERNEL_CODE void run_copy(struct pack_run run, int bytes)
{
    for (int i = run.lane; i < run.count; i += PACK_LOADS * PACK_LANES) {
        union pack_group groups[PACK_LOADS];
        KERNEL_UNROLL
        for (int k = 0; k < PACK_LOADS; k++)
            if (i + k * PACK_LANES < run.count)
                group_load(&groups[k], run.from + (i + k * PACK_LANES) * bytes, bytes);
        KERNEL_UNROLL
        for (int k = 0; k < PACK_LOADS; k++)
            if (i + k * PACK_LANES < run.count)
                group_store(run.to + (i + k * PACK_LANES) * bytes, &groups[k], bytes);
    }
}

/* Convert groups of [elements]; all these numbers are constants, and each group of either side is aligned to
 * its bytes. */
KERNEL_CODE void run_convert(struct pack_run run, int to_dtype, int from_dtype, int elements)
{
    const int to_bytes = elements * pack_dtype_bytes(to_dtype);
    const int from_bytes = elements * pack_dtype_bytes(from_dtype);
    for (int i = run.lane; i < run.count; i += PACK_LOADS * PACK_LANES) {
        union pack_group groups[PACK_LOADS];
        KERNEL_UNROLL
        for (int k = 0; k < PACK_LOADS; k++)
            if (i + k * PACK_LANES < run.count)
                group_load(&groups[k], run.from + (i + k * PACK_LANES) * from_bytes, from_bytes);
        KERNEL_UNROLL
        for (int k = 0; k < PACK_LOADS; k++) {
            union pack_group converted;
            if (i + k * PACK_LANES >= run.count)
                continue;
            KERNEL_UNROLL
            for (int element = 0; element < elements; element++)
                element_convert(to_dtype, &converted, from_dtype, &groups[k], element, run.scale);
            group_store(run.to + (i + k * PACK_LANES) * to_bytes, &converted, to_bytes);
        }
    }
}

/* Convert element [i], of any type and alignment. */
KERNEL_ONCE void run_convert_at(struct pack_run run, int to_dtype, int from_dtype, int i)
{
    const int to_bytes = pack_dtype_bytes(to_dtype);
    const int from_bytes = pack_dtype_bytes(from_dtype);
    union pack_group group, converted;
    char *to = run.to + i * to_bytes;
    const char *from = run.from + i * from_bytes;
    if (is_multiple(from, from_bytes))
        group_load(&group, from, from_bytes);
    else
        for (int byte = 0; byte < from_bytes; byte++)
            group.uint8[byte] = (uint8_t)from[byte];
    element_convert(to_dtype, &converted, from_dtype, &group, 0, run.scale);
    if (is_multiple(to, to_bytes))
        group_store(to, &converted, to_bytes);
    else
        for (int byte = 0; byte < to_bytes; byte++)
            to[byte] = (char)converted.uint8[byte];
}

/* What is left of a run when the groups from [head] to [tail] are done: fewer elements than there are lanes.
 * This lane's one; past the end of the run if it has none. */
KERNEL_CODE int run_edge(struct pack_run run, int head, int tail)
{
    return run.lane < head ? run.lane : tail + run.lane - head;
}

/* How many of at most [count] elements of [bytes] come before the next address that is a multiple of
 * [group_bytes]. */
KERNEL_CODE int elements_before_group(const char *address, int bytes, int group_bytes, int count)
{
    int elements = (int)((0 - (unsigned)(uintptr_t)address) & (unsigned)(group_bytes - 1)) / bytes;
    return elements < count ? elements : count;
}

/* [run] from element [first] on, [count] groups of some elements. */
KERNEL_CODE struct pack_run run_part(struct pack_run run, int to_bytes, int from_bytes, int first, int count)
{
    run.to += first * to_bytes;
    run.from += first * from_bytes;
    run.count = count;
    return run;
}

/* Copy bytes, in units as large as the two addresses allow. */
KERNEL_CODE void run_copy_bytes(struct pack_run run)
{
    unsigned apart = (unsigned)(uintptr_t)run.to ^ (unsigned)(uintptr_t)run.from;
    int unit = apart % 16 == 0 ? 16 : apart % 8 == 0 ? 8 : apart % 4 == 0 ? 4 : apart % 2 == 0 ? 2 : 1;
    int head = elements_before_group(run.to, 1, unit, run.count);
    int units = (run.count - head) / unit;
    int edge = run_edge(run, head, head + units * unit);
    struct pack_run middle = run_part(run, 1, 1, head, units);
    switch (unit) {
    case 16:
        run_copy(middle, 16);
        break;
    case 8:
        run_copy(middle, 8);
        break;
    case 4:
        run_copy(middle, 4);
        break;
    case 2:
        run_copy(middle, 2);
        break;
    default:
        run_copy(middle, 1);
    }
    if (edge < run.count)
        run.to[edge] = run.from[edge];
}

/* Convert or scale elements, in groups where both addresses allow. The types are constants. */
KERNEL_CODE void run_convert_elements(struct pack_run run, int to_dtype, int from_dtype)
{
    const int to_bytes = pack_dtype_bytes(to_dtype);
    const int from_bytes = pack_dtype_bytes(from_dtype);
    const int elements = PACK_GROUP_BYTES / (to_bytes > from_bytes ? to_bytes : from_bytes);
    int head = elements_before_group(run.to, to_bytes, elements * to_bytes, run.count);
    int groups = (run.count - head) / elements;
    int edge = run_edge(run, head, head + groups * elements);
    if (is_multiple(run.from + head * from_bytes, elements * from_bytes)) {
        run_convert(run_part(run, to_bytes, from_bytes, head, groups), to_dtype, from_dtype, elements);
        if (edge < run.count)
            run_convert_at(run, to_dtype, from_dtype, edge);
    } else {
        run_convert(run, to_dtype, from_dtype, 1);
    }
}

/* By the types, which are the same for all threads of a warp. What gradients need has code of its own; the
 * rest goes one element at a time. */
KERNEL_CODE void run_move(struct pack_run run, int to_dtype, int from_dtype)
{
    bool aligned = is_multiple(run.to, pack_dtype_bytes(to_dtype)) &&
                   is_multiple(run.from, pack_dtype_bytes(from_dtype));
    if (to_dtype == from_dtype && (run.scale == 1 || to_dtype == HVD_BOOL)) {
        run.count *= pack_dtype_bytes(to_dtype);
        run_copy_bytes(run);
        return;
    }
    switch (aligned ? PACK_TYPES(from_dtype, to_dtype) : 0) {
    case PACK_TYPES(HVD_FLOAT32, HVD_FLOAT32):
        run_convert_elements(run, HVD_FLOAT32, HVD_FLOAT32);
        break;
    case PACK_TYPES(HVD_FLOAT16, HVD_FLOAT16):
        run_convert_elements(run, HVD_FLOAT16, HVD_FLOAT16);
        break;
    case PACK_TYPES(HVD_BFLOAT16, HVD_BFLOAT16):
        run_convert_elements(run, HVD_BFLOAT16, HVD_BFLOAT16);
        break;
    case PACK_TYPES(HVD_FLOAT32, HVD_FLOAT16):
        run_convert_elements(run, HVD_FLOAT16, HVD_FLOAT32);
        break;
    case PACK_TYPES(HVD_FLOAT32, HVD_BFLOAT16):
        run_convert_elements(run, HVD_BFLOAT16, HVD_FLOAT32);
        break;
    case PACK_TYPES(HVD_FLOAT16, HVD_FLOAT32):
        run_convert_elements(run, HVD_FLOAT32, HVD_FLOAT16);
        break;
    case PACK_TYPES(HVD_BFLOAT16, HVD_FLOAT32):
        run_convert_elements(run, HVD_FLOAT32, HVD_BFLOAT16);
        break;
    default:
        for (int i = run.lane; i < run.count; i += PACK_LANES)
            run_convert_at(run, to_dtype, from_dtype, i);
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* Copy what lies between [begin] and [end] of an entry's work. */
KERNEL_CODE void entry_move(const struct pack_arguments *arguments, const struct pack_entry *entry,
                            int64_t begin, int64_t end, int lane)
{
    const int tensor_shift = pack_dtype_shift(entry->dtype);
    const int buffer_shift = pack_dtype_shift(arguments->buffer_dtype);
    const int work_shift = tensor_shift > buffer_shift ? tensor_shift : buffer_shift;
    int64_t first = begin >> work_shift;
    int64_t last = end >> work_shift < entry->count ? end >> work_shift : entry->count;
    char *tensor = (char *)(uintptr_t)(entry->tensor + (uint64_t)(first << tensor_shift));
    char *buffer = (char *)(uintptr_t)arguments->buffer + entry->buffer_at + (first << buffer_shift);
    bool unpack = arguments->unpack;
    struct pack_run run = {.to = unpack ? tensor : buffer,
                           .from = unpack ? buffer : tensor,
                           .count = (int)(last - first),
                           .scale = arguments->scale,
                           .lane = lane};
    if (entry->tensor != 0)
        run_move(run, unpack ? entry->dtype : arguments->buffer_dtype,
                 unpack ? arguments->buffer_dtype : entry->dtype);
    else
        for (int i = lane; !unpack && i < run.count << buffer_shift; i += PACK_LANES)
            buffer[i] = 0;
}

KERNEL_CODE void tile_move(const struct pack_arguments *arguments, int64_t tile, int lane)
{
    const struct pack_table *table = &arguments->table;
    const struct pack_entry *entry = table->entries + table->first[tile];
    int64_t begin = tile * table->tile_bytes;
    int64_t end =
        begin + table->tile_bytes < table->work_bytes ? begin + table->tile_bytes : table->work_bytes;
    for (; begin < end; entry++) {
        int64_t next_at = entry[1].work_at;
        int64_t stop = next_at < end ? next_at : end;
        entry_move(arguments, entry, begin - entry->work_at, stop - entry->work_at, lane);
        begin = stop;
    }
}

/* The work of thread [thread] of block [block] among [blocks]. */
KERNEL_CODE void pack_thread(const struct pack_arguments *arguments, int64_t block, int64_t blocks,
                             int thread)
{
    int64_t worker = block * PACK_BLOCK_WORKERS + thread / PACK_LANES;
    int64_t workers = blocks * PACK_BLOCK_WORKERS;
    for (int64_t tile = worker; tile < arguments->table.tile_count; tile += workers)
        tile_move(arguments, tile, thread % PACK_LANES);
}

#endif
