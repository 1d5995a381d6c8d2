/* random_api.c: calls of the whole public interface, chosen by a seed: `random_api SEED [STEPS]`. Right ones
 * must give the right result; wrong ones must be refused with a sentence, and leave nothing behind. */
#include <limits.h>
#include <math.h>
#include <sched.h>

#include "ranks.h"

/* All ranks draw the same numbers, so their collective calls fit together. */
static uint64_t random_state;
static int step_count; /* for messages */

static unsigned draw(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 32) % below;
}

enum { ELEMENTS = 600, GROUP = 3, SETS = 8 };

/* The sets that exist, and their members. */
static hvd_set sets[SETS];
static int set_count;

/* ---- Tensors ---- */

static int32_t inputs[GROUP][ELEMENTS], outputs[GROUP][ELEMENTS];
static const char *const names[] = {"a", "b", "c", "layer.0/weight", "x y", "%s%n"};
static char long_name[HVD_MAX_NAME + 2];

/* What rank [member] has at place [i] of its tensor number [which]. */
static int32_t value_of(int member, int which, int64_t i)
{
    return (int32_t)(i % 13) + 7 * which + 100 * member + 1;
}

static struct hvd_tensor make_tensor(int which, int64_t rows)
{
    struct hvd_tensor tensor = {names[(draw(2) + 2 * (unsigned)which) % 6],
                                inputs[which],
                                outputs[which],
                                HVD_INT32,
                                2,
                                {rows, 3},
                                HVD_MEMORY_ANY,
                                0};
    for (int i = 0; i < ELEMENTS; i++) {
        inputs[which][i] = value_of(rank, which, i);
        outputs[which][i] = -1;
    }
    if (draw(3) == 0)
        tensor.output = inputs[which];
    return tensor;
}

static void expect(int64_t got, int64_t right, const char *what, int64_t at)
{
    if (got != right)
        ranks_fail("step %d: %s: %lld at %lld, expected %lld", step_count, what, (long long)got,
                   (long long)at, (long long)right);
}

/* ---- Refusals ---- */

static void refused(enum hvd_status status, const char *what)
{
    if (status >= HVD_OK)
        ranks_fail("step %d: %s: status %d, expected an error", step_count, what, status);
    if (strlen(hvd_error_text()) < 12)
        ranks_fail("step %d: %s: status %d with the sentence \"%s\"", step_count, what, status,
                   hvd_error_text());
}

/* Spoil one thing about a tensor of which hvd must not take anything. */
static void spoil_tensor(struct hvd_tensor *tensor, bool has_output)
{
    static const char *const bad_names[] = {"", "\001join", "\001barrier"}; /* those of hvd's own */
    switch (draw(has_output ? 9 : 7)) {
    case 0:
        tensor->name = NULL;
        break;
    case 1:
        tensor->name = draw(2) ? bad_names[0] : long_name;
        break;
    case 2:
        tensor->dtype = (enum hvd_dtype)(draw(2) ? -1 : 13 + (int)draw(100));
        break;
    case 3:
        tensor->ndim = draw(2) ? -1 : HVD_MAX_DIMS + 1;
        break;
    case 4:
        tensor->shape[draw(2)] = -1 - (int64_t)draw(5);
        break;
    case 5:
        tensor->shape[0] = INT64_MAX / (int64_t)(1 + draw(3));
        break;
    case 6:
        tensor->memory = (enum hvd_memory)(draw(2) ? -1 : 4 + (int)draw(9));
        break;
    case 7:
        tensor->output = (char *)(uintptr_t)tensor->input + 4;
        break;
    default:
        tensor->output = NULL;
    }
}

/* Or about the options. */
static void spoil_options(struct hvd_options *options)
{
    static const double factors[] = {0, INFINITY, -INFINITY, NAN};
    switch (draw(5)) {
    case 0:
        options->size = draw(8);
        break;
    case 1:
        options->set = draw(2) ? -1 - (int)draw(9) : 100000 + (int)draw(9);
        break;
    case 2:
        options->prescale = factors[draw(4)];
        break;
    case 3:
        options->postscale = factors[draw(4)];
        break;
    default:
        options->wire = (enum hvd_wire)(draw(2) ? -1 : 3 + (int)draw(9));
    }
}

