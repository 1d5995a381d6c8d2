/* test_pack_kernel.c: the kernel's code, run here for every block and thread, packs and unpacks what the
 * reference says, of any sizes, types and places; and the work is the same for all warps. */
#include "unit.h"

#include "cuda/pack_table.h"
#include "pack_samples.h"

#define SEEDS 400
#define BATCH 20 /* seeds in one process: a sanitizer makes its start dear */

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

static void run_sample(struct sample *sample, bool unpack)
{
    launch((struct pack_list){sample->pieces, sample->count, sample->buffer_dtype}, sample->blocks,
           (struct pack_arguments){.buffer = (uint64_t)(uintptr_t)(sample->buffer + SLACK),
                                   .scale = sample->scale,
                                   .unpack = unpack});
}

START_TEST(packs_like_the_reference)
{
    for (int seed = _i * BATCH; seed < (_i + 1) * BATCH; seed++)
        check_pack((uint64_t)seed, run_sample);
}
END_TEST

START_TEST(unpacks_like_the_reference)
{
    for (int seed = _i * BATCH; seed < (_i + 1) * BATCH; seed++)
        check_unpack((uint64_t)seed, run_sample);
}
END_TEST

START_TEST(converts_every_half)
{
    check_every_half(_i == 0 ? HVD_FLOAT16 : HVD_BFLOAT16, run_sample);
}
END_TEST

/* ---- What the samples have ------------------------------------------------------------------ */

/* How a tensor lies to its place in the buffer, which decides how it is copied: in groups of elements, one by
 * one, or byte by byte. */
enum place { IN_STEP, OUT_OF_STEP, UNALIGNED, PLACES };
static bool seen[ELEMENT_DTYPES][ELEMENT_DTYPES][2][PLACES];

static enum place place_in(const struct sample *sample, const struct pack_piece *piece)
{
    uintptr_t bytes = dtype_bytes(piece->dtype);
    uintptr_t most = bytes > dtype_bytes(sample->buffer_dtype) ? bytes : dtype_bytes(sample->buffer_dtype);
    if ((uintptr_t)piece->tensor % bytes != 0)
        return UNALIGNED;
    uintptr_t apart = (uintptr_t)piece->tensor / bytes - (uintptr_t)piece->buffer_at;
    return apart % (PACK_GROUP_BYTES / most) == 0 ? IN_STEP : OUT_OF_STEP;
}

START_TEST(samples_have_every_pair_of_types_and_place)
{
    struct sample sample;
    memset(seen, 0, sizeof(seen));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sample_begin(&sample, seed);
        for (int i = 0; i < sample.count; i++) {
            const struct pack_piece *piece = &sample.pieces[i];
            if (piece->tensor != NULL && piece->count > PACK_GROUP_BYTES)
                seen[piece->dtype][sample.buffer_dtype][sample.scale != 1][place_in(&sample, piece)] = true;
        }
        sample_end(&sample);
    }
    for (enum hvd_dtype dtype = 0; dtype < ELEMENT_DTYPES; dtype++)
        for (enum hvd_dtype buffer = 0; buffer < ELEMENT_DTYPES; buffer++)
            for (int at = 0; at < 2 * PLACES && pack_supports(dtype, buffer); at++)
                ck_assert_msg(seen[dtype][buffer][at / PLACES][at % PLACES] ||
                                  (at % PLACES == UNALIGNED && dtype_bytes(dtype) == 1),
                              "%s in a buffer of %s, %s, place %d", dtype_name(dtype), dtype_name(buffer),
                              at / PLACES ? "scaled" : "as it is", at % PLACES);
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
    tcase_add_loop_test(tcase, packs_like_the_reference, 0, SEEDS / BATCH);
    tcase_add_loop_test(tcase, unpacks_like_the_reference, 0, SEEDS / BATCH);
    tcase_add_loop_test(tcase, converts_every_half, 0, 2);
    tcase_add_test(tcase, samples_have_every_pair_of_types_and_place);
    tcase_add_loop_test(tcase, shares_the_work_evenly, 0, 4);
    tcase_add_test(tcase, has_nothing_to_do_without_elements);
    tcase_add_test(tcase, refuses_what_it_cannot_pack);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("pack_kernel", fill_suite);
}
