/* refusals.c: every call that takes tensors is refused for every reason, and is then made rightly: `refusals
 * CASE`, run by every rank of a job. Exits 0 if each refusal had its status and a sentence, and left nothing.
 */
#include <math.h>
#include <stdint.h>

#include "ranks.h"

#define ROWS 4 /* of each tensor, for each rank */

/* The arguments of one call, right until a reason spoils them. */
struct attempt {
    const char *name;
    struct hvd_tensor *tensors;
    int count;
    enum hvd_op op;
    int root;
    struct hvd_options *options;
    const int64_t *splits;
    struct hvd_result *results;
    /* what these point to */
    struct hvd_tensor tensor[2];
    struct hvd_options option;
    struct hvd_result result[2];
};

/* What a call has, for the reasons that can concern it. */
enum trait {
    WAITS = 1,
    REDUCES = 2,
    RESULTS = 4,
    SPLITS = 8,
    ROOT = 16,
    GROUP = 32,
    ADASUM = 64,
    PLAIN = 128, /* scales nothing, and has no wire type */
};

struct call {
    const char *name;
    unsigned traits;
    enum hvd_status (*make)(const struct attempt *attempt, hvd_handle *handlep);
};

static float ones[2][64 * ROWS], sums[2][64 * ROWS];

/* ---- The calls ---------------------------------------------------------------------------------- */

#define CALL(name, ...)                                                       \
    static enum hvd_status name(const struct attempt *a, hvd_handle *handlep) \
    {                                                                         \
        (void)handlep;                                                        \
        return hvd_##name(a->tensors, __VA_ARGS__);                           \
    }

CALL(allreduce, a->op, a->options)
CALL(allreduce_async, a->op, a->options, NULL, NULL, handlep)
CALL(grouped_allreduce, a->count, a->op, a->options)
CALL(grouped_allreduce_async, a->count, a->op, a->options, NULL, NULL, handlep)
CALL(broadcast, a->root, a->options)
CALL(broadcast_async, a->root, a->options, NULL, NULL, handlep)
CALL(allgather, a->results, a->options)
CALL(allgather_async, a->results, a->options, NULL, NULL, handlep)
CALL(grouped_allgather, a->results, a->count, a->options)
CALL(grouped_allgather_async, a->results, a->count, a->options, NULL, NULL, handlep)
CALL(alltoall, a->splits, a->results, a->options)
CALL(alltoall_async, a->splits, a->results, a->options, NULL, NULL, handlep)
CALL(reducescatter, a->op, a->options)
CALL(reducescatter_async, a->op, a->options, NULL, NULL, handlep)
CALL(grouped_reducescatter, a->count, a->op, a->options)
CALL(grouped_reducescatter_async, a->count, a->op, a->options, NULL, NULL, handlep)

static const struct call calls[] = {
    {"allreduce", WAITS | REDUCES | ADASUM, allreduce},
    {"allreduce_async", REDUCES | ADASUM, allreduce_async},
    {"grouped_allreduce", WAITS | REDUCES | ADASUM | GROUP, grouped_allreduce},
    {"grouped_allreduce_async", REDUCES | ADASUM | GROUP, grouped_allreduce_async},
    {"broadcast", WAITS | ROOT | PLAIN, broadcast},
    {"broadcast_async", ROOT | PLAIN, broadcast_async},
    {"allgather", WAITS | RESULTS | PLAIN, allgather},
    {"allgather_async", RESULTS | PLAIN, allgather_async},
    {"grouped_allgather", WAITS | RESULTS | GROUP | PLAIN, grouped_allgather},
    {"grouped_allgather_async", RESULTS | GROUP | PLAIN, grouped_allgather_async},
    {"alltoall", WAITS | RESULTS | SPLITS | PLAIN, alltoall},
    {"alltoall_async", RESULTS | SPLITS | PLAIN, alltoall_async},
    {"reducescatter", WAITS | REDUCES, reducescatter},
    {"reducescatter_async", REDUCES, reducescatter_async},
    {"grouped_reducescatter", WAITS | REDUCES | GROUP, grouped_reducescatter},
    {"grouped_reducescatter_async", REDUCES | GROUP, grouped_reducescatter_async},
};
#define CALL_COUNT (int)(sizeof(calls) / sizeof(calls[0]))