/* ---- Collectives that are right ---- */

/* One of the ways to call an operation, and to wait for it. */
enum form { PLAIN, WITH_HANDLE, WITH_CALLBACK, WITH_BOTH, FORMS };

struct call {
    enum form form;
    struct hvd_options options;
    int set; /* its index */
    hvd_handle handle;
    int members[64], member_count;
};

static int done_count;
static void (*in_callback)(void);

static void on_done(enum hvd_status status, void *arg)
{
    must(status, "a callback's status");
    if (in_callback != NULL)
        in_callback();
    *(volatile int *)arg = 1;
    done_count++;
}

/* Options of a random set that this rank is a member of; false: it is in another. All ranks draw the same. */
static bool choose_set(struct call *call)
{
    *call = (struct call){
        .form = (enum form)draw(FORMS), .options = HVD_OPTIONS_INIT, .set = (int)draw((unsigned)set_count)};
    call->options.set = sets[call->set];
    call->member_count = hvd_set_ranks(call->options.set, call->members, 64);
    return hvd_set_rank(call->options.set) >= 0;
}

static hvd_done_f callback_of(const struct call *call)
{
    return call->form == WITH_CALLBACK || call->form == WITH_BOTH ? on_done : NULL;
}

static hvd_handle *handle_of(struct call *call)
{
    return call->form != WITH_CALLBACK ? &call->handle : NULL;
}

static volatile int called;

/* The operation was submitted: wait as its form says. */
static void finish(struct call *call, enum hvd_status status, const char *what)
{
    must(status, what);
    if (call->form == WITH_CALLBACK) {
        while (!called)
            sched_yield();
    } else if (call->form != PLAIN) {
        if (step_count % 3 == 0 && hvd_test(call->handle) < HVD_OK)
            ranks_fail("step %d: hvd_test: %s", step_count, hvd_error_text());
        must(hvd_wait(call->handle), what);
        refused(hvd_wait(call->handle), "a handle that was waited for");
    }
    if (call->form == WITH_BOTH && !called)
        ranks_fail("step %d: %s: the callback has not come", step_count, what);
    called = 0;
}

static int32_t reduced(const struct call *call, enum hvd_op op, int which, int64_t i)
{
    int32_t result = value_of(call->members[0], which, i);
    for (int member = 1; member < call->member_count; member++) {
        int32_t value = value_of(call->members[member], which, i);
        result = op == HVD_SUM ? result + value : op == HVD_MIN ? result : value; /* they ascend by rank */
    }
    return result;
}

static void allreduce(void)
{
    static const enum hvd_op ops[] = {HVD_SUM, HVD_MIN, HVD_MAX};
    struct call call;
    bool member = choose_set(&call), grouped = draw(2) == 0;
    enum hvd_op op = ops[draw(3)];
    int count = grouped ? 1 + (int)draw(GROUP) : 1;
    struct hvd_tensor tensors[GROUP];
    for (int i = 0; i < count; i++)
        tensors[i] = make_tensor(i, draw(40));
    if (!member)
        return;
    enum hvd_status status =
        call.form == PLAIN ? (grouped ? hvd_grouped_allreduce(tensors, count, op, &call.options)
                                      : hvd_allreduce(tensors, op, &call.options))
        : grouped ? hvd_grouped_allreduce_async(tensors, count, op, &call.options, callback_of(&call),
                                                (void *)(uintptr_t)&called, handle_of(&call))
                  : hvd_allreduce_async(tensors, op, &call.options, callback_of(&call),
                                        (void *)(uintptr_t)&called, handle_of(&call));
    finish(&call, status, "allreduce");
    for (int i = 0; i < count; i++)
        for (int64_t at = 0; at < 3 * tensors[i].shape[0]; at++)
            expect(((int32_t *)tensors[i].output)[at], reduced(&call, op, i, at), "allreduce", at);
}

