/* test_pack_kernel.c: the kernel's code, run here for every block and thread, packs and unpacks what the
 * reference says, of any sizes, types and places; and the work is the same for all warps. */
#include "unit.h"

#include <stdio.h>

#include "base/dtype.h"
#include "elements.h"
#include "cuda/pack_table.h"

#define GUARD      0x5a
#define PIECES_MAX 40
#define SEEDS      300
#define SLACK      64 /* bytes before and after every tensor that nobody may write */

static void *allocated(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- A device of this machine --------------------------------------------------------------- */

/* Every block and thread once, beginning with another one each time: their order must not matter. */
static void run(const struct pack_arguments *arguments, int blocks, uint64_t seed)
{
    int threads = blocks * PACK_THREADS;
    int begin = (int)(seed % (uint64_t)threads);
    for (int i = 0; i < threads; i++) {
        int at = (begin + i * 7 /* no divisor of the threads */) % threads;
        pack_thread(arguments, at / PACK_THREADS, blocks, at % PACK_THREADS);
    }
}

static void launch(struct pack_list list, int blocks, struct pack_arguments arguments)
{
    struct pack_layout layout;
    struct hvd_error err;
    ck_assert_int_eq(pack_layout(&list, blocks * PACK_BLOCK_WORKERS, &layout, &err), HVD_OK);
    void *table = allocated(layout.table_bytes);
    pack_table_fill(&layout, &list, table);
    arguments.table = pack_table_at(&layout, (uint64_t)(uintptr_t)table);
    arguments.buffer_dtype = (int)list.buffer_dtype;
    run(&arguments, blocks, (uint64_t)list.count);
    free(table);
}

/* ---- Batches at random ---------------------------------------------------------------------- */

struct sample {
    enum hvd_dtype buffer_dtype;
    double scale;
    int blocks, count;
    struct pack_piece pieces[PIECES_MAX];
    char *memory[PIECES_MAX]; /* of a tensor, with slack */
    char *expected;           /* the buffer */
    char *buffer;
    size_t buffer_bytes;
};

static enum hvd_dtype dtype_for(enum hvd_dtype buffer_dtype, uint64_t random)
{
    enum hvd_dtype dtype = (enum hvd_dtype)(random % ELEMENT_DTYPES);
    return pack_supports(dtype, buffer_dtype) ? dtype : buffer_dtype;
}

/* Mostly small, some of several tiles. */
static int64_t count_of(uint64_t random)
{
    return random % 7 == 0   ? (int64_t)(random >> 8) % 9000
           : random % 5 == 0 ? 0
                             : (int64_t)(random >> 8) % 300;
}

/* One tensor in six lies at an odd place; the others as their type wants it. */
static size_t place_of(uint64_t random, int bytes)
{
    return random % 6 == 0 ? (random >> 8) % 16 : (random >> 8) % 16 / (size_t)bytes * (size_t)bytes;
}

static void sample_begin(struct sample *sample, uint64_t seed)
{
    static const double scales[] = {1, 1, 0.5, -3.7, 1e-3, 1e30};
    uint64_t state = seed * 2 + 1;
    int64_t at = 0;
    element_random(&state);
    sample->buffer_dtype = (enum hvd_dtype)(element_random(&state) % ELEMENT_DTYPES);
    sample->scale = scales[element_random(&state) % 6];
    sample->blocks = 1 + (int)(element_random(&state) % 3);
    sample->count = (int)(element_random(&state) % PIECES_MAX);
    for (int i = 0; i < sample->count; i++) {
        struct pack_piece *piece = &sample->pieces[i];
        piece->dtype = dtype_for(sample->buffer_dtype, element_random(&state));
        piece->count = count_of(element_random(&state));
        at += element_random(&state) % 3 == 0 ? (int64_t)(element_random(&state) % 40) : 0; /* gaps */
        piece->buffer_at = at;
        at += piece->count;
        size_t bytes = (size_t)piece->count * dtype_bytes(piece->dtype);
        sample->memory[i] = allocated(bytes + 2 * SLACK);
        size_t place = SLACK + place_of(element_random(&state), (int)dtype_bytes(piece->dtype));
        memset(sample->memory[i], GUARD, bytes + 2 * SLACK);
        piece->tensor = sample->memory[i] + place;
        element_fill(piece->dtype, piece->tensor, piece->count, element_random(&state));
        if (element_random(&state) % 16 == 0)
            piece->tensor = NULL;
    }
    sample->buffer_bytes = (size_t)at * dtype_bytes(sample->buffer_dtype) + 2 * SLACK;
    sample->buffer = allocated(sample->buffer_bytes);
    sample->expected = allocated(sample->buffer_bytes);
    memset(sample->buffer, GUARD, sample->buffer_bytes);
    memset(sample->expected, GUARD, sample->buffer_bytes);
}

static void sample_end(struct sample *sample)
{
    for (int i = 0; i < sample->count; i++)
        free(sample->memory[i]);
    free(sample->buffer);
    free(sample->expected);
}

/* Elements in memory. */
struct vector {
    enum hvd_dtype dtype;
    void *data;
};

static void convert(struct vector to, int64_t to_at, struct vector from, int64_t from_at, double scale)
{
    if (to.dtype == from.dtype && (scale == 1 || to.dtype == HVD_BOOL)) {
        uint64_t bits = element_bits(from.dtype, from.data, from_at);
        memcpy((char *)to.data + to_at * (int64_t)dtype_bytes(to.dtype), &bits, dtype_bytes(to.dtype));
        return;
    }
    element_put(to.dtype, to.data, to_at,
                element_scaled(from.dtype, element_at(from.dtype, from.data, from_at), scale));
}

static void assert_same(const struct sample *sample, const char *what, enum hvd_dtype dtype,
                        const void *expected, const void *found, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!element_same(dtype, expected, found, i))
            ck_abort_msg("%s, buffer of %s, scale %g: element %lld of %lld (%s) is %#llx, expected %#llx",
                         what, dtype_name(sample->buffer_dtype), sample->scale, (long long)i,
                         (long long)count, dtype_name(dtype),
                         (unsigned long long)element_bits(dtype, found, i),
                         (unsigned long long)element_bits(dtype, expected, i));
}