/* ---- The reasons -------------------------------------------------------------------------------- */

static hvd_set removed_set, own_set; /* own_set: of rank 0 alone */
static char long_name[HVD_MAX_NAME + 2];
static int64_t splits[64];

#define REASON(name, ...)               \
    static void name(struct attempt *a) \
    {                                   \
        __VA_ARGS__;                    \
    }

REASON(unknown_set, a->option.set = 77)
REASON(negative_set, a->option.set = -1)
REASON(set_that_was_removed, a->option.set = removed_set)
REASON(no_size, a->option.size = 0)
REASON(no_tensors, a->tensors = NULL)
REASON(no_name, a->tensor[0].name = NULL)
REASON(empty_name, a->tensor[0].name = "")
REASON(name_too_long, a->tensor[0].name = long_name)
REASON(control_in_name, a->tensor[0].name = "a\nb")
REASON(unknown_type, a->tensor[0].dtype = (enum hvd_dtype)99)
REASON(too_many_dimensions, a->tensor[0].ndim = HVD_MAX_DIMS + 1)
REASON(negative_dimension, a->tensor[0].shape[0] = -1)
REASON(overflowing, a->tensor[0].shape[0] = INT64_MAX)
REASON(too_large, a->tensor[0].shape[0] = (INT64_C(1) << 45) + 1)
REASON(no_input, a->tensor[0].input = NULL)
REASON(unknown_memory, a->tensor[0].memory = (enum hvd_memory)9)
REASON(negative_device, a->tensor[0].memory = HVD_MEMORY_DEVICE; a->tensor[0].device = -1)
REASON(partial_overlap, a->tensor[0].output = &ones[0][1])
REASON(unknown_op, a->op = (enum hvd_op)99)
REASON(adasum, a->op = HVD_ADASUM)
REASON(prescale_0, a->option.prescale = 0)
REASON(infinite_postscale, a->option.postscale = (double)INFINITY)
REASON(unknown_wire, a->option.wire = (enum hvd_wire)9)
REASON(scalar, a->tensor[0].ndim = 0)
REASON(root_beyond, a->root = size)
REASON(no_results, a->results = NULL)
REASON(output_given, a->tensor[0].output = sums[0])
REASON(splits_that_differ, splits[0]++; a->splits = splits)
REASON(empty_group, a->count = 0)
REASON(group_too_large, a->count = HVD_MAX_GROUP + 1)
REASON(bad_second, a->tensor[1].ndim = -1)
REASON(name_twice, a->tensor[1].name = a->tensor[0].name)

static const struct reason {
    const char *name;
    void (*spoil)(struct attempt *attempt);
    unsigned needs, excludes; /* traits */
    enum hvd_status status;
} reasons[] = {
    {"a set that there is not", unknown_set, 0, 0, HVD_ERR_SET},
    {"a negative set", negative_set, 0, 0, HVD_ERR_SET},
    {"a set that was removed", set_that_was_removed, 0, 0, HVD_ERR_SET},
    {"options without a size", no_size, 0, 0, HVD_ERR_INVALID},
    {"no tensors", no_tensors, 0, 0, HVD_ERR_INVALID},
    {"no name", no_name, 0, 0, HVD_ERR_INVALID},
    {"an empty name", empty_name, 0, 0, HVD_ERR_INVALID},
    {"a long name", name_too_long, 0, 0, HVD_ERR_INVALID},
    {"a control character", control_in_name, 0, 0, HVD_ERR_INVALID},
    {"an unknown type", unknown_type, 0, 0, HVD_ERR_INVALID},
    {"nine dimensions", too_many_dimensions, 0, 0, HVD_ERR_INVALID},
    {"a negative dimension", negative_dimension, 0, 0, HVD_ERR_INVALID},
    {"2^63 elements", overflowing, 0, 0, HVD_ERR_INVALID},
    {"more than 2^47 bytes", too_large, 0, 0, HVD_ERR_INVALID},
    {"no input", no_input, 0, ROOT, HVD_ERR_INVALID},
    {"an unknown memory", unknown_memory, 0, 0, HVD_ERR_INVALID},
    {"a negative device", negative_device, 0, 0, HVD_ERR_INVALID},
    {"a partial overlap", partial_overlap, REDUCES, 0, HVD_ERR_INVALID},
    {"an unknown op", unknown_op, REDUCES, 0, HVD_ERR_INVALID},
    {"an Adasum of shares", adasum, REDUCES, ADASUM, HVD_ERR_INVALID},
    {"a factor of 0", prescale_0, 0, 0, HVD_ERR_INVALID},
    {"an infinite factor", infinite_postscale, 0, 0, HVD_ERR_INVALID},
    {"an unknown wire type", unknown_wire, 0, 0, HVD_ERR_INVALID},
    {"a scalar", scalar, 0, ROOT | ADASUM, HVD_ERR_INVALID},
    {"a root beyond the job", root_beyond, ROOT, 0, HVD_ERR_INVALID},
    {"no results", no_results, RESULTS, 0, HVD_ERR_INVALID},
    {"an output beside the result", output_given, RESULTS, 0, HVD_ERR_INVALID},
    {"splits of other rows", splits_that_differ, SPLITS, 0, HVD_ERR_INVALID},
    {"an empty group", empty_group, GROUP, 0, HVD_ERR_INVALID},
    {"a group of 16385", group_too_large, GROUP, 0, HVD_ERR_INVALID},
    {"a bad second tensor", bad_second, GROUP, 0, HVD_ERR_INVALID},
    {"a name twice", name_twice, GROUP, 0, HVD_ERR_DUPLICATE},
};
#define REASON_COUNT (int)(sizeof(reasons) / sizeof(reasons[0]))

