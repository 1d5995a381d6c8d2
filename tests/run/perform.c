/* perform.c: one operation of a plan on this rank: its memory, its submission, and the check of its result.
 */
#include "perform.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu_memory.h"

#define GUARD_BYTES 64
#define GUARD_BYTE  0xa5
#define POISON_BYTE 0x5a

void perform_fail(const struct op_plan *plan, const struct plan_op *op, const char *format, ...)
{
    char what[2000] = "";
    char why[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    if (op != NULL)
        plan_write(plan, op, what, sizeof(what));
    const char *options = getenv("HVD_CLI");
    fprintf(stderr,
            "property: seed %" PRIu64 ", rank %d of %d: %s\n"
            "  in %s\n"
            "  again: property %" PRIu64 " %d on %d ranks%s%s\n",
            plan->seed, hvd_rank(), plan->size, why, op == NULL ? "no operation" : what, plan->seed,
            plan->next_number, plan->size, options == NULL ? "" : " with options ",
            options == NULL ? "" : options);
    fflush(NULL);
    _exit(1);
}

/* ---- Memory ---- */

/* Is the memory from hvd_alloc? For most operations it is on all ranks, for the others only on some. */
static bool is_given(const struct plan_op *op, struct random_stream *draws)
{
    return getenv("PROPERTY_ALLOC") != NULL && (op->number % 4 != 0 || random_stream_chance(draws, 50));
}

static void __attribute__((noreturn)) no_memory(const char *why)
{
    fprintf(stderr, "rank %d: the test has no memory: %s\n", hvd_rank(), why);
    fflush(NULL);
    _exit(1);
}

/* Zeroed memory of the test itself. */
static void *fresh(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        no_memory("calloc failed");
    return memory;
}

static void *new_block(const struct op_memory *memory, size_t bytes)
{
    void *block = NULL;
    if (!memory->given)
        return fresh(bytes, 1);
    if (hvd_alloc((int64_t)bytes, &block) != HVD_OK)
        no_memory(hvd_error_text());
    return block;
}

static void free_block(const struct op_memory *memory, char *block)
{
    if (!memory->given)
        free(block);
    else if (hvd_free(block) != HVD_OK)
        abort();
}

static char *guarded(const struct op_memory *memory, int64_t bytes, int64_t shift, char **blockp)
{
    size_t all = (size_t)(bytes + shift) + 2 * GUARD_BYTES;
    char *block = new_block(memory, all);
    memset(block, GUARD_BYTE, all);
    memset(block + GUARD_BYTES + shift, POISON_BYTE, (size_t)bytes);
    *blockp = block;
    return block + GUARD_BYTES + shift;
}

static bool guard_holds(const char *data, int64_t bytes)
{
    for (int i = 0; i < GUARD_BYTES; i++) {
        if ((unsigned char)data[-1 - i] != GUARD_BYTE || (unsigned char)data[bytes + i] != GUARD_BYTE)
            return false;
    }
    return true;
}

/* ---- On a GPU: each block is copied there before the operation, and back after it ---- */

static bool on_gpu(void)
{
    return getenv("PROPERTY_GPU") != NULL;
}

static size_t block_bytes(const char *block, const char *data, int64_t bytes)
{
    return (size_t)(data - block) + (size_t)bytes + GUARD_BYTES;
}

static char *to_gpu(const char *block, const char *data, int64_t bytes)
{
    char *there = gpu_memory_new(block_bytes(block, data, bytes));
    gpu_memory_copy(there, block, block_bytes(block, data, bytes));
    return there;
}

static void from_gpu(char **there, char *block, const char *data, int64_t bytes)
{
    if (*there == NULL)
        return;
    gpu_memory_copy(block, *there, block_bytes(block, data, bytes));
    gpu_memory_free(*there);
    *there = NULL;
}

/* Let the library see the tensor on the GPU. */
static void move_to_gpu(struct op_memory *memory, struct hvd_tensor *tensor, struct random_stream *draws)
{
    bool in_place = tensor->output == tensor->input;
    memory->gpu_in = to_gpu(memory->in_block, memory->input, memory->in_bytes);
    if (tensor->input != NULL)
        tensor->input = memory->gpu_in + (memory->input - memory->in_block);
    if (memory->out_block != NULL)
        memory->gpu_out = to_gpu(memory->out_block, memory->output, memory->out_bytes);
    if (tensor->output != NULL && memory->out_block != NULL)
        tensor->output = memory->gpu_out + (memory->output - memory->out_block);
    else if (tensor->output != NULL)
        tensor->output = memory->gpu_in + (memory->input - memory->in_block);
    bool known = tensor->input != NULL && (in_place || tensor->output != NULL);
    tensor->memory = known && random_stream_chance(draws, 50) ? HVD_MEMORY_ANY : HVD_MEMORY_DEVICE;
    tensor->device = gpu_memory_ordinal();
}

static void move_from_gpu(struct op_memory *memory, struct hvd_result *result)
{
    from_gpu(&memory->gpu_in, memory->in_block, memory->input, memory->in_bytes);
    if (memory->gpu_out == NULL)
        return;
    from_gpu(&memory->gpu_out, memory->out_block, memory->output, memory->out_bytes);
    if (result->data != NULL)
        result->data = memory->output;
}

/* For hvd_result.allocate; this memory has guards too. */
static void *allocate(int64_t bytes, void *arg)
{
    struct op_memory *memory = arg;
    memory->allocated++;
    memory->out_bytes = bytes;
    memory->output = guarded(memory, bytes, 0, &memory->out_block);
    if (!on_gpu())
        return memory->output;
    memory->gpu_out = to_gpu(memory->out_block, memory->output, bytes);
    return memory->gpu_out + (memory->output - memory->out_block);
}

/* The number of elements of the output, for operations whose caller allocates it. */
static int64_t output_count(const struct op_plan *plan, const struct plan_op *op, int index, int rank)
{
    const struct plan_set *set = &plan->sets[op->set];
    const struct plan_tensor *tensor = &op->tensors[index];
    if (op->kind == PLAN_REDUCE && op->root != rank)
        return 0;
    if (op->kind != PLAN_REDUCESCATTER)
        return plan_count(plan, op, index, rank);
    return plan_share(plan, op, index, op_plan_member(set, rank)) * plan_row_elements(tensor);
}

static void prepare_tensor(struct op_run *work, int index, struct random_stream *draws)
{
    const struct plan_op *op = work->op;
    const struct plan_tensor *planned = &op->tensors[index];
    struct op_memory *memory = &work->memory[index];
    struct hvd_tensor *tensor = &work->tensors[index];
    int rank = hvd_rank();
    int64_t bytes = (int64_t)reference_bytes(planned->dtype);
    int64_t count = plan_count(work->plan, op, index, rank);
    bool in_place = !plan_makes_result(op) && random_stream_chance(draws, 50);
    memory->in_bytes = count * bytes;
    memory->given = is_given(op, draws);
    memory->input =
        guarded(memory, memory->in_bytes, bytes * random_stream_below(draws, 9), &memory->in_block);
    if (op->kind != PLAN_BROADCAST || op->root == rank)
        plan_fill(work->plan, op, index, rank, memory->input);
    if (!plan_makes_result(op)) {
        memory->out_bytes = output_count(work->plan, op, index, rank) * bytes;
        memory->output = in_place ? memory->input
                                  : guarded(memory, memory->out_bytes, bytes * random_stream_below(draws, 9),
                                            &memory->out_block);
    }
    bool may_be_null = count == 0 || (op->kind == PLAN_BROADCAST && op->root != rank && !in_place);
    *tensor = (struct hvd_tensor){
        planned->name,  may_be_null && random_stream_chance(draws, 50) ? NULL : memory->input,
        memory->output, planned->dtype,
        planned->ndim,  {0},
        HVD_MEMORY_ANY, 0};
    if (memory->out_bytes == 0 && random_stream_chance(draws, 50))
        tensor->output = NULL;
    memcpy(tensor->shape, planned->shape, sizeof(tensor->shape));
    if (plan_makes_result(op))
        tensor->shape[0] = plan_rows(work->plan, op, index, rank);
    if (op->kind == PLAN_SCATTER && op->root != rank)
        tensor->shape[0] = random_stream_below(draws, 9); /* it is not read */
    if (random_stream_chance(draws, 50))
        work->results[index].rows = memory->rows;
    if (random_stream_chance(draws, 50) || on_gpu()) {
        work->results[index].allocate = allocate;
        work->results[index].arg = memory;
    }
    memset(memory->rows, 0xff, sizeof(memory->rows));
    if (on_gpu())
        move_to_gpu(memory, tensor, draws);
}

void perform_prepare(struct op_run *work, const struct op_plan *plan, const struct plan_op *op,
                     struct random_stream *draws)
{
    const struct plan_set *set = &plan->sets[op->set];
    memset(work, 0, sizeof(*work));
    work->plan = plan;
    work->op = op;
    work->options = (struct hvd_options)HVD_OPTIONS_INIT;
    work->options.set = set->number;
    work->options.wire = op->wire;
    work->options.prescale = op->prescale;
    work->options.postscale = op->postscale;
    work->has_options = set->number != HVD_ALL_RANKS || op->wire != HVD_WIRE_EXACT || op->prescale != 1 ||
                        op->postscale != 1 || random_stream_chance(draws, 50);
    for (int i = 0; i < op->tensor_count; i++)
        prepare_tensor(work, i, draws);
    if (op->kind == PLAN_ALLTOALL || op->kind == PLAN_SCATTER) {
        work->has_splits = !plan_even(plan, op, hvd_rank()) || random_stream_chance(draws, 50);
        for (int to = 0; to < set->count; to++)
            work->splits[to] = plan_split(plan, op, hvd_rank(), to);
    }
    if (op->uneven) {
        work->has_splits = true;
        for (int to = 0; to < set->count; to++)
            work->splits[to] = plan_share(plan, op, 0, to);
    }
}

/* ---- Submission ---- */

enum hvd_status perform_plain(struct op_run *work)
{
    const struct plan_op *op = work->op;
    const struct hvd_options *options = work->has_options ? &work->options : NULL;
    const struct hvd_tensor *tensors = work->tensors;
    switch (op->kind) {
    case PLAN_ALLREDUCE:
        return op->grouped ? hvd_grouped_allreduce(tensors, op->tensor_count, op->op, options)
                           : hvd_allreduce(tensors, op->op, options);
    case PLAN_BROADCAST:
        return hvd_broadcast(tensors, op->root, options);
    case PLAN_ALLGATHER:
        return op->grouped ? hvd_grouped_allgather(tensors, work->results, op->tensor_count, options)
                           : hvd_allgather(tensors, work->results, options);
    case PLAN_ALLTOALL:
        return hvd_alltoall(tensors, work->has_splits ? work->splits : NULL, work->results, options);
    case PLAN_REDUCE:
        return hvd_reduce(tensors, op->op, op->root, options);
    case PLAN_GATHER:
        return hvd_gather(tensors, op->root, work->results, options);
    case PLAN_SCATTER:
        return hvd_scatter(tensors, work->has_splits ? work->splits : NULL, op->root, work->results, options);
    case PLAN_REDUCESCATTER:
        if (work->has_splits)
            return hvd_reducescatterv(tensors, work->splits, op->op, options);
        return op->grouped ? hvd_grouped_reducescatter(tensors, op->tensor_count, op->op, options)
                           : hvd_reducescatter(tensors, op->op, options);
    default:
        return hvd_barrier(work->options.set);
    }
}

/* Arguments that the library must copy during the call; they are overwritten after it. */
struct handed {
    struct hvd_tensor tensors[PLAN_MAX_GROUP];
    char names[PLAN_MAX_GROUP][HVD_MAX_NAME + 1];
    int64_t splits[PLAN_MAX_RANKS];
    struct hvd_options options;
};

static enum hvd_status submit_result(struct op_run *work, const struct handed *handed, hvd_done_f done,
                                     hvd_handle *handlep)
{
    const struct plan_op *op = work->op;
    const struct hvd_options *options = work->has_options ? &handed->options : NULL;
    const int64_t *splits = work->has_splits ? handed->splits : NULL;
    if (op->kind == PLAN_GATHER)
        return hvd_gather_async(handed->tensors, op->root, work->results, options, done, work, handlep);
    if (op->kind == PLAN_SCATTER)
        return hvd_scatter_async(handed->tensors, splits, op->root, work->results, options, done, work,
                                 handlep);
    if (op->kind == PLAN_ALLTOALL)
        return hvd_alltoall_async(handed->tensors, splits, work->results, options, done, work, handlep);
    if (op->grouped)
        return hvd_grouped_allgather_async(handed->tensors, work->results, op->tensor_count, options, done,
                                           work, handlep);
    return hvd_allgather_async(handed->tensors, work->results, options, done, work, handlep);
}

static enum hvd_status submit(struct op_run *work, const struct handed *handed, hvd_done_f done,
                              hvd_handle *handlep)
{
    const struct plan_op *op = work->op;
    const struct hvd_options *options = work->has_options ? &handed->options : NULL;
    const struct hvd_tensor *tensors = handed->tensors;
    switch (op->kind) {
    case PLAN_ALLREDUCE:
        return op->grouped ? hvd_grouped_allreduce_async(tensors, op->tensor_count, op->op, options, done,
                                                         work, handlep)
                           : hvd_allreduce_async(tensors, op->op, options, done, work, handlep);
    case PLAN_BROADCAST:
        return hvd_broadcast_async(tensors, op->root, options, done, work, handlep);
    case PLAN_REDUCE:
        return hvd_reduce_async(tensors, op->op, op->root, options, done, work, handlep);
    case PLAN_REDUCESCATTER:
        if (work->has_splits)
            return hvd_reducescatterv_async(tensors, handed->splits, op->op, options, done, work, handlep);
        return op->grouped ? hvd_grouped_reducescatter_async(tensors, op->tensor_count, op->op, options, done,
                                                             work, handlep)
                           : hvd_reducescatter_async(tensors, op->op, options, done, work, handlep);
    case PLAN_ALLGATHER:
    case PLAN_ALLTOALL:
    case PLAN_GATHER:
    case PLAN_SCATTER:
        return submit_result(work, handed, done, handlep);
    default:
        return hvd_barrier_async(handed->options.set, done, work, handlep);
    }
}

enum hvd_status perform_async(struct op_run *work, bool handle, hvd_done_f done)
{
    struct handed handed = {.options = work->options};
    memcpy(handed.splits, work->splits, sizeof(handed.splits));
    memcpy(handed.tensors, work->tensors, sizeof(handed.tensors));
    for (int i = 0; i < work->op->tensor_count; i++) {
        memcpy(handed.names[i], work->tensors[i].name, sizeof(handed.names[i]));
        handed.tensors[i].name = handed.names[i];
    }
    enum hvd_status status = submit(work, &handed, done, handle ? &work->handle : NULL);
    memset(&handed, 0xff, sizeof(handed));
    __asm__ volatile("" ::"r"(&handed) : "memory"); /* keep the compiler from removing the memset */
    return status;
}

/* ---- Results ---- */

uint64_t perform_hash(uint64_t hash, const void *data, int64_t bytes)
{
    const unsigned char *at = data;
    for (int64_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void differs(const struct op_run *work, int index, int64_t element, const void *seen,
                    const void *expected)
{
    char is[80];
    char should_be[80];
    enum hvd_dtype dtype = work->op->tensors[index].dtype;
    reference_write(dtype, seen, is, sizeof(is));
    reference_write(dtype, expected, should_be, sizeof(should_be));
    perform_fail(work->plan, work->op, "tensor %d, element %" PRId64 " is %s, expected %s", index, element,
                 is, should_be);
}

static void compare(const struct op_run *work, int index, const char *seen, const char *expected,
                    int64_t count)
{
    const struct plan_op *op = work->op;
    enum hvd_dtype dtype = op->tensors[index].dtype;
    int64_t bytes = (int64_t)reference_bytes(dtype);
    bool reduces = plan_reduces(op);
    bool either_zero = reduces && (op->op == HVD_MIN || op->op == HVD_MAX);
    for (int64_t i = 0; i < count; i++) {
        const char *is = seen + i * bytes;
        const char *should_be = expected + i * bytes;
        if (reduces ? !reference_same(dtype, is, should_be, either_zero)
                    : memcmp(is, should_be, (size_t)bytes) != 0)
            differs(work, index, i, is, should_be);
    }
}

static struct reference_reduction reduction_of(const struct op_run *work, int index)
{
    const struct plan_op *op = work->op;
    return (struct reference_reduction){.dtype = op->tensors[index].dtype,
                                        .op = op->op,
                                        .wire = op->wire,
                                        .prescale = op->prescale,
                                        .postscale = op->postscale,
                                        .ranks = work->plan->sets[op->set].count};
}

/* Above it sums may overflow. */
static double safe_largest(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return 60000;
    case HVD_FLOAT8_E4M3:
        return 400;
    case HVD_FLOAT8_E5M2:
        return 50000;
    default:
        return 1e37;
    }
}

/* Below it a type has few digits, or none. */
static double safe_least(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT8_E4M3 ? 0x1p-7 : dtype == HVD_FLOAT8_E5M2 ? 0x1p-14 : 1e-6;
}

/* NCCL adds in an order of its own, and rounds factors and partial results to the type that travels: elements
 * may be off by what that comes to beside the largest number on the way. */
static bool is_near(const struct reference_reduction *reduction, double is, double should_be, double largest)
{
    enum hvd_dtype travels = reduction->dtype;
    if (travels == HVD_FLOAT32 && reduction->wire != HVD_WIRE_EXACT)
        travels = reduction->wire == HVD_WIRE_FLOAT16 ? HVD_FLOAT16 : HVD_BFLOAT16;
    if (isnan(should_be) && (reduction->op == HVD_MIN || reduction->op == HVD_MAX))
        return true; /* NCCL may leave a NaN out */
    bool overflows = largest > safe_largest(travels);
    if (!isfinite(is) || !isfinite(should_be) || overflows)
        return isfinite(is) == isfinite(should_be) || overflows;
    double least = safe_least(travels) * fmax(fabs(reduction->postscale), 1);
    return fabs(is - should_be) <= least + fmax(largest, fabs(should_be)) * reference_tolerance(travels);
}

/* The largest number that element [i] can meet with on its way. */
static double largest_of(const struct reference_reduction *reduction, const void *const *inputs, int64_t i)
{
    bool product = reduction->op == HVD_PRODUCT;
    double largest = product ? 1 : 0;
    double each = fmax(fabs(reduction->prescale), 1);
    for (int rank = 0; rank < reduction->ranks; rank++) {
        double value = inputs[rank] == NULL ? 0 : fabs(reference_value(reduction->dtype, inputs[rank], i));
        largest = product ? largest * fmax(value * each, 1) : largest + value * each;
    }
    return largest * fmax(fabs(reduction->postscale), 1);
}

static void compare_near(const struct op_run *work, int index, const void *const *inputs,
                         const char *expected, int64_t first, int64_t count)
{
    struct reference_reduction reduction = reduction_of(work, index);
    int64_t bytes = (int64_t)reference_bytes(reduction.dtype);
    const char *seen = work->memory[index].output;
    for (int64_t i = 0; i < count; i++) {
        double is = reference_value(reduction.dtype, seen, i);
        double should_be = reference_value(reduction.dtype, expected, first + i);
        if (!is_near(&reduction, is, should_be, largest_of(&reduction, inputs, first + i)))
            differs(work, index, i, seen + i * bytes, expected + (first + i) * bytes);
    }
}

/* Compute the inputs of all members. */
static void fill_inputs(const struct op_run *work, int index, void **inputs)
{
    const struct plan_set *set = &work->plan->sets[work->op->set];
    size_t bytes = reference_bytes(work->op->tensors[index].dtype);
    for (int i = 0; i < set->count; i++) {
        if (!plan_contributes(work->plan, work->op, set->ranks[i]))
            continue;
        inputs[i] = fresh((size_t)plan_count(work->plan, work->op, index, set->ranks[i]), bytes);
        plan_fill(work->plan, work->op, index, set->ranks[i], inputs[i]);
    }
}

/* The sum of element [i]'s magnitudes. Where the elements themselves cancel out, the result has their
 * rounding. */
static double magnitude_of(const struct reference_reduction *reduction, const void *const *inputs, int64_t i)
{
    double sum = 0;
    for (int rank = 0; rank < reduction->ranks; rank++) {
        if (inputs[rank] != NULL)
            sum += fabs(reference_value(reduction->dtype, inputs[rank], i));
    }
    return sum * fabs(reduction->prescale * reduction->postscale);
}

static void check_adasum(const struct op_run *work, int index, const void *const *inputs)
{
    struct reference_reduction reduction = reduction_of(work, index);
    int64_t count = work->memory[index].out_bytes / (int64_t)reference_bytes(reduction.dtype);
    double *expected = fresh((size_t)count, sizeof(*expected));
    double largest = 0;
    reference_adasum(&reduction, inputs, expected, count);
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fmax(fabs(expected[i]), magnitude_of(&reduction, inputs, i)));
    for (int64_t i = 0; i < count; i++) {
        double seen = reference_value(reduction.dtype, work->memory[index].output, i);
        if (!(fabs(seen - expected[i]) <= largest * reference_tolerance(reduction.dtype)))
            perform_fail(work->plan, work->op,
                         "tensor %d, element %" PRId64 " is %.17g, expected about %.17g", index, i, seen,
                         expected[i]);
    }
    free(expected);
}

/* Reductions: check this rank's part of the result. */
static void check_reduced(const struct op_run *work, int index)
{
    const struct plan_op *op = work->op;
    const struct plan_set *set = &work->plan->sets[op->set];
    const struct plan_tensor *tensor = &op->tensors[index];
    struct reference_reduction reduction = reduction_of(work, index);
    int64_t bytes = (int64_t)reference_bytes(tensor->dtype);
    void *inputs[PLAN_MAX_RANKS] = {NULL};
    int64_t count = plan_count(work->plan, op, index, hvd_rank());
    char *expected = fresh((size_t)count, (size_t)bytes);
    int64_t first = 0;
    fill_inputs(work, index, inputs);
    for (int i = 0; op->kind == PLAN_REDUCESCATTER && i < op_plan_member(set, hvd_rank()); i++)
        first += plan_share(work->plan, op, index, i) * plan_row_elements(tensor);
    if (op->op == HVD_ADASUM) {
        check_adasum(work, index, (const void *const *)inputs);
    } else {
        reference_reduce(&reduction, (const void *const *)inputs, expected, count);
        if (getenv("PROPERTY_NCCL") != NULL && reference_is_float(tensor->dtype))
            compare_near(work, index, (const void *const *)inputs, expected, first,
                         work->memory[index].out_bytes / bytes);
        else
            compare(work, index, work->memory[index].output, expected + first * bytes,
                    work->memory[index].out_bytes / bytes);
    }
    free(expected);
    for (int i = 0; i < set->count; i++)
        free(inputs[i]);
}

static void check_broadcast(const struct op_run *work)
{
    int64_t bytes = work->memory[0].out_bytes;
    char *expected = fresh((size_t)bytes, 1);
    plan_fill(work->plan, work->op, 0, work->op->root, expected);
    compare(work, 0, work->memory[0].output, expected,
            bytes / (int64_t)reference_bytes(work->op->tensors[0].dtype));
    free(expected);
}

/* How many rows [member] sends to this rank; *firstp is the first of them. */
static int64_t rows_from(const struct op_run *work, int index, int member, int64_t *firstp)
{
    const struct plan_op *op = work->op;
    const struct plan_set *set = &work->plan->sets[op->set];
    int me = op_plan_member(set, hvd_rank());
    *firstp = 0;
    if (op->kind == PLAN_ALLGATHER)
        return plan_rows(work->plan, op, index, set->ranks[member]);
    for (int to = 0; to < me; to++)
        *firstp += plan_split(work->plan, op, set->ranks[member], to);
    return plan_split(work->plan, op, set->ranks[member], me);
}

/* Check a result that hvd allocated. */
static void check_result(struct op_run *work, int index)
{
    const struct plan_op *op = work->op;
    const struct plan_set *set = &work->plan->sets[op->set];
    const struct plan_tensor *tensor = &op->tensors[index];
    const struct hvd_result *result = &work->results[index];
    struct op_memory *memory = &work->memory[index];
    int64_t row_bytes = plan_row_elements(tensor) * (int64_t)reference_bytes(tensor->dtype);
    int64_t rows = 0;
    void *inputs[PLAN_MAX_RANKS] = {NULL};
    fill_inputs(work, index, inputs);
    for (int i = 0; i < set->count; i++) {
        int64_t first = 0;
        int64_t from = rows_from(work, index, i, &first);
        if (result->rows != NULL && result->rows[i] != from)
            perform_fail(work->plan, op, "tensor %d: %" PRId64 " rows from member %d, expected %" PRId64,
                         index, result->rows[i], i, from);
        if (from * row_bytes > 0 && result->data != NULL)
            compare(work, index, (char *)result->data + rows * row_bytes,
                    (char *)inputs[i] + first * row_bytes, from * plan_row_elements(tensor));
        rows += from;
        free(inputs[i]);
    }
    if (result->row_count != rows || (result->data == NULL) != (rows * row_bytes == 0))
        perform_fail(work->plan, op, "tensor %d: %" PRId64 " rows at %p, expected %" PRId64, index,
                     result->row_count, result->data, rows);
    if (result->allocate != NULL && (memory->allocated != (rows * row_bytes > 0) ||
                                     (rows * row_bytes > 0 && memory->out_bytes != rows * row_bytes)))
        perform_fail(work->plan, op, "tensor %d: memory was asked for %d times", index, memory->allocated);
    if (op->kind == PLAN_ALLGATHER)
        work->hash = perform_hash(work->hash, result->data, rows * row_bytes);
    if (result->allocate == NULL)
        free(result->data);
}

/* Check that the input is unchanged, and that nothing was written outside input and output. */
static void check_memory(const struct op_run *work, int index)
{
    const struct plan_op *op = work->op;
    const struct op_memory *memory = &work->memory[index];
    bool has_input = op->kind != PLAN_BROADCAST || op->root == hvd_rank();
    if (!guard_holds(memory->input, memory->in_bytes) ||
        (memory->out_block != NULL && !guard_holds(memory->output, memory->out_bytes)))
        perform_fail(work->plan, op, "tensor %d: memory beside the tensor was written", index);
    if (memory->output == memory->input || !has_input)
        return;
    char *expected = fresh((size_t)memory->in_bytes, 1);
    plan_fill(work->plan, op, index, hvd_rank(), expected);
    if (memcmp(expected, memory->input, (size_t)memory->in_bytes) != 0)
        perform_fail(work->plan, op, "tensor %d: the input was written", index);
    free(expected);
}

void perform_finish(struct op_run *work)
{
    const struct plan_op *op = work->op;
    for (int i = 0; i < op->tensor_count; i++) {
        struct op_memory *memory = &work->memory[i];
        move_from_gpu(memory, &work->results[i]);
        if (plan_makes_result(op))
            check_result(work, i);
        else if (op->kind == PLAN_BROADCAST)
            check_broadcast(work);
        else
            check_reduced(work, i);
        check_memory(work, i);
        if (op->kind == PLAN_ALLREDUCE || op->kind == PLAN_BROADCAST)
            work->hash = perform_hash(work->hash, memory->output, memory->out_bytes);
        free_block(memory, memory->in_block);
        free_block(memory, memory->out_block);
    }
    work->finished = true;
}
