/* test_message_staging.c: when messages of tensors on the GPU begin and end, and in which order. The GPU is
 * the double of CUDA; one stream of the program is held by the test. */
#include "cuda/cuda_double.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "flow/message_staging.h"
#include "flow/tensor_queue.h"

#define BYTES    1000
#define WAIT_US  INT64_C(10000000)
#define MESSAGES 4

enum { HELD, FREE, HOST };

static struct cuda_driver *driver;
static struct gpu *gpu;
static struct message_staging staging;
static CUstream streams[2]; /* of the program */
static _Atomic bool held;
static struct message messages[MESSAGES];
static struct request requests[MESSAGES];
static struct request_tensor tensors[MESSAGES];
static char *buffers[MESSAGES]; /* on the GPU, all bytes of number i are i + 1 */
static char host[BYTES];

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = 100000};
    nanosleep(&pause, NULL);
}

static void wait_for_release(void *arg)
{
    (void)arg;
    for (int64_t begun_us = clock_us(); atomic_load(&held) && clock_us() - begun_us < 2 * WAIT_US;)
        pause_shortly();
}

static void fill_buffer(int at)
{
    void *memory = NULL;
    ck_assert_int_eq(gpu_buffer_create(gpu, BYTES, &memory, NULL), HVD_OK);
    buffers[at] = memory;
    memset(host, at + 1, BYTES);
    ck_assert_int_eq(gpu_wait_and_copy(gpu, memory, host, BYTES, NULL), HVD_OK);
}

static void open_staging(void)
{
    static struct hvd_config config = {.nccl_library = "none"};
    static struct hvd_log log = {LOG_OFF, NULL, NULL};
    static struct hvd_job job = {.size = 1};
    static const struct backend_env env = {.config = &config, .log = &log, .job = &job, .epoll_fd = -1};
    int mode = 0;
    driver = cuda_double_open();
    ck_assert_int_eq(gpu_create(&gpu, &env, NULL), HVD_OK);
    ck_assert_int_eq(gpu_need_device(gpu, 0, NULL), HVD_OK);
    for (int i = 0; i < MESSAGES; i++)
        fill_buffer(i);
    ck_assert_int_eq(gpu_enter(gpu, &mode, NULL), HVD_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(driver->cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, 0), 0);
    atomic_store(&held, true);
    ck_assert_int_eq(driver->cuLaunchHostFunc(streams[HELD], wait_for_release, NULL), 0);
    gpu_leave(gpu, mode);
    message_staging_init(&staging, gpu);
}

static void close_staging(void)
{
    int mode = 0;
    atomic_store(&held, false);
    for (int i = 0; i < MESSAGES; i++) {
        message_staging_release(&messages[i]);
        gpu_event_release(requests[i].ready);
        gpu_buffer_destroy(gpu, buffers[i]);
    }
    ck_assert_int_eq(gpu_enter(gpu, &mode, NULL), HVD_OK);
    for (int i = 0; i < 2; i++)
        driver->cuStreamDestroy(streams[i]);
    gpu_leave(gpu, mode);
    gpu_destroy(gpu);
    cuda_driver_close(driver);
}

/* Message [at], whose tensor is on the GPU, where [stream] has its data, or in host memory. */
static struct message *make(int at, enum p2p_direction direction, int tag, int stream)
{
    struct message *message = &messages[at];
    *message = (struct message){.op = {.direction = direction,
                                       .envelope = {.tag = tag},
                                       .to = 1,
                                       .memory = stream == HOST ? host : NULL,
                                       .bytes = BYTES},
                                .tensor = &tensors[at],
                                .on_gpu = stream == HOST ? NULL : buffers[at]};
    tensors[at].request = &requests[at];
    if (stream != HOST)
        ck_assert_int_eq(gpu_mark(gpu, streams[stream], &requests[at].ready, NULL), HVD_OK);
    return message;
}

/* Take it. Returns whether it has to wait. */
static bool take(struct message *message)
{
    bool waits = false;
    ck_assert_int_eq(message_staging_take(&staging, message, &waits, NULL), HVD_OK);
    return waits;
}

typedef int (*next_f)(struct message_staging *staging, struct message **messagep, struct hvd_error *err);

/* The next one must be [expected]. */
static void await(next_f next, const struct message *expected)
{
    struct message *message = NULL;
    for (int64_t begun_us = clock_us(); message == NULL && clock_us() - begun_us < WAIT_US;) {
        ck_assert_int_eq(next(&staging, &message, NULL), HVD_OK);
        pause_shortly();
    }
    ck_assert_ptr_eq(message, expected);
}

/* None comes, though all that the GPU can do is done. */
static void await_none(next_f next)
{
    struct message *message = NULL;
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(next(&staging, &message, NULL), HVD_OK);
        ck_assert_ptr_null(message);
        pause_shortly();
    }
}

static void must_hold(const char *memory, int at)
{
    for (int i = 0; i < BYTES; i++)
        ck_assert_int_eq(memory[i], at + 1);
}

START_TEST(sends_leave_in_order_with_their_bytes)
{
    open_staging();
    for (int i = 0; i < 2; i++)
        ck_assert(take(make(i, P2P_SEND, 5, i == 0 ? HELD : FREE)));
    ck_assert(take(make(2, P2P_SEND, 5, HOST)));
    await_none(message_staging_next_send);
    ck_assert(message_staging_holds_sends(&staging));
    ck_assert_int_lt(message_staging_deadline(&staging), INT64_MAX);
    atomic_store(&held, false);
    for (int i = 0; i < 3; i++)
        await(message_staging_next_send, &messages[i]);
    for (int i = 0; i < 2; i++)
        must_hold(messages[i].op.memory, i);
    ck_assert(!message_staging_holds_sends(&staging));
    ck_assert_int_eq(message_staging_deadline(&staging), INT64_MAX);
    close_staging();
}
END_TEST

