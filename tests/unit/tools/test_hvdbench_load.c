/* test_hvdbench_load.c: the sums of what ranks fill tensors with pass the check, and wrong sums do not. */
#include "unit.h"

#include <string.h>

#include "base/dtype.h"
#include "backend/arith/reduce.h"
#include "tools/hvdbench/load.h"

enum { RANKS = 3, ELEMENTS = 40000 };

static struct hvd_error err;

/* Sum the ranks' values, as an allreduce does. [data] has those of the first rank. */
static void add_up(enum hvd_dtype dtype, void *data, int64_t count, int64_t shift)
{
    const struct reduction sum = {dtype, dtype, HVD_SUM, 1, 1, RANKS};
    unsigned char *other = malloc((size_t)count * 8);
    for (int rank = 1; rank < RANKS; rank++) {
        struct pattern pattern = {.own = NULL};
        ck_assert_int_eq(pattern_init(&pattern, dtype, rank, RANKS, &err), HVD_OK);
        pattern_fill(&pattern, other, count, shift);
        reduce_fold(&sum, data, data, other, count);
        pattern_fini(&pattern);
    }
    free(other);
}

START_TEST(sums_of_all_types_are_as_expected)
{
    enum hvd_dtype dtype = (enum hvd_dtype)_i;
    struct pattern pattern = {.own = NULL};
    unsigned char *data = malloc(ELEMENTS * 8);
    ck_assert_int_eq(pattern_init(&pattern, dtype, 0, RANKS, &err), HVD_OK);
    for (int64_t shift = 0; shift < 1000; shift += 333) {
        pattern_fill(&pattern, data, ELEMENTS, shift);
        ck_assert_int_eq(pattern_find_changed(&pattern, data, ELEMENTS, shift), -1);
        ck_assert_int_ne(pattern_find_wrong(&pattern, data, ELEMENTS, shift), -1);
        add_up(dtype, data, ELEMENTS, shift);
        ck_assert_int_eq(pattern_find_wrong(&pattern, data, ELEMENTS, shift), -1);
        ck_assert_int_ne(pattern_find_wrong(&pattern, data, ELEMENTS, shift + 1), -1);
        data[ELEMENTS / 2 * dtype_bytes(dtype)] ^= 1;
        ck_assert_int_eq(pattern_find_wrong(&pattern, data, ELEMENTS, shift), ELEMENTS / 2);
    }
    free(data);
    pattern_fini(&pattern);
}
END_TEST

static void load(struct model *model, struct load *found, int rank)
{
    static const char text[] = "first float32 7\nsecond int64 5,2\nthird float32 3\nfourth int8 9\n";
    const struct load_job job = {rank, RANKS, 1, 0};
    ck_assert_int_eq(model_parse(model, "text", text, strlen(text), &err), HVD_OK);
    ck_assert_int_eq(load_init(found, model, &job, &err), HVD_OK);
}

/* Tensors are in backward order with gaps between them; in the single block each type is without gaps. */
START_TEST(tensors_are_placed_as_frameworks_have_them)
{
    struct model model = {.count = 0};
    struct load found = {.count = 0};
    load(&model, &found, 0);
    ck_assert_int_eq(found.count, 4);
    ck_assert_str_eq(found.tensors[0].name, "fourth");
    ck_assert_str_eq(found.tensors[3].name, "first");
    ck_assert_int_eq(found.tensors[2].shape[1], 2);
    ck_assert_int_eq(found.counts[2], 10);
    for (int i = 1; i < found.count; i++)
        ck_assert_uint_gt((size_t)((char *)found.tensors[i].output - (char *)found.tensors[i - 1].output),
                          (size_t)found.counts[i - 1] * dtype_bytes(found.tensors[i - 1].dtype));
    ck_assert_int_eq(found.run_count, 3);
    ck_assert_int_eq(found.runs[0].dtype, HVD_INT64);
    ck_assert_int_eq(found.runs[0].count, 10);
    ck_assert_int_eq(found.runs[1].dtype, HVD_FLOAT32);
    ck_assert_int_eq(found.runs[1].count, 10);
    load_fini(&found);
    model_fini(&model);
}
END_TEST