START_TEST(packs_like_the_reference)
{
    struct sample sample;
    sample_begin(&sample, (uint64_t)_i);
    char *buffer = sample.buffer + SLACK;
    for (int i = 0; i < sample.count; i++) {
        const struct pack_piece *piece = &sample.pieces[i];
        for (int64_t k = 0; k < piece->count && piece->tensor != NULL; k++)
            convert((struct vector){sample.buffer_dtype, sample.expected + SLACK}, piece->buffer_at + k,
                    (struct vector){piece->dtype, piece->tensor}, k, sample.scale);
        size_t at = (size_t)piece->buffer_at * dtype_bytes(sample.buffer_dtype);
        if (piece->tensor == NULL)
            memset(sample.expected + SLACK + at, 0, (size_t)piece->count * dtype_bytes(sample.buffer_dtype));
    }
    launch((struct pack_list){sample.pieces, sample.count, sample.buffer_dtype}, sample.blocks,
           (struct pack_arguments){.buffer = (uint64_t)(uintptr_t)buffer, .scale = sample.scale});
    for (int i = 0; i < sample.count; i++) {
        const struct pack_piece *piece = &sample.pieces[i];
        size_t at = (size_t)piece->buffer_at * dtype_bytes(sample.buffer_dtype);
        assert_same(&sample, "pack", sample.buffer_dtype, sample.expected + SLACK + at, buffer + at,
                    piece->count);
        memset(sample.expected + SLACK + at, GUARD, (size_t)piece->count * dtype_bytes(sample.buffer_dtype));
        memset(buffer + at, GUARD, (size_t)piece->count * dtype_bytes(sample.buffer_dtype));
    }
    ck_assert_mem_eq(sample.buffer, sample.expected, sample.buffer_bytes); /* the gaps */
    sample_end(&sample);
}
END_TEST

