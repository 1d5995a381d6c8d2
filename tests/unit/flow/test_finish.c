/* test_finish.c: the end of an operation. */
#include "unit.h"

#include <stdio.h>

#include "flow/finish.h"

static int rings;
static int rings_before_callback;

static void count_ring(struct control *control)
{
    (void)control;
    rings++;
}

static const struct control_ops ringing_ops = {.name = "ringing", .ring = count_ring};

static void note_rings(enum hvd_status status, void *arg)
{
    (void)arg;
    ck_assert_int_eq(status, HVD_OK);
    rings_before_callback = rings;
}

/* A callback may take long, and others must not wait for what this rank has sent before. */
START_TEST(others_are_rung_before_a_callback)
{
    struct control control = {.ops = &ringing_ops};
    struct finish finish = {.control = &control};
    hvd_handle handle;
    bool first;
    bool has_callback = _i == 1;
    ck_assert_int_eq(tensor_queue_create(&finish.queue, 0, NULL), HVD_OK);
    struct desc *desc = desc_create(1);
    desc->kind = DESC_ALLREDUCE;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "a");
    struct request *request = request_create(desc);
    desc_release(desc);
    if (has_callback)
        request->done = note_rings;
    ck_assert_int_eq(tensor_queue_submit(finish.queue, request, &handle, &first, NULL), HVD_OK);
    ck_assert_ptr_eq(tensor_queue_take(finish.queue), request);
    finish_request(&finish, request, HVD_OK, NULL);
    ck_assert_int_eq(tensor_queue_test(finish.queue, handle, NULL), HVD_OK);
    ck_assert_int_eq(rings, has_callback ? 1 : 0);
    ck_assert_int_eq(rings_before_callback, has_callback ? 1 : 0);
    tensor_queue_destroy(finish.queue);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("finish");
    tcase_add_loop_test(tcase, others_are_rung_before_a_callback, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("finish", fill);
}
