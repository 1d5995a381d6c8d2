/* test_api.c: the calls as programs see them, in a job of one rank. */
#include "config.h"
#include "unit.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allocated_bytes.h"
#include "hvd.h"

static float memory[8];
static struct hvd_tensor x;
static struct hvd_options options;

static void begin(void)
{
    static const struct hvd_options plain = HVD_OPTIONS_INIT;
    static const char *const foreign[] = {"PMIX_NAMESPACE", "PMIX_RANK",     "WORLD_SIZE",
                                          "RANK",           "SLURM_STEP_ID", "OMPI_COMM_WORLD_SIZE",
                                          "PMI_RANK",       "PMI_SIZE"};
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        unsetenv(foreign[i]);
    for (int i = 0; i < 8; i++)
        memory[i] = (float)(i + 1);
    x = hvd_vector("x", memory, 8, HVD_FLOAT32);
    options = plain;
}

static void start(void)
{
    begin();
    ck_assert_msg(hvd_init() == HVD_OK, "%s", hvd_error_text());
}

static void end(void)
{
    ck_assert_msg(hvd_shutdown() == HVD_OK, "%s", hvd_error_text());
}

static void expect(enum hvd_status status, enum hvd_status expected, const char *sentence)
{
    ck_assert_msg(status == expected, "status %d: %s", status, hvd_error_text());
    ck_assert_msg(strcmp(hvd_error_text(), sentence) == 0, "%s", hvd_error_text());
}

/* ---- Before and after ---- */

#define BEFORE "hvd is not initialised; call hvd_init first"
#define ENDED  "hvd was shut down, which ended every operation that was pending"
#define AFTER  "hvd was shut down; nothing can be submitted after hvd_shutdown"