START_TEST(unpacks_like_the_reference)
{
    struct sample sample;
    sample_begin(&sample, (uint64_t)_i);
    char *buffer = sample.buffer + SLACK;
    element_fill(sample.buffer_dtype, buffer,
                 (int64_t)((sample.buffer_bytes - 2 * SLACK) / dtype_bytes(sample.buffer_dtype)),
                 (uint64_t)_i + 99);
    memcpy(sample.expected, sample.buffer, sample.buffer_bytes);
    launch((struct pack_list){sample.pieces, sample.count, sample.buffer_dtype}, sample.blocks,
           (struct pack_arguments){
               .buffer = (uint64_t)(uintptr_t)buffer, .scale = sample.scale, .unpack = true});
    ck_assert_mem_eq(sample.buffer, sample.expected, sample.buffer_bytes);
    for (int i = 0; i < sample.count; i++) {
        const struct pack_piece *piece = &sample.pieces[i];
        size_t bytes = (size_t)piece->count * dtype_bytes(piece->dtype);
        if (piece->tensor == NULL)
            continue;
        char *expected = allocated(bytes);
        for (int64_t k = 0; k < piece->count; k++)
            convert((struct vector){piece->dtype, expected}, k, (struct vector){sample.buffer_dtype, buffer},
                    piece->buffer_at + k, sample.scale);
        assert_same(&sample, "unpack", piece->dtype, expected, piece->tensor, piece->count);
        memset(piece->tensor, GUARD, bytes);
        for (size_t k = 0; k < bytes + 2 * SLACK; k++)
            ck_assert_int_eq(sample.memory[i][k], GUARD);
        free(expected);
    }
    sample_end(&sample);
}
END_TEST

/* Every float16 and bfloat16, and float32 that lie between two of them. */
START_TEST(converts_every_half)
{
    enum hvd_dtype half = _i == 0 ? HVD_FLOAT16 : HVD_BFLOAT16;
    static uint16_t halves[65536], expected_halves[3 * 65536], narrowed[3 * 65536];
    static float widened[65536], expected[65536], between[3 * 65536];
    for (int i = 0; i < 65536; i++) {
        halves[i] = (uint16_t)i;
        element_put(HVD_FLOAT32, expected, i, element_at(half, halves, i));
    }
    struct pack_piece piece = {.tensor = halves, .count = 65536, .dtype = half};
    launch((struct pack_list){&piece, 1, HVD_FLOAT32}, 2,
           (struct pack_arguments){.buffer = (uint64_t)(uintptr_t)widened, .scale = 1});
    for (int i = 0; i < 65536; i++)
        ck_assert_msg(element_same(HVD_FLOAT32, expected, widened, i), "%#x became %g", i,
                      (double)widened[i]);
    for (int i = 0; i < 65536; i++) {
        between[3 * i] = expected[i];
        between[3 * i + 1] = (expected[i] + expected[(i + 1) % 65536]) / 2;
        between[3 * i + 2] = nextafterf(between[3 * i + 1], INFINITY);
    }
    for (int i = 0; i < 3 * 65536; i++)
        element_put(half, expected_halves, i, element_at(HVD_FLOAT32, between, i));
    piece = (struct pack_piece){.tensor = between, .count = 3 * 65536, .dtype = HVD_FLOAT32};
    launch((struct pack_list){&piece, 1, half}, 2,
           (struct pack_arguments){.buffer = (uint64_t)(uintptr_t)narrowed, .scale = 1});
    for (int i = 0; i < 3 * 65536; i++)
        ck_assert_msg(element_same(half, expected_halves, narrowed, i), "%a became %#x, expected %#x",
                      (double)between[i], narrowed[i], expected_halves[i]);
}
END_TEST

/* ---- The table ------------------------------------------------------------------------------ */

/* Sets of sizes that are hard to share out. */
static int64_t size_in_set(int set, int i)
{
    switch (set) {
    case 0:
        return i < 10000 ? 256 : -1;
    case 1:
        return i == 500 ? 5000000 : i < 1000 ? 3 : -1;
    case 2:
        return i < 1 ? 20000000 : -1;
    default:
        return i < 300 ? i * i : -1;
    }
}

/* No warp copies a tile more than another, a tile is small where the batch is, and each begins with the entry
 * that the table says. */