static bool concerns(const struct reason *reason, const struct call *call)
{
    return (call->traits & reason->needs) == reason->needs && (call->traits & reason->excludes) == 0;
}

/* ---- Right and wrong calls ---------------------------------------------------------------------- */

static void prepare(const struct call *call, struct attempt *attempt)
{
    static const struct hvd_options plain = HVD_OPTIONS_INIT;
    static char second[64];
    snprintf(second, sizeof(second), "%s.2", call->name);
    *attempt = (struct attempt){.name = call->name, .count = 2, .op = HVD_SUM, .option = plain};
    for (int i = 0; i < 2; i++)
        attempt->tensor[i] = (struct hvd_tensor){
            i == 0 ? call->name : second, ones[i], sums[i], HVD_FLOAT32, 1, {ROWS * size}, HVD_MEMORY_ANY, 0};
    for (int i = 0; i < 2 && (call->traits & RESULTS) != 0; i++)
        attempt->tensor[i].output = NULL;
    for (int i = 0; i < size; i++)
        splits[i] = ROWS;
    attempt->tensors = attempt->tensor;
    attempt->options = &attempt->option;
    attempt->results = attempt->result;
    memset(sums, 0, sizeof(sums));
}

static void check_result(const struct call *call, const struct attempt *attempt)
{
    bool results = (call->traits & RESULTS) != 0;
    for (int i = 0; i < ((call->traits & GROUP) != 0 ? 2 : 1); i++) {
        const float *data = results ? attempt->result[i].data : sums[i];
        float expected = (call->traits & REDUCES) != 0 ? (float)size : 1;
        if (data[0] != expected || data[ROWS - 1] != expected)
            ranks_fail("%s: %g and %g, expected %g", call->name, (double)data[0], (double)data[ROWS - 1],
                       (double)expected);
        free(attempt->result[i].data);
    }
}

/* The call succeeds, and its success leaves the sentence of the last error as it was. */
static void succeed(const struct call *call)
{
    struct attempt attempt;
    hvd_handle handle = 0;
    prepare(call, &attempt);
    hvd_error_set(HVD_OK, "as before");
    must(call->make(&attempt, &handle), call->name);
    if ((call->traits & WAITS) == 0)
        must(hvd_wait(handle), call->name);
    if (strcmp(hvd_error_text(), "as before") != 0)
        ranks_fail("%s succeeded, and says \"%s\"", call->name, hvd_error_text());
    check_result(call, &attempt);
}