static void expect_none(const char *sentence)
{
    int number = 5;
    struct hvd_result result = {.data = NULL};
    hvd_handle handle = 99;
    expect(hvd_allreduce(&x, HVD_SUM, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_allreduce_async(&x, HVD_SUM, NULL, NULL, NULL, &handle), HVD_ERR_STATE, sentence);
    expect(hvd_grouped_allreduce(&x, 1, HVD_SUM, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_broadcast(&x, 0, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_allgather(&x, &result, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_grouped_allgather(&x, &result, 1, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_alltoall(&x, NULL, &result, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_reducescatter(&x, HVD_SUM, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_grouped_reducescatter(&x, 1, HVD_SUM, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_join(HVD_ALL_RANKS, NULL), HVD_ERR_STATE, sentence);
    expect(hvd_barrier(HVD_ALL_RANKS), HVD_ERR_STATE, sentence);
    bool after = strcmp(sentence, AFTER) == 0;
    enum hvd_status status = after ? HVD_ERR_SHUTDOWN : HVD_ERR_STATE;
    expect(hvd_test(1), status, after ? ENDED : sentence);
    expect(hvd_wait(1), status, after ? ENDED : sentence);
    expect(hvd_wait_for(1, 0), status, after ? ENDED : sentence);
    expect(hvd_wait_on_stream_for(1, NULL, 0), status, after ? ENDED : sentence);
    expect(hvd_set_add(&number, 1, &number), HVD_ERR_STATE, sentence);
    expect(hvd_set_add_by_members(&number, 1, &number), HVD_ERR_STATE, sentence);
    expect(hvd_set_remove(1), HVD_ERR_STATE, sentence);
    expect(hvd_should_stop(&number), HVD_ERR_STATE, sentence);
    expect(hvd_timeline_start("/nowhere"), HVD_ERR_STATE, sentence);
    expect(hvd_timeline_stop(), HVD_ERR_STATE, sentence);
    ck_assert_int_eq(number, 5);
    ck_assert_uint_eq(handle, 99);
    ck_assert_int_eq(hvd_is_initialized(), 0);
    ck_assert_int_eq(hvd_rank(), -1);
    ck_assert_int_eq(hvd_size(), -1);
    ck_assert_int_eq(hvd_local_rank(), -1);
    ck_assert_int_eq(hvd_local_size(), -1);
    ck_assert_int_eq(hvd_node_rank(), -1);
    ck_assert_int_eq(hvd_node_count(), -1);
    ck_assert_int_eq(hvd_set_rank(0), -1);
    ck_assert_int_eq(hvd_set_size(0), -1);
    ck_assert_int_eq(hvd_set_ranks(0, &number, 1), -1);
    ck_assert_int_eq(hvd_set_list(&number, 1), -1);
    ck_assert_int_eq(hvd_launcher_ranks(&number, 1), -1);
}

START_TEST(nothing_works_before_the_start_and_after_the_end)
{
    expect_none(BEFORE);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
    for (int i = 0; i < 2; i++) { /* a job of one rank may start again */
        ck_assert_msg(hvd_init() == HVD_OK, "%s", hvd_error_text());
        ck_assert_int_eq(hvd_is_initialized(), 1);
        expect(hvd_init(), HVD_ERR_STATE, "hvd_init was called twice; call hvd_shutdown in between");
        ck_assert_int_eq(hvd_allreduce(&x, HVD_SUM, NULL), HVD_OK);
        end();
        expect_none(AFTER);
    }
}
END_TEST

START_TEST(a_stop_request_ends_with_its_job)
{
    int stop = -1;
    hvd_request_stop();
    for (int job = 0; job < 3; job++) {
        ck_assert_msg(hvd_init() == HVD_OK, "%s", hvd_error_text());
        ck_assert_int_eq(hvd_should_stop(&stop), HVD_OK);
        ck_assert_int_eq(stop, job == 0);
        if (job == 1) {
            hvd_request_stop();
            ck_assert_int_eq(hvd_should_stop(&stop), HVD_OK);
            ck_assert_int_eq(stop, 1);
        }
        end();
    }
    setenv("HVD_LEASE", "never", 1);
    hvd_request_stop();
    ck_assert_int_eq(hvd_init(), HVD_ERR_INVALID); /* no job, which could end the request */
    unsetenv("HVD_LEASE");
    ck_assert_int_eq(hvd_init(), HVD_OK);
    ck_assert_int_eq(hvd_should_stop(&stop), HVD_OK);
    ck_assert_int_eq(stop, 1);
    end();
}
END_TEST

static const struct {
    int ranks[3], count;   /* of the job */
    int set[3], set_ranks; /* of each set */
    int set_count;
    enum hvd_status status;
    const char *sentence;
} starts[] = {
    {{0}, 1, {0}, 0, 0, HVD_OK, NULL},
    {{0}, 0, {0}, 0, 0, HVD_OK, NULL},
    {{1}, 1, {0}, 0, 0, HVD_ERR_INVALID, "hvd_init_with: job: ranks[0] is 1; expected 0 to 0"},
    {{0, 0},
     2,
     {0},
     0,
     0,
     HVD_ERR_INVALID,
     "hvd_init_with: job: rank 0 is in the list twice; name each once"},
    {{0},
     -1,
     {0},
     0,
     0,
     HVD_ERR_INVALID,
     "hvd_init_with: job: the list of ranks has no elements; at least one is needed"},
    {{0}, 0, {0}, 1, 1, HVD_ERR_DUPLICATE, "hvd_init_with: sets[0]: process set 0 already has these ranks"},
    {{0}, 0, {3}, 1, 1, HVD_ERR_INVALID, "hvd_init_with: sets[0]: ranks[0] is 3; expected 0 to 0"},
    {{0},
     0,
     {0},
     0,
     1,
     HVD_ERR_INVALID,
     "hvd_init_with: sets[0]: the list of ranks has no elements; at least one is needed"},
    {{0}, 0, {0}, 0, -2, HVD_ERR_INVALID, "hvd_init_with: set_count is -2; expected 0 or more"},
};

START_TEST(jobs_start_as_they_are_described)
{
    struct hvd_ranks set = {starts[_i].set, starts[_i].set_ranks};
    struct hvd_start how = {.job = {starts[_i].count != 0 ? starts[_i].ranks : NULL, starts[_i].count},
                            .sets = &set,
                            .set_count = starts[_i].set_count};
    int own = -1;
    enum hvd_status status = hvd_init_with(&how);
    ck_assert_msg(status == starts[_i].status, "status %d: %s", status, hvd_error_text());
    ck_assert_int_eq(hvd_is_initialized(), status == HVD_OK);
    if (status != HVD_OK) {
        ck_assert_str_eq(hvd_error_text(), starts[_i].sentence);
        return;
    }
    ck_assert_int_eq(hvd_size(), 1);
    ck_assert_int_eq(hvd_launcher_ranks(&own, 1), 1);
    ck_assert_int_eq(own, 0);
    end();
}
END_TEST

START_TEST(sets_need_a_list)
{
    struct hvd_start how = {.set_count = 2};
    expect(hvd_init_with(&how), HVD_ERR_INVALID, "hvd_init_with: set_count is 2, but sets is NULL");
}
END_TEST

/* ---- What is wrong ---- */

static enum hvd_status no_set(void)
{
    options.set = 7;
    return hvd_allreduce(&x, HVD_SUM, &options);
}

static enum hvd_status negative_set(void)
{
    options.set = -1;
    return hvd_grouped_allreduce(&x, 1, HVD_SUM, &options);
}

static enum hvd_status no_set_to_join(void)
{
    return hvd_join(3, NULL);
}

static enum hvd_status no_set_to_wait_in(void)
{
    return hvd_barrier_async(3, NULL, NULL, NULL);
}

static enum hvd_status no_set_to_remove(void)
{
    return hvd_set_remove(3);
}

static enum hvd_status all_ranks_removed(void)
{
    return hvd_set_remove(HVD_ALL_RANKS);
}

static enum hvd_status no_room_for_the_set(void)
{
    static const int zero = 0;
    return hvd_set_add(&zero, 1, NULL);
}

static enum hvd_status set_of_nobody(void)
{
    hvd_set set;
    return hvd_set_add(NULL, 0, &set);
}

static enum hvd_status set_beyond(void)
{
    static const int one = 1;
    hvd_set set;
    return hvd_set_add(&one, 1, &set);
}

static enum hvd_status no_room_for_memory(void)
{
    return hvd_alloc(8, NULL);
}

static enum hvd_status no_room_for_memory_on_a_gpu(void)
{
    return hvd_alloc_on(0, 8, NULL);
}

static enum hvd_status memory_beyond(void)
{
    void *address = NULL;
    return hvd_alloc((INT64_C(1) << 47) + 1, &address);
}

static enum hvd_status tensor_beyond(void)
{
    x.shape[0] = (INT64_C(1) << 45) + 1;
    return hvd_allreduce(&x, HVD_SUM, NULL);
}

static enum hvd_status no_answer(void)
{
    return hvd_should_stop(NULL);
}

static enum hvd_status no_folder(void)
{
    return hvd_timeline_start(NULL);
}

static enum hvd_status empty_folder(void)
{
    return hvd_timeline_start("");
}

static enum hvd_status root_beyond(void)
{
    return hvd_broadcast(&x, 1, NULL);
}

static enum hvd_status splits_beyond(void)
{
    static const int64_t splits[] = {9};
    struct hvd_result result = {.data = NULL};
    x.output = NULL;
    return hvd_alltoall(&x, splits, &result, NULL);
}

static enum hvd_status same_name_twice(void)
{
    struct hvd_tensor both[2] = {x, x};
    return hvd_grouped_allreduce(both, 2, HVD_SUM, NULL);
}

static enum hvd_status scaled_by_0(void)
{
    options.postscale = 0;
    return hvd_reducescatter(&x, HVD_SUM, &options);
}

static enum hvd_status gathered_options(void)
{
    struct hvd_result result = {.data = NULL};
    x.output = NULL;
    options.wire = HVD_WIRE_FLOAT16;
    return hvd_grouped_allgather(&x, &result, 1, &options);
}

static enum hvd_status no_handle(void)
{
    return hvd_wait(12345);
}

static const struct {
    enum hvd_status (*call)(void);
    enum hvd_status status;
    const char *sentence; /* how it begins */
} wrong[] = {
    {no_set, HVD_ERR_SET,
     "allreduce \"x\": there is no process set 7; hvd_set_add creates one and returns its number"},
    {negative_set, HVD_ERR_SET,
     "grouped allreduce \"x\": there is no process set -1; hvd_set_add creates one"},
    {no_set_to_join, HVD_ERR_SET, "join: there is no process set 3; hvd_set_add creates one"},
    {no_set_to_wait_in, HVD_ERR_SET, "barrier: there is no process set 3; hvd_set_add creates one"},
    {no_set_to_remove, HVD_ERR_SET, "hvd_set_remove: there is no process set 3"},
    {all_ranks_removed, HVD_ERR_INVALID,
     "hvd_set_remove: HVD_ALL_RANKS (0) cannot be removed; it ends with hvd_shutdown"},
    {no_room_for_the_set, HVD_ERR_INVALID, "hvd_set_add: setp is NULL; pass the address of an hvd_set"},
    {set_of_nobody, HVD_ERR_INVALID,
     "hvd_set_add: the list of ranks has no elements; at least one is needed"},
    {set_beyond, HVD_ERR_INVALID, "hvd_set_add: ranks[0] is 1; expected 0 to 0"},
    {no_room_for_memory, HVD_ERR_INVALID, "hvd_alloc: memoryp is NULL; pass the address of a void *"},
    {no_room_for_memory_on_a_gpu, HVD_ERR_INVALID,
     "hvd_alloc_on: memoryp is NULL; pass the address of a void *"},
    {memory_beyond, HVD_ERR_NO_MEMORY,
     "hvd_alloc: no memory for 140737488355329 bytes; a process can address 2^47"},
    {tensor_beyond, HVD_ERR_INVALID,
     "allreduce \"x\": the tensor would have more than 2^47 bytes, the maximum of one operation"},
    {no_answer, HVD_ERR_INVALID, "hvd_should_stop: stopp is NULL; pass the address of an int"},
    {no_folder, HVD_ERR_INVALID, "hvd_timeline_start: folder is NULL; pass the name of a folder"},
    {empty_folder, HVD_ERR_INVALID, "hvd_timeline_start: folder is \"\"; pass the name of a folder"},
    {root_beyond, HVD_ERR_INVALID, "broadcast \"x\": root is 1; expected a rank from 0 to 0"},
    {splits_beyond, HVD_ERR_INVALID,
     "alltoall \"x\": the sum of the 1 splits is 9, but shape[0] is 8; they must be equal"},
    {same_name_twice, HVD_ERR_DUPLICATE,
     "grouped allreduce \"x\" and 1 more: tensors 0 and 1 are both named \"x\"; give each its own name"},
    {scaled_by_0, HVD_ERR_INVALID,
     "reducescatter \"x\": options.postscale is 0; expected a finite number other than 0"},
    {gathered_options, HVD_ERR_INVALID,
     "grouped allgather \"x\": options.wire is 1, but allgather is always exact"},
    {no_handle, HVD_ERR_INVALID, ""},
};

/* And nothing of it is left: the same name is free, the tensor as it was. */
START_TEST(what_is_wrong_is_said_and_leaves_no_trace)
{
    enum hvd_status status = wrong[_i].call();
    const char *sentence = hvd_error_text();
    ck_assert_msg(status == wrong[_i].status, "status %d: %s", status, sentence);
    ck_assert_msg(strncmp(sentence, wrong[_i].sentence, strlen(wrong[_i].sentence)) == 0, "%s", sentence);
    ck_assert_int_ne(sentence[0], 0);
    for (int i = 0; i < 8; i++)
        ck_assert(memory[i] == (float)(i + 1));
    x = hvd_vector("x", memory, 8, HVD_FLOAT32);
    ck_assert_msg(hvd_allreduce(&x, HVD_SUM, NULL) == HVD_OK, "%s", hvd_error_text());
    ck_assert_int_eq(hvd_set_list(NULL, 0), 1);
}
END_TEST

/* ---- Options of another hvd.h ---- */

/* As long as no hvd.h is now, with what a later one might add. */
union later_options {
    struct hvd_options options;
    char bytes[4104];
};

static enum hvd_status with_bytes(size_t bytes, int later)
{
    static const struct hvd_options plain = HVD_OPTIONS_INIT;
    static union later_options longer;
    memset(&longer, 0, sizeof(longer));
    longer.options = plain;
    longer.options.size = bytes;
    longer.bytes[bytes > 0 && bytes <= sizeof(longer) ? bytes - 1 : 0] += (char)later;
    return hvd_allreduce(&x, HVD_SUM, &longer.options);
}

START_TEST(options_of_an_earlier_header_have_the_defaults_of_what_they_lack)
{
    static const size_t bytes[] = {offsetof(struct hvd_options, set) + sizeof(hvd_set),
                                   offsetof(struct hvd_options, prescale),
                                   offsetof(struct hvd_options, postscale),
                                   offsetof(struct hvd_options, wire),
                                   offsetof(struct hvd_options, wire) + sizeof(enum hvd_wire),
                                   offsetof(struct hvd_options, stream)};
    const struct hvd_options wrong_rest = {bytes[_i], HVD_ALL_RANKS, 0, 0, (enum hvd_wire)77, &x};
    options = wrong_rest;
    if (bytes[_i] > offsetof(struct hvd_options, prescale))
        options.prescale = 2;
    if (bytes[_i] > offsetof(struct hvd_options, postscale))
        options.postscale = 4;
    if (bytes[_i] > offsetof(struct hvd_options, wire))
        options.wire = HVD_WIRE_EXACT;
    float expected = memory[7] * (_i < 2 ? 1 : _i < 3 ? 2 : 8);
    ck_assert_msg(hvd_allreduce(&x, HVD_SUM, &options) == HVD_OK, "%s", hvd_error_text());
    ck_assert(memory[7] == expected);
}
END_TEST

START_TEST(options_of_a_later_header_are_refused_only_for_what_is_unknown)
{
    const size_t own = sizeof(struct hvd_options);
    for (int i = 0; i < 2; i++) { /* the second time the operation is known */
        ck_assert_int_eq(with_bytes(own + 1, 0), HVD_OK);
        ck_assert_int_eq(with_bytes(own + 64, 0), HVD_OK);
        ck_assert_int_eq(with_bytes(4096, 0), HVD_OK);
        ck_assert_int_eq(with_bytes(own + 1, 1), HVD_ERR_INVALID);
        ck_assert_int_eq(with_bytes(own + 64, -1), HVD_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(hvd_error_text(),
                                     "allreduce \"x\": options has 112 bytes, and sets an option at "
                                     "byte 111 that this library"));
        ck_assert_int_eq(with_bytes(4096, 1), HVD_ERR_INVALID);
    }
}
END_TEST

START_TEST(options_have_a_size)
{
    static const size_t bytes[] = {0, 1, 8, 11, 17, 25, 33, 44, 47, 4097, (size_t)-1};
    ck_assert_int_eq(with_bytes(bytes[_i], 0), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_error_text(), "allreduce \"x\": options.size is "));
    ck_assert_ptr_nonnull(strstr(hvd_error_text(), "which is 48 in the hvd.h of this library"));
    ck_assert_int_eq(hvd_allreduce(&x, HVD_SUM, NULL), HVD_OK);
}
END_TEST

/* ---- What is right: in a job of one rank every result is the input ---- */

START_TEST(the_only_rank_gets_its_own)
{
    int64_t rows = -1;
    int last = -1, stop = 5, set = 5;
    float output[8] = {0};
    struct hvd_result result = {.rows = &rows};
    struct hvd_tensor apart = {"apart", memory, output, HVD_FLOAT32, 2, {4, 2}, HVD_MEMORY_ANY, 0};
    options.prescale = 4;
    options.postscale = 0.5;
    ck_assert_int_eq(hvd_reducescatter(&apart, HVD_MAX, &options), HVD_OK);
    ck_assert(output[7] == 16);
    ck_assert_int_eq(hvd_broadcast(&apart, 0, NULL), HVD_OK);
    ck_assert(output[7] == 8);
    apart.output = NULL;
    ck_assert_int_eq(hvd_allgather(&apart, &result, NULL), HVD_OK);
    ck_assert_int_eq(result.row_count, 4);
    ck_assert_int_eq(rows, 4);
    ck_assert_mem_eq(result.data, memory, sizeof(memory));
    free(result.data);
    result.data = NULL;
    ck_assert_int_eq(hvd_alltoall(&apart, (const int64_t[]){4}, &result, NULL), HVD_OK);
    ck_assert_mem_eq(result.data, memory, sizeof(memory));
    free(result.data);
    ck_assert_int_eq(hvd_barrier(HVD_ALL_RANKS), HVD_OK);
    ck_assert_int_eq(hvd_join(HVD_ALL_RANKS, &last), HVD_OK);
    ck_assert_int_eq(last, 0);
    ck_assert_int_eq(hvd_should_stop(&stop), HVD_OK);
    ck_assert_int_eq(stop, 0);
    hvd_request_stop();
    ck_assert_int_eq(hvd_should_stop(&stop), HVD_OK);
    ck_assert_int_eq(stop, 1);
    ck_assert_int_eq(hvd_set_add((const int[]){0}, 1, &set), HVD_ERR_DUPLICATE);
    ck_assert_int_eq(set, HVD_ALL_RANKS);
    ck_assert_int_eq(hvd_set_add_by_members((const int[]){0}, 1, &set), HVD_ERR_DUPLICATE);
    ck_assert_int_eq(set, HVD_ALL_RANKS);
    ck_assert_int_eq(hvd_set_rank(0), 0);
    ck_assert_int_eq(hvd_set_size(0), 1);
    ck_assert_int_eq(hvd_set_size(1), -1);
}
END_TEST

/* A training step repeats its operations by name: the earlier requests are used again, or freed where the
 * group has become another one. */
START_TEST(repeated_operations_keep_no_memory)
{
    enum { REPETITIONS = 2000 };
    struct hvd_tensor group[2] = {x, hvd_vector("y", memory + 4, 4, HVD_FLOAT32)};
    size_t before = 0;
    group[0].shape[0] = 4;
    for (int i = 0; i < 2 * REPETITIONS; i++) {
        int count = _i == 0 ? 2 : 1 + i % 2;
        ck_assert_msg(hvd_grouped_allreduce(group, count, HVD_SUM, NULL) == HVD_OK, "%s", hvd_error_text());
        if (i == REPETITIONS)
            before = allocated_bytes();
    }
    ck_assert_uint_lt(allocated_bytes(), before + 8 * REPETITIONS);
}
END_TEST

/* ---- Callbacks, words ---- */

struct seen {
    enum hvd_status wait, barrier, add, stop, shutdown, init, inner;
    enum hvd_status status;
    char sentence[200];
};

static void call_everything(enum hvd_status status, void *arg)
{
    struct seen *seen = arg;
    int number = 0;
    seen->status = status;
    seen->wait = hvd_wait(1);
    seen->barrier = hvd_barrier(HVD_ALL_RANKS);
    snprintf(seen->sentence, sizeof(seen->sentence), "%s", hvd_error_text());
    seen->add = hvd_set_add(&number, 1, &number);
    seen->stop = hvd_should_stop(&number);
    seen->shutdown = hvd_shutdown();
    seen->init = hvd_init();
    seen->inner = hvd_barrier_async(HVD_ALL_RANKS, NULL, NULL, NULL);
}

START_TEST(callbacks_may_submit_but_not_wait)
{
    struct seen seen = {.status = HVD_IN_PROGRESS};
    hvd_handle handle = 0;
    ck_assert_int_eq(hvd_allreduce_async(&x, HVD_SUM, NULL, call_everything, &seen, &handle), HVD_OK);
    ck_assert_int_eq(hvd_wait(handle), HVD_OK);
    ck_assert_int_eq(seen.status, HVD_OK);
    ck_assert_int_eq(seen.wait, HVD_ERR_STATE);
    ck_assert_int_eq(seen.barrier, HVD_ERR_STATE);
    ck_assert_str_eq(seen.sentence,
                     "a call without _async waits, and must not be called inside a callback, in "
                     "which no operation makes progress; call it outside the callback");
    ck_assert_int_eq(seen.add, HVD_ERR_STATE);
    ck_assert_int_eq(seen.stop, HVD_ERR_STATE);
    ck_assert_int_eq(seen.shutdown, HVD_ERR_STATE);
    ck_assert_int_eq(seen.init, HVD_ERR_STATE);
    ck_assert_int_eq(seen.inner, HVD_OK);
}
END_TEST

static void *say_something(void *arg)
{
    ck_assert_str_eq(hvd_error_text(), "");
    *(enum hvd_status *)arg = hvd_error_set(HVD_ERR_SYSTEM, "of another thread");
    return NULL;
}

START_TEST(sentences_belong_to_threads)
{
    pthread_t thread;
    enum hvd_status other = HVD_OK;
    char long_text[2000];
    memset(long_text, 'y', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = 0;
    ck_assert_int_eq(hvd_error_set(HVD_ERR_TIMEOUT, "100% of this thread"), HVD_ERR_TIMEOUT);
    ck_assert_int_eq(pthread_create(&thread, NULL, say_something, &other), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(other, HVD_ERR_SYSTEM);
    ck_assert_str_eq(hvd_error_text(), "100% of this thread");
    ck_assert_int_eq(hvd_error_set(HVD_ERR_SYSTEM, long_text), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(hvd_error_text(), "yyy..."));
}
END_TEST

/* A start tries several things, such as launchers, of which some fail. */
START_TEST(what_succeeds_leaves_the_sentence_as_it_is)
{
    ck_assert_int_eq(hvd_init(), HVD_OK);
    ck_assert_str_eq(hvd_error_text(), "");
    end();
    ck_assert_str_eq(hvd_error_text(), "");
    hvd_error_set(HVD_ERR_SYSTEM, "an earlier error");
    ck_assert_int_eq(hvd_init(), HVD_OK);
    ck_assert_int_eq(hvd_allreduce(&x, HVD_SUM, NULL), HVD_OK);
    end();
    ck_assert_str_eq(hvd_error_text(), "an earlier error");
}
END_TEST

START_TEST(a_sentence_may_be_set_to_itself)
{
    hvd_error_set(HVD_ERR_SYSTEM, "rank 1: a sentence");
    ck_assert_int_eq(hvd_error_set(HVD_ERR_STATE, hvd_error_text()), HVD_ERR_STATE);
    ck_assert_str_eq(hvd_error_text(), "rank 1: a sentence");
    hvd_error_set(HVD_ERR_STATE, hvd_error_text() + strlen("rank 1: "));
    ck_assert_str_eq(hvd_error_text(), "a sentence");
    ck_assert_int_eq(hvd_error_set(HVD_ERR_TIMEOUT, NULL), HVD_ERR_TIMEOUT);
    ck_assert_str_eq(hvd_error_text(), "");
}
END_TEST

START_TEST(every_status_has_words)
{
    for (int status = HVD_ERR_SET; status <= HVD_NEW_RANKS; status++)
        ck_assert_str_ne(hvd_status_text((enum hvd_status)status), hvd_status_text((enum hvd_status)99));
}
END_TEST

START_TEST(shares_are_all_rows)
{
    for (int size = 1; size < 9; size++) {
        int64_t sum = 0;
        for (int member = 0; member < size; member++) {
            int64_t rows = hvd_share_rows(_i, member, size);
            ck_assert_int_eq(rows, _i / size + (member < _i % size ? 1 : 0));
            sum += rows;
        }
        ck_assert_int_eq(sum, _i);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *outside = tcase_create("start");
    tcase_add_checked_fixture(outside, begin, NULL);
    tcase_add_test(outside, nothing_works_before_the_start_and_after_the_end);
    tcase_add_loop_test(outside, jobs_start_as_they_are_described, 0, sizeof(starts) / sizeof(starts[0]));
    tcase_add_test(outside, a_stop_request_ends_with_its_job);
    tcase_add_test(outside, sets_need_a_list);
    tcase_add_test(outside, sentences_belong_to_threads);
    tcase_add_test(outside, what_succeeds_leaves_the_sentence_as_it_is);
    tcase_add_test(outside, a_sentence_may_be_set_to_itself);
    tcase_add_test(outside, every_status_has_words);
    tcase_add_loop_test(outside, shares_are_all_rows, 0, 20);
    suite_add_tcase(suite, outside);
    TCase *inside = tcase_create("calls");
    tcase_add_checked_fixture(inside, start, end);
    tcase_add_loop_test(inside, what_is_wrong_is_said_and_leaves_no_trace, 0,
                        sizeof(wrong) / sizeof(wrong[0]));
    tcase_add_loop_test(inside, options_of_an_earlier_header_have_the_defaults_of_what_they_lack, 0, 6);
    tcase_add_test(inside, options_of_a_later_header_are_refused_only_for_what_is_unknown);
    tcase_add_loop_test(inside, options_have_a_size, 0, 11);
    tcase_add_test(inside, the_only_rank_gets_its_own);
    tcase_add_loop_test(inside, repeated_operations_keep_no_memory, 0, 2);
    tcase_add_test(inside, callbacks_may_submit_but_not_wait);
    suite_add_tcase(suite, inside);
}

int main(void)
{
    return unit_run("api", fill);
}