START_TEST(tensors_are_placed_elsewhere_too)
{
    struct model model = {.count = 0};
    struct load found = {.count = 0};
    load(&model, &found, 0);
    int64_t bytes = load_arena_bytes(&model);
    unsigned char *arena = calloc(1, (size_t)bytes);
    struct hvd_tensor *tensors = calloc((size_t)found.count, sizeof(*tensors));
    load_place_tensors(&found, arena, tensors);
    for (int i = 0; i < found.count; i++) {
        struct hvd_tensor *own = &found.tensors[i];
        int64_t at = (unsigned char *)tensors[i].output - arena;
        int64_t end = at + found.counts[i] * (int64_t)dtype_bytes(tensors[i].dtype);
        ck_assert_str_eq(tensors[i].name, own->name);
        ck_assert_int_eq(tensors[i].dtype, own->dtype);
        ck_assert_int_eq(tensors[i].shape[0], own->shape[0]);
        ck_assert_ptr_eq(tensors[i].input, tensors[i].output);
        ck_assert_int_eq(at, (unsigned char *)own->output - found.arena);
        ck_assert_int_le(end, bytes);
    }
    /* these tensors are filled and checked, and not those of the load itself */
    load_fill_tensors(&found, tensors);
    for (int i = 0; i < found.count; i++)
        add_up(tensors[i].dtype, tensors[i].output, found.counts[i], (int64_t)i * 17);
    ck_assert_int_eq(load_check_tensors(&found, tensors, "who", &err), HVD_OK);
    ck_assert_int_ne(load_check_tensors(&found, found.tensors, "who", &err), HVD_OK);
    free(tensors);
    free(arena);
    load_fini(&found);
    model_fini(&model);
}
END_TEST

START_TEST(wrong_sums_are_named)
{
    struct model model = {.count = 0};
    struct load found = {.count = 0};
    load(&model, &found, 0);
    ck_assert_int_ne(load_check_tensors(&found, found.tensors, "who", &err), HVD_OK);
    for (int i = 0; i < found.count; i++)
        add_up(found.tensors[i].dtype, found.tensors[i].output, found.counts[i], (int64_t)i * 17);
    ck_assert_int_eq(load_check_tensors(&found, found.tensors, "who", &err), HVD_OK);
    ((float *)found.tensors[1].output)[2] += 1;
    ck_assert_int_ne(load_check_tensors(&found, found.tensors, "who", &err), HVD_OK);
    ck_assert_str_eq(err.text, "who gave rank 0 a wrong sum: element 2 of third is not what 3 ranks put in");
    ck_assert_int_ne(load_check_whole(&found, "who", &err), HVD_OK);
    for (int i = 0; i < found.run_count; i++)
        add_up(found.runs[i].dtype, found.runs[i].data, found.runs[i].count, 0);
    ck_assert_int_eq(load_check_whole(&found, "who", &err), HVD_OK);
    found.runs[2].data[4] ^= 1;
    ck_assert_int_ne(load_check_whole(&found, "who", &err), HVD_OK);
    load_fini(&found);
    model_fini(&model);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    static const char text[] = "huge float32 1024,1024,1024,100\n";
    const struct load_job job = {0, 1000, 1000, 0};
    struct model model = {.count = 0};
    struct load found = {.count = 0};
    ck_assert_int_eq(model_parse(&model, "text", text, strlen(text), &err), HVD_OK);
    ck_assert_int_eq(load_init(&found, &model, &job, &err), HVD_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.text, "each of 1000 ranks on this node needs"));
    ck_assert_ptr_null(found.arena);
    model_fini(&model);
}
END_TEST

/* A load that fits into memory by itself does not fit if the job needs more memory besides. */
START_TEST(what_is_taken_besides_counts)
{
    const struct load_job job = {0, RANKS, RANKS, INT64_C(1) << 60};
    struct model model = {.count = 0};
    struct load found = {.count = 0};
    load(&model, &found, 0);
    load_fini(&found);
    ck_assert_int_eq(load_init(&found, &model, &job, &err), HVD_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.text, "each of 3 ranks on this node needs"));
    model_fini(&model);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("load");
    tcase_add_loop_test(tcase, sums_of_all_types_are_as_expected, 0, HVD_BOOL);
    tcase_add_test(tcase, tensors_are_placed_as_frameworks_have_them);
    tcase_add_test(tcase, tensors_are_placed_elsewhere_too);
    tcase_add_test(tcase, wrong_sums_are_named);
    tcase_add_test(tcase, what_does_not_fit_is_refused);
    tcase_add_test(tcase, what_is_taken_besides_counts);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdbench_load", fill);
}