static void broadcast(void)
{
    struct call call;
    bool member = choose_set(&call);
    struct hvd_tensor tensor = make_tensor(0, draw(40));
    int root = call.members[draw((unsigned)call.member_count)];
    if (!member)
        return;
    enum hvd_status status = call.form == PLAIN
                                 ? hvd_broadcast(&tensor, root, &call.options)
                                 : hvd_broadcast_async(&tensor, root, &call.options, callback_of(&call),
                                                       (void *)(uintptr_t)&called, handle_of(&call));
    finish(&call, status, "broadcast");
    for (int64_t at = 0; at < 3 * tensor.shape[0]; at++)
        expect(((int32_t *)tensor.output)[at], value_of(root, 0, at), "broadcast", at);
}

static void reducescatter(void)
{
    struct call call;
    bool member = choose_set(&call);
    struct hvd_tensor tensor = make_tensor(0, draw(40));
    tensor.output = outputs[0];
    if (!member)
        return;
    enum hvd_status status =
        call.form == PLAIN ? hvd_reducescatter(&tensor, HVD_SUM, &call.options)
                           : hvd_reducescatter_async(&tensor, HVD_SUM, &call.options, callback_of(&call),
                                                     (void *)(uintptr_t)&called, handle_of(&call));
    finish(&call, status, "reducescatter");
    int place = hvd_set_rank(call.options.set);
    int64_t begin = 0;
    for (int i = 0; i < place; i++)
        begin += 3 * hvd_share_rows(tensor.shape[0], i, call.member_count);
    for (int64_t at = 0; at < 3 * hvd_share_rows(tensor.shape[0], place, call.member_count); at++)
        expect(outputs[0][at], reduced(&call, HVD_SUM, 0, begin + at), "reducescatter", at);
}

/* The member at [place] sends that many rows. */
static int64_t rows_of(int place, unsigned seed)
{
    return (int64_t)((seed + 5 * (unsigned)place) % 7);
}

static void allgather(void)
{
    struct call call;
    bool member = choose_set(&call);
    unsigned seed = draw(100);
    struct hvd_result result = {0};
    struct hvd_tensor tensor = make_tensor(0, 1);
    if (!member)
        return;
    tensor.shape[0] = rows_of(hvd_set_rank(call.options.set), seed);
    tensor.output = NULL;
    enum hvd_status status = call.form == PLAIN
                                 ? hvd_allgather(&tensor, &result, &call.options)
                                 : hvd_allgather_async(&tensor, &result, &call.options, callback_of(&call),
                                                       (void *)(uintptr_t)&called, handle_of(&call));
    finish(&call, status, "allgather");
    int64_t at = 0;
    for (int place = 0; place < call.member_count; place++)
        for (int64_t i = 0; i < 3 * rows_of(place, seed); i++, at++)
            expect(((int32_t *)result.data)[at], value_of(call.members[place], 0, i), "allgather", at);
    expect(result.row_count, at / 3, "allgather's rows", 0);
    free(result.data);
}

static void alltoall(void)
{
    struct call call;
    bool member = choose_set(&call);
    unsigned seed = draw(100);
    int64_t splits[64], rows[64], all = 0, at = 0;
    struct hvd_result result = {.rows = rows};
    struct hvd_tensor tensor = make_tensor(0, 1);
    if (!member)
        return;
    int place = hvd_set_rank(call.options.set);
    for (int i = 0; i < call.member_count; i++)
        all += splits[i] = rows_of(place + i, seed);
    tensor.shape[0] = all;
    tensor.output = NULL;
    enum hvd_status status =
        call.form == PLAIN ? hvd_alltoall(&tensor, splits, &result, &call.options)
                           : hvd_alltoall_async(&tensor, splits, &result, &call.options, callback_of(&call),
                                                (void *)(uintptr_t)&called, handle_of(&call));
    finish(&call, status, "alltoall");
    for (int from = 0; from < call.member_count; from++) {
        int64_t begin = 0;
        for (int i = 0; i < place; i++)
            begin += 3 * rows_of(from + i, seed);
        expect(rows[from], rows_of(from + place, seed), "alltoall's rows", from);
        for (int64_t i = 0; i < 3 * rows[from]; i++, at++)
            expect(((int32_t *)result.data)[at], value_of(call.members[from], 0, begin + i), "alltoall", at);
    }
    free(result.data);
}