/* The prepared call is refused with [status], and a sentence that names the call's kind. */
static void be_refused(const struct call *call, const struct attempt *attempt, const char *why,
                       enum hvd_status expected)
{
    hvd_handle handle = 99;
    char what[200];
    snprintf(what, sizeof(what), "%s, %s", call->name, why);
    hvd_error_set(HVD_OK, "");
    enum hvd_status status = call->make(attempt, &handle);
    if (status != expected || handle != 99 || strlen(hvd_error_text()) < 20)
        ranks_fail("%s: status %d (%s), expected %d; the handle is %llu", what, status, hvd_error_text(),
                   expected, (unsigned long long)handle);
    for (int i = 0; i < 2; i++)
        if (attempt->result[i].data != NULL || sums[i][0] != 0)
            ranks_fail("%s: was refused, and has a result", what);
}

/* Give memory that was freed other contents. */
static void reuse_memory(void)
{
    void *blocks[64];
    for (size_t i = 0; i < 64; i++) {
        blocks[i] = malloc(300 + 24 * i);
        memset(blocks[i], 0x5a, 300 + 24 * i);
    }
    for (size_t i = 0; i < 64; i++)
        free(blocks[i]);
}

static void case_arguments(void)
{
    for (int i = 0; i < CALL_COUNT; i++) {
        for (int k = 0; k < REASON_COUNT; k++) {
            struct attempt attempt;
            if (!concerns(&reasons[k], &calls[i]))
                continue;
            succeed(&calls[i]);
            prepare(&calls[i], &attempt);
            reasons[k].spoil(&attempt);
            be_refused(&calls[i], &attempt, reasons[k].name, reasons[k].status);
            reuse_memory();
            succeed(&calls[i]);
        }
    }
}

/* Only rank 0 is a member. */
static void case_member(void)
{
    for (int i = 0; i < CALL_COUNT && size > 1; i++) {
        struct attempt attempt;
        succeed(&calls[i]);
        prepare(&calls[i], &attempt);
        attempt.option.set = own_set;
        if (rank > 0)
            be_refused(&calls[i], &attempt, "not a member", HVD_ERR_SET);
        reuse_memory();
        succeed(&calls[i]);
    }
}

/* ---- In flight ---------------------------------------------------------------------------------- */

/* The last rank submits an operation later than the others, which try the call by its name until then. */
static void case_flying(void)
{
    for (int i = 0; i < CALL_COUNT && size > 1; i++) {
        struct attempt attempt;
        hvd_handle handle = 0;
        succeed(&calls[i]);
        struct hvd_tensor flying = hvd_vector(calls[i].name, sums[0], 1, HVD_FLOAT32);
        prepare(&calls[i], &attempt);
        if (!odd) {
            must(hvd_allreduce_async(&flying, HVD_SUM, NULL, NULL, NULL, &handle),
                 "an operation of that name");
            be_refused(&calls[i], &attempt, "in flight", HVD_ERR_DUPLICATE);
        }
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
        if (odd)
            must(hvd_allreduce(&flying, HVD_SUM, NULL), "an operation of that name");
        else
            must(hvd_wait(handle), "an operation of that name");
        reuse_memory();
        succeed(&calls[i]);
    }
}

/* ---- In a callback ------------------------------------------------------------------------------ */

struct inside {
    const struct call *call;
    hvd_handle flying; /* 0: there is none */
};

/* Make the call in a callback, where what waits is refused; what does not is refused while its name is in
 * flight. */
static void call_inside(enum hvd_status status, void *arg)
{
    struct inside *inside = arg;
    const struct call *call = inside->call;
    struct attempt attempt;
    must(status, "the operation with a callback");
    prepare(call, &attempt);
    if ((call->traits & WAITS) != 0) {
        be_refused(call, &attempt, "in a callback", HVD_ERR_STATE);
        must_say("inside a callback", call->name);
        return;
    }
    struct hvd_tensor flying = hvd_vector(call->name, ones[1], 1, HVD_FLOAT32);
    must(hvd_broadcast_async(&flying, 0, NULL, NULL, NULL, &inside->flying), "in a callback");
    be_refused(call, &attempt, "in flight, in a callback", HVD_ERR_DUPLICATE);
}