/* Behind none that goes elsewhere, or has another tag or process set; and none in host memory behind itself.
 */
START_TEST(a_send_waits_only_for_those_that_it_must_not_overtake)
{
    open_staging();
    ck_assert(take(make(0, P2P_SEND, 5, HELD)));
    struct message *other = make(1, P2P_SEND, _i == 0 ? 6 : 5, FREE);
    other->op.to = _i == 1 ? 2 : 1;
    other->op.envelope.set = _i == 2;
    ck_assert(take(other));
    await(message_staging_next_send, other);
    ck_assert(!take(make(2, P2P_SEND, 6, HOST)));
    ck_assert(!take(make(3, P2P_RECEIVE, 5, HOST)));
    atomic_store(&held, false);
    await(message_staging_next_send, &messages[0]);
    close_staging();
}
END_TEST

START_TEST(a_receive_ends_when_its_bytes_are_on_the_gpu)
{
    open_staging();
    struct message *late = make(0, P2P_RECEIVE, 5, HELD);
    struct message *soon = make(1, P2P_RECEIVE, 5, FREE);
    ck_assert(!take(late));
    ck_assert(!take(soon));
    ck_assert(!message_staging_stores(&staging, make(2, P2P_RECEIVE, 5, HOST)));
    memset(late->op.memory, 3, BYTES);
    memset(soon->op.memory, 4, BYTES);
    ck_assert(message_staging_stores(&staging, late));
    ck_assert(message_staging_stores(&staging, soon));
    await(message_staging_next_stored, soon);
    await_none(message_staging_next_stored);
    ck_assert(!message_staging_holds_sends(&staging));
    atomic_store(&held, false);
    await(message_staging_next_stored, late);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(gpu_wait_and_copy(gpu, host, buffers[i], BYTES, NULL), HVD_OK);
        must_hold(host, i + 2);
    }
    close_staging();
}
END_TEST

/* It leaves without memory of the host, and gets some when its receiver wants that. */
START_TEST(a_send_that_nccl_may_carry_is_copied_when_it_is_wanted)
{
    open_staging();
    struct message *direct = make(0, P2P_SEND, 5, FREE);
    direct->op.direct = true;
    ck_assert(take(direct));
    ck_assert(take(make(1, P2P_SEND, 5, HELD)));
    await(message_staging_next_send, direct);
    ck_assert_ptr_null(direct->op.memory);
    message_staging_want(&staging, direct);
    ck_assert(message_staging_holds_sends(&staging));
    await(message_staging_next_wanted, direct);
    must_hold(direct->op.memory, 0);
    struct message *receive = make(2, P2P_RECEIVE, 5, FREE);
    receive->op.direct = true;
    ck_assert(!take(receive));
    ck_assert(!message_staging_stores(&staging, receive)); /* NCCL has written it */
    ck_assert_int_eq(message_staging_supply(&staging, receive, NULL), HVD_OK);
    ck_assert(message_staging_stores(&staging, receive));
    await(message_staging_next_stored, receive);
    atomic_store(&held, false);
    await(message_staging_next_send, &messages[1]);
    close_staging();
}
END_TEST

/* Their memory serves others at once, but for a copy that is still under way. */
START_TEST(those_of_a_set_are_withdrawn)
{
    open_staging();
    for (int i = 0; i < 3; i++) {
        make(i, i < 2 ? P2P_SEND : P2P_RECEIVE, 5, HELD)->op.envelope.set = i == 0;
        ck_assert(take(&messages[i]) == (i < 2));
    }
    ck_assert(message_staging_stores(&staging, &messages[2]));
    ck_assert_ptr_eq(message_staging_withdraw(&staging, 1), &messages[0]);
    ck_assert_ptr_null(message_staging_withdraw(&staging, 1));
    struct host_block *block = messages[0].block;
    message_staging_release(&messages[0]);
    ck_assert(!block->taken);
    make(3, P2P_SEND, 6, FREE)->op.direct = true;
    message_staging_want(&staging, &messages[3]);
    ck_assert_ptr_eq(message_staging_withdraw(&staging, TENSOR_QUEUE_ALL_SETS), &messages[1]);
    ck_assert_ptr_eq(message_staging_withdraw(&staging, TENSOR_QUEUE_ALL_SETS), &messages[2]);
    ck_assert_ptr_null(message_staging_withdraw(&staging, TENSOR_QUEUE_ALL_SETS));
    ck_assert_ptr_eq(message_staging_withdraw_wanted(&staging), &messages[3]);
    ck_assert_ptr_null(message_staging_withdraw_wanted(&staging));
    ck_assert_int_eq(message_staging_deadline(&staging), INT64_MAX);
    close_staging();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("message_staging");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, sends_leave_in_order_with_their_bytes);
    tcase_add_loop_test(tcase, a_send_waits_only_for_those_that_it_must_not_overtake, 0, 3);
    tcase_add_test(tcase, a_receive_ends_when_its_bytes_are_on_the_gpu);
    tcase_add_test(tcase, a_send_that_nccl_may_carry_is_copied_when_it_is_wanted);
    tcase_add_test(tcase, those_of_a_set_are_withdrawn);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("message_staging", fill);
}