static void others(void)
{
    int stop = 7, last = -1;
    hvd_handle handle = 0;
    switch (draw(4)) {
    case 0:
        must(hvd_should_stop(&stop), "hvd_should_stop");
        expect(stop, 0, "hvd_should_stop", 0);
        break;
    case 1:
        must(hvd_join(HVD_ALL_RANKS, &last), "hvd_join");
        if (last < 0 || last >= size)
            ranks_fail("step %d: rank %d joined last", step_count, last);
        break;
    case 2:
        must(hvd_barrier_async(HVD_ALL_RANKS, NULL, NULL, &handle), "hvd_barrier_async");
        must(hvd_wait(handle), "hvd_wait");
        break;
    default:
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    }
}

/* ---- Process sets ---- */

static void add_set(void)
{
    int ranks[64], count = 0;
    hvd_set set = -7;
    for (int i = 0; i < size; i++)
        if (draw(2))
            ranks[count++] = i;
    int kind = (int)draw(6);
    if (kind == 0) {
        ranks[count++] = draw(2) ? -1 : size;
        refused(hvd_set_add(ranks, count, &set), "a set with a rank that does not exist");
    } else if (kind == 1 && count > 0) {
        ranks[count] = ranks[0];
        refused(hvd_set_add(ranks, count + 1, &set), "a set with a rank twice");
    } else if (kind == 2 || count == 0) {
        refused(hvd_set_add(draw(2) ? NULL : ranks, count == 0 ? 0 : -count, &set), "a set of no ranks");
    } else if (set_count < SETS) {
        enum hvd_status status = hvd_set_add(ranks, count, &set);
        if (status == HVD_ERR_DUPLICATE) {
            expect(hvd_set_size(set), count, "the size of a set that exists", set);
            return;
        }
        must(status, "hvd_set_add");
        sets[set_count++] = set;
        return;
    }
    if (set != -7)
        ranks_fail("step %d: a set that was refused has the number %d", step_count, set);
}

static void remove_set(void)
{
    if (set_count < 2 || draw(4) == 0) {
        refused(hvd_set_remove(draw(2) ? HVD_ALL_RANKS : 100000), "a set that cannot be removed");
        return;
    }
    int at = 1 + (int)draw((unsigned)set_count - 1);
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.set = sets[at];
    must(hvd_set_remove(sets[at]), "hvd_set_remove");
    struct hvd_tensor tensor = make_tensor(0, 1);
    refused(hvd_allreduce(&tensor, HVD_SUM, &options), "a set that was removed");
    sets[at] = sets[--set_count];
}

/* ---- Wrong calls ---- */

enum { COLLECTIVES = 16, FIRST_GATHER = 9, LAST_GATHER = 13 };

/* Call any collective, in either form. */
static enum hvd_status call_any(int kind, struct hvd_tensor *tensors, int count, struct hvd_options *options)
{
    struct hvd_result results[GROUP] = {{0}};
    hvd_handle handle = 0;
    hvd_persistent persistent = 0;
    switch (kind) {
    case 0:
        return hvd_allreduce(tensors, HVD_SUM, options);
    case 1:
        return hvd_allreduce_async(tensors, HVD_SUM, options, NULL, NULL, &handle);
    case 2:
        return hvd_grouped_allreduce(tensors, count, HVD_SUM, options);
    case 3:
        return hvd_grouped_allreduce_async(tensors, count, HVD_SUM, options, on_done,
                                           (void *)(uintptr_t)&called, NULL);
    case 4:
        return hvd_broadcast(tensors, 0, options);
    case 5:
        return hvd_broadcast_async(tensors, 0, options, on_done, (void *)(uintptr_t)&called, &handle);
    case 6:
        return hvd_reducescatter(tensors, HVD_SUM, options);
    case 7:
        return hvd_grouped_reducescatter(tensors, count, HVD_SUM, options);
    case 8:
        return hvd_grouped_reducescatter_async(tensors, count, HVD_SUM, options, NULL, NULL, &handle);
    case 9:
        return hvd_allgather(tensors, results, options);
    case 10:
        return hvd_allgather_async(tensors, results, options, NULL, NULL, &handle);
    case 11:
        return hvd_grouped_allgather(tensors, results, count, options);
    case 12:
        return hvd_alltoall(tensors, NULL, results, options);
    case 13:
        return hvd_alltoall_async(tensors, NULL, results, options, NULL, NULL, &handle);
    case 14:
        return hvd_allreduce_init(tensors, count, HVD_SUM, options, &persistent);
    default:
        return hvd_reducescatter_init(tensors, count, HVD_SUM, options, &persistent);
    }
}

