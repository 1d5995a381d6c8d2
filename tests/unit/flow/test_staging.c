/* test_staging.c: where batches of tensors on GPUs are cut that travel through the host. */
#include "unit.h"

#include "descs.h"
#include "flow/batch/staging.h"

#define MIB (INT64_C(1) << 20)

/* What fits into a batch, in elements of 4 bytes. */
#define LIMIT (2 * MIB / 4)

static const int ranks[] = {0, 1};

/* A batch of tensors with these counts; element 0 of the first is at 64, and all lie behind each other. */
static struct batch *make(struct process_set *set, enum desc_kind kind, const int64_t *counts, int count)
{
    struct desc *desc = desc_group(count, 0);
    char *memory = (char *)64;
    desc->kind = kind;
    set->members = (struct team){.rank = 0, .size = 2, .ranks = ranks};
    for (int i = 0; i < count; i++)
        desc->tensors[i].shape[0] = counts[i];
    struct request *request = request_create(desc);
    struct batch *batch = batch_create(set, BACKEND_SHM, desc, 0);
    for (int i = 0; i < count; i++) {
        struct request_tensor *tensor = &request->tensors[i];
        tensor->count = counts[i];
        tensor->bytes = counts[i] * 4;
        tensor->input = tensor->output = memory;
        memory += tensor->bytes;
        batch_add(batch, tensor);
    }
    desc_release(desc);
    return batch;
}

/* End the batch's tensors. Returns their request. */
static struct request *end(struct batch *batch)
{
    struct request *request = batch->tensors->request;
    struct request_tensor *next = NULL;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = next) {
        next = tensor->next;
        request_tensor_over(tensor);
    }
    batch_free(batch);
    return request;
}

static struct batch *cut(struct batch *batch)
{
    struct hvd_error err = {""};
    struct batch *rest = NULL;
    ck_assert_msg(staging_cut(batch, &rest, &err) == HVD_OK, "%s", err.text);
    return rest;
}

static const struct {
    int64_t counts[3]; /* 0: no more */
    int batches;
    int tensors[4]; /* in each */
} cases[] = {{{LIMIT}, 1, {1}},
             {{LIMIT + 1}, 2, {1, 1}},
             {{LIMIT, 1}, 2, {1, 1}},
             {{LIMIT - 1, 1, 1}, 2, {2, 1}},
             {{1, LIMIT, 1}, 2, {2, 2}},
             {{3 * LIMIT + 5, 7}, 4, {1, 1, 1, 2}},
             {{5, 2 * LIMIT, LIMIT}, 4, {2, 1, 2, 1}}};

/* Each batch but the last is full, and together they have each element once and in order. */
START_TEST(batches_are_full)
{
    enum desc_kind kind = _i % 2 == 0 ? DESC_ALLREDUCE : DESC_BROADCAST;
    struct process_set set = {.sequence = 0};
    int count = 0;
    int64_t total = 0;
    for (; count < 3 && cases[_i / 2].counts[count] > 0; count++)
        total += cases[_i / 2].counts[count];
    struct batch *batch = make(&set, kind, cases[_i / 2].counts, count);
    struct request *request = batch->tensors->request;
    const char *memory = (const char *)64;
    int made = 0;
    for (struct batch *rest = NULL; batch != NULL; batch = rest, made++) {
        int tensors = 0;
        int64_t elements = 0;
        rest = cut(batch);
        ck_assert_int_eq(batch->transfer.count, total < LIMIT ? total : LIMIT);
        for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
            ck_assert_ptr_eq(tensor->input, memory);
            ck_assert_ptr_eq(tensor->output, memory);
            ck_assert_int_eq(tensor->bytes, tensor->count * 4);
            ck_assert(tensor->next != NULL || batch->tail == &tensor->next);
            memory += tensor->bytes;
            elements += tensor->count;
            tensors++;
        }
        ck_assert_int_eq(elements, batch->transfer.count);
        ck_assert_int_eq(tensors, batch->tensor_count);
        ck_assert_int_eq(tensors, cases[_i / 2].tensors[made]);
        if (rest != NULL)
            ck_assert_int_eq(rest->stage, BATCH_FETCH);
        total -= elements;
        end(batch);
    }
    ck_assert_int_eq(made, cases[_i / 2].batches);
    ck_assert_int_eq(total, 0);
    ck_assert_int_eq(request->tensors_left, 0);
    for (int i = 0; i < count; i++) /* the program may submit it again */
        ck_assert_int_eq(request->tensors[i].count, cases[_i / 2].counts[i]);
    request_free(request);
}
END_TEST

START_TEST(others_stay_whole)
{
    static const enum desc_kind kinds[] = {DESC_ALLGATHER, DESC_ALLTOALL, DESC_REDUCESCATTER};
    const int64_t counts[] = {3 * LIMIT};
    struct process_set set = {.sequence = 0};
    struct batch *batch = make(&set, kinds[_i], counts, 1);
    ck_assert_ptr_null(cut(batch));
    ck_assert_int_eq(batch->tensors->count, counts[0]);
    request_free(end(batch));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("cut");
    tcase_add_loop_test(tcase, batches_are_full, 0, 2 * (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(tcase, others_stay_whole, 0, 3);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("staging", fill);
}