/* Calls without tensors that wait. */
static void wait_inside(enum hvd_status status, void *arg)
{
    int answer = 5;
    hvd_set set = 5;
    hvd_persistent persistent = 5;
    struct hvd_tensor tensor = hvd_vector("inside", ones[1], 1, HVD_FLOAT32);
    must(status, "the operation with a callback");
    must_be(hvd_barrier(HVD_ALL_RANKS), HVD_ERR_STATE, "hvd_barrier");
    must_be(hvd_join(HVD_ALL_RANKS, &answer), HVD_ERR_STATE, "hvd_join");
    must_be(hvd_should_stop(&answer), HVD_ERR_STATE, "hvd_should_stop");
    must_be(hvd_set_add(&answer, 1, &set), HVD_ERR_STATE, "hvd_set_add");
    must_be(hvd_set_remove(1), HVD_ERR_STATE, "hvd_set_remove");
    must_be(hvd_wait(*(hvd_handle *)arg), HVD_ERR_STATE, "hvd_wait");
    must_be(hvd_wait_on_stream(*(hvd_handle *)arg, NULL), HVD_ERR_STATE, "hvd_wait_on_stream");
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &persistent), HVD_ERR_STATE, "hvd_allreduce_init");
    must_be(hvd_broadcast_init(&tensor, 0, NULL, &persistent), HVD_ERR_STATE, "hvd_broadcast_init");
    must_be(hvd_persistent_start(1, NULL), HVD_ERR_STATE, "hvd_persistent_start");
    must_be(hvd_init(), HVD_ERR_STATE, "hvd_init");
    must_be(hvd_shutdown(), HVD_ERR_STATE, "hvd_shutdown");
    if (answer != 5 || set != 5 || persistent != 5)
        ranks_fail("a refused call wrote %d, %d, %d", answer, set, (int)persistent);
}

static void with_callback(hvd_done_f done, void *arg)
{
    hvd_handle handle = 0;
    struct hvd_tensor tensor = hvd_vector("with a callback", sums[1], 4, HVD_FLOAT32);
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, done, arg, &handle), "the operation with a callback");
    must(hvd_wait(handle), "the operation with a callback");
}

static void case_callback(void)
{
    hvd_handle other = 0;
    int answer = 0;
    struct hvd_tensor tensor = hvd_vector("other", ones[0], 4, HVD_FLOAT32);
    for (int i = 0; i < CALL_COUNT; i++) {
        struct inside inside = {&calls[i], 0};
        succeed(&calls[i]);
        with_callback(call_inside, &inside);
        if (inside.flying != 0)
            must(hvd_wait(inside.flying), "what the callback submitted");
        reuse_memory();
        succeed(&calls[i]);
    }
    must(hvd_broadcast_async(&tensor, 0, NULL, NULL, NULL, &other), "another operation");
    with_callback(wait_inside, &other);
    must(hvd_wait(other), "another operation");
    must(hvd_should_stop(&answer), "hvd_should_stop");
    must(hvd_join(HVD_ALL_RANKS, &answer), "hvd_join");
}

/* ---- Outside a job ------------------------------------------------------------------------------ */

static void refuse_all(const char *when)
{
    for (int i = 0; i < CALL_COUNT; i++) {
        struct attempt attempt;
        prepare(&calls[i], &attempt);
        be_refused(&calls[i], &attempt, when, HVD_ERR_STATE);
    }
}

static void case_outside(void)
{
    size = 1;
    refuse_all("before hvd_init");
    for (int job = 0; job < 2; job++) {
        must(hvd_init(), "hvd_init");
        ranks_know();
        for (int i = 0; i < CALL_COUNT; i++)
            succeed(&calls[i]);
        must(hvd_barrier(HVD_ALL_RANKS), "the end");
        must(hvd_shutdown(), "hvd_shutdown");
        refuse_all("after hvd_shutdown");
    }
}

/* ---- All ---------------------------------------------------------------------------------------- */

static void case_inside(void)
{
    const int first = 0;
    own_set = HVD_ALL_RANKS;
    if (size > 1) {
        must(hvd_set_add(&first, 1, &removed_set), "hvd_set_add");
        must(hvd_set_remove(removed_set), "hvd_set_remove");
        must(hvd_set_add(&first, 1, &own_set), "hvd_set_add");
    } else {
        removed_set = 1;
    }
    case_arguments();
    case_member();
    case_flying();
    case_callback();
}

static const struct ranks_case cases[] = {
    {"inside", case_inside, false},
    {"outside", case_outside, true},
};

int main(int argc, char **argv)
{
    memset(long_name, 'n', sizeof(long_name) - 1);
    for (int i = 0; i < 64 * ROWS; i++)
        ones[0][i] = ones[1][i] = 1;
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