static void wrong_collective(void)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensors[GROUP] = {make_tensor(0, 4), make_tensor(1, 4), make_tensor(2, 4)};
    int count = 1 + (int)draw(GROUP);
    int kind = (int)draw(COLLECTIVES);
    bool gathers = kind >= FIRST_GATHER && kind <= LAST_GATHER;
    for (int i = 0; gathers && i < GROUP; i++)
        tensors[i].output = NULL;
    if (draw(2))
        spoil_tensor(&tensors[0], !gathers && kind != 4 && kind != 5); /* a broadcast reads the root only */
    else
        spoil_options(&options);
    refused(call_any(kind, tensors, count, &options), "a wrong collective");
    expect(called, 0, "a callback of what was refused", 0);
}

static void wrong_other(void)
{
    static const hvd_set no_sets[] = {-1, -100, 77777};
    struct hvd_tensor tensors[1] = {make_tensor(0, 4)};
    void *memory = NULL;
    uint64_t number = (uint64_t)draw(UINT_MAX) << 32 | draw(100);
    switch (draw(14)) {
    case 0:
        refused(hvd_wait(draw(2) ? 0 : number), "a handle that does not exist");
        break;
    case 1:
        refused(hvd_test(number), "a handle that does not exist");
        break;
    case 2:
        refused(hvd_wait_on_stream(number, NULL), "a handle that does not exist");
        break;
    case 3:
        refused(hvd_alloc(draw(2) ? -1 : INT64_MAX, &memory), "memory of that size");
        break;
    case 4:
        refused(hvd_free(&inputs[0][1]), "memory of others");
        break;
    case 5:
        refused(hvd_timeline_start(draw(2) ? "/dev/null/x" : NULL), "a folder that cannot be");
        break;
    case 6:
        refused(hvd_timeline_stop(), "no timeline");
        break;
    case 7:
        refused(hvd_init(), "hvd_init again");
        break;
    case 8:
        refused(hvd_persistent_start(number, NULL), "a persistent operation that does not exist");
        break;
    case 9:
        refused(hvd_persistent_free(number), "a persistent operation that does not exist");
        break;
    case 10:
        refused(hvd_barrier(no_sets[draw(3)]), "a barrier of no set");
        break;
    case 11:
        refused(hvd_join(no_sets[draw(3)], NULL), "a join of no set");
        break;
    case 12:
        refused(hvd_allreduce(tensors, (enum hvd_op)(draw(2) ? -1 : 6 + (int)draw(9)), NULL), "no reduction");
        break;
    default:
        refused(hvd_broadcast(tensors, draw(2) ? -1 : size, NULL), "no root");
    }
}

/* In a callback every call that waits is refused, whatever its arguments. */
static void wait_in_callback(void)
{
    struct hvd_tensor tensors[GROUP] = {make_tensor(0, 4), make_tensor(1, 4), make_tensor(2, 4)};
    struct hvd_result results[GROUP] = {{0}};
    int answer = 0;
    hvd_set set = 0;
    switch (draw(11)) {
    case 0:
        must_be(hvd_allreduce(tensors, HVD_SUM, NULL), HVD_ERR_STATE, "in a callback");
        break;
    case 1:
        must_be(hvd_grouped_allreduce(tensors, GROUP, HVD_SUM, NULL), HVD_ERR_STATE, "in a callback");
        break;
    case 2:
        must_be(hvd_broadcast(tensors, 0, NULL), HVD_ERR_STATE, "in a callback");
        break;
    case 3:
        must_be(hvd_reducescatter(tensors, HVD_SUM, NULL), HVD_ERR_STATE, "in a callback");
        break;
    case 4:
        tensors[0].output = NULL;
        must_be(hvd_allgather(tensors, results, NULL), HVD_ERR_STATE, "in a callback");
        break;
    case 5:
        must_be(hvd_barrier(HVD_ALL_RANKS), HVD_ERR_STATE, "in a callback");
        break;
    case 6:
        must_be(hvd_join(HVD_ALL_RANKS, &answer), HVD_ERR_STATE, "in a callback");
        break;
    case 7:
        must_be(hvd_should_stop(&answer), HVD_ERR_STATE, "in a callback");
        break;
    case 8:
        must_be(hvd_set_add(&answer, 1, &set), HVD_ERR_STATE, "in a callback");
        break;
    case 9:
        must_be(hvd_shutdown(), HVD_ERR_STATE, "in a callback");
        break;
    default:
        must_be(hvd_init(), HVD_ERR_STATE, "in a callback");
    }
    refused(hvd_error_set(HVD_ERR_STATE, "a sentence of the program"), "hvd_error_set");
}