START_TEST(shares_the_work_evenly)
{
    enum { WORKERS = 4000 };
    static struct pack_piece pieces[10001];
    struct pack_layout layout;
    struct hvd_error err;
    int count = 0;
    int64_t at = 0;
    for (; size_in_set(_i, count) >= 0; count++) {
        pieces[count] =
            (struct pack_piece){.count = size_in_set(_i, count), .buffer_at = at, .dtype = HVD_FLOAT32};
        at += pieces[count].count;
    }
    struct pack_list list = {pieces, count, HVD_FLOAT32};
    ck_assert_int_eq(pack_layout(&list, WORKERS, &layout, &err), HVD_OK);
    ck_assert_int_ge(layout.work_bytes, at * 4);
    ck_assert_int_le(layout.work_bytes, at * 4 + count * PACK_GROUP_BYTES);
    ck_assert_int_ge(layout.tile_bytes * layout.tile_count, layout.work_bytes);
    ck_assert_int_lt(layout.tile_bytes * (layout.tile_count - 1), layout.work_bytes);
    ck_assert_int_eq(layout.tile_bytes % PACK_GROUP_BYTES, 0);
    ck_assert(layout.tile_bytes == PACK_TILE_BYTES || layout.tile_count <= WORKERS);
    ck_assert_int_le(layout.tile_bytes, layout.work_bytes / WORKERS + PACK_LANES * PACK_GROUP_BYTES);

    char *memory = allocated(layout.table_bytes);
    pack_table_fill(&layout, &list, memory);
    struct pack_table table = pack_table_at(&layout, (uint64_t)(uintptr_t)memory);
    ck_assert_int_eq(table.entries[layout.entry_count].work_at, layout.work_bytes);
    for (int64_t tile = 0; tile < layout.tile_count; tile++) {
        const struct pack_entry *entry = &table.entries[table.first[tile]];
        ck_assert_int_le(entry[0].work_at, tile * layout.tile_bytes);
        ck_assert_int_gt(entry[1].work_at, tile * layout.tile_bytes);
    }
    free(memory);
}
END_TEST

START_TEST(has_nothing_to_do_without_elements)
{
    struct pack_piece pieces[3] = {{.dtype = HVD_INT8}, {.dtype = HVD_INT8}, {.dtype = HVD_INT8}};
    struct pack_layout layout;
    for (int count = 0; count <= 3; count++) {
        struct pack_list list = {pieces, count, HVD_INT8};
        ck_assert_int_eq(pack_layout(&list, 8, &layout, NULL), HVD_OK);
        ck_assert_int_eq(layout.tile_count, 0);
        launch(list, 1, (struct pack_arguments){.scale = 1});
    }
}
END_TEST

static void assert_refused(struct pack_piece piece, enum hvd_dtype buffer_dtype, int status,
                           const char *words)
{
    struct pack_layout layout = {.entry_count = 77};
    struct hvd_error err = {""};
    struct pack_list list = {&piece, 1, buffer_dtype};
    ck_assert_int_eq(pack_layout(&list, 8, &layout, &err), status);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
    ck_assert_int_eq(layout.entry_count, 77);
}

START_TEST(refuses_what_it_cannot_pack)
{
    assert_refused((struct pack_piece){.dtype = HVD_INT32}, HVD_FLOAT32, HVD_ERR_UNSUPPORTED, "int32");
    assert_refused((struct pack_piece){.dtype = HVD_FLOAT16}, HVD_BFLOAT16, HVD_ERR_UNSUPPORTED, "bfloat16");
    assert_refused((struct pack_piece){.dtype = (enum hvd_dtype)99}, (enum hvd_dtype)99, HVD_ERR_UNSUPPORTED,
                   "unknown");
    assert_refused((struct pack_piece){.count = -1}, HVD_INT32, HVD_ERR_INVALID, "-1");
    assert_refused((struct pack_piece){.buffer_at = -5}, HVD_INT32, HVD_ERR_INVALID, "-5");
    assert_refused((struct pack_piece){.count = INT64_MAX}, HVD_INT32, HVD_ERR_INVALID, "2^52");
    static struct pack_piece many[1024];
    struct pack_layout layout;
    struct hvd_error err;
    for (int i = 0; i < 1024; i++)
        many[i] = (struct pack_piece){.count = INT64_C(1) << 52, .dtype = HVD_INT64};
    struct pack_list list = {many, 1024, HVD_INT64};
    ck_assert_int_eq(pack_layout(&list, 8, &layout, &err), HVD_ERR_INVALID);
}
END_TEST

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("pack_kernel");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, packs_like_the_reference, 0, SEEDS);
    tcase_add_loop_test(tcase, unpacks_like_the_reference, 0, SEEDS);
    tcase_add_loop_test(tcase, converts_every_half, 0, 2);
    tcase_add_loop_test(tcase, shares_the_work_evenly, 0, 4);
    tcase_add_test(tcase, has_nothing_to_do_without_elements);
    tcase_add_test(tcase, refuses_what_it_cannot_pack);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("pack_kernel", fill_suite);
}