static void callback_that_waits(void)
{
    int32_t sum = 1;
    hvd_handle handle = 0;
    struct hvd_tensor tensor = hvd_vector("of the callback", &sum, 1, HVD_INT32);
    in_callback = wait_in_callback;
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, on_done, (void *)(uintptr_t)&called, &handle),
         "hvd_allreduce_async");
    must(hvd_wait(handle), "hvd_wait");
    in_callback = NULL;
    expect(called, 1, "the callback", 0);
    called = 0;
    expect(sum, size, "the sum beside a callback that waits", 0);
}

/* ---- The job ---- */

static void memory(void)
{
    int32_t *values = NULL;
    must(hvd_alloc(1 + (int64_t)draw(20000) + 400, (void **)&values), "hvd_alloc");
    for (int i = 0; i < 100; i++)
        values[i] = value_of(rank, 0, i);
    struct hvd_tensor tensor = hvd_vector("memory", values, 100, HVD_INT32);
    must(hvd_allreduce(&tensor, HVD_MAX, NULL), "hvd_allreduce");
    for (int i = 0; i < 100; i++)
        expect(values[i], value_of(size - 1, 0, i), "memory of hvd_alloc", i);
    must(hvd_free(values), "hvd_free");
    refused(hvd_free(values), "memory that was freed");
}

static void outside(void)
{
    struct hvd_tensor tensors[GROUP] = {make_tensor(0, 4), make_tensor(1, 4), make_tensor(2, 4)};
    struct hvd_options options = HVD_OPTIONS_INIT;
    void *pages = NULL;
    int answer = 0;
    expect(hvd_is_initialized() || hvd_rank() >= 0 || hvd_set_size(0) >= 0, 0, "no job", 0);
    for (int i = 0; i < 4; i++)
        must_be(call_any((int)draw(COLLECTIVES), tensors, 1 + (int)draw(GROUP), &options), HVD_ERR_STATE,
                "without a job");
    must_be(hvd_alloc(5, &pages), HVD_ERR_STATE, "hvd_alloc without a job");
    must_be(hvd_should_stop(&answer), HVD_ERR_STATE, "hvd_should_stop without a job");
    must_be(hvd_barrier(HVD_ALL_RANKS), HVD_ERR_STATE, "hvd_barrier without a job");
}

static void begin(void)
{
    must(hvd_init(), "hvd_init");
    ranks_know();
    sets[0] = HVD_ALL_RANKS;
    set_count = 1;
}

/* A rank that leaves ends what the others still do in sets that it is not in. */
static void end(void)
{
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    must(hvd_shutdown(), "hvd_shutdown");
}

static void again(void)
{
    if (draw(4) != 0)
        return;
    end();
    outside();
    begin();
}

int main(int argc, char **argv)
{
    static void (*const steps[])(void) = {
        allreduce,   allreduce,        broadcast,        reducescatter,
        allgather,   alltoall,         others,           add_set,
        remove_set,  memory,           wrong_other,      again,
        wrong_other, wrong_collective, wrong_collective, callback_that_waits};
    if (argc < 2)
        ranks_fail("usage: random_api SEED [STEPS]");
    random_state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    memset(long_name, 'n', sizeof(long_name) - 1);
    outside();
    begin();
    for (long count = argc > 2 ? strtol(argv[2], NULL, 10) : 400; step_count < count; step_count++)
        steps[draw(sizeof(steps) / sizeof(steps[0]))]();
    end();
    return 0;
}
