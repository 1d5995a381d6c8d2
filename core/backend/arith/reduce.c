/* reduce.c: reductions: elements are widened to the type of arithmetic, scaled, folded, and rounded back. */
#include "backend/arith/reduce.h"

#include <string.h>

#include "base/cpu.h"
#include "backend/arith/kernels.h"
#include "base/dtype.h"

/* A reduction of more than one operation goes block by block: a block stays in the first-level cache, where
 * one more pass costs little. Larger blocks would lie 4 KiB apart, and a processor that compares only the low
 * bits of addresses would take a read of one block for a read of what it has just written to the other (4K
 * aliasing). */
struct reduce_block {
    _Alignas(CACHE_LINE_BYTES) char bytes[2048];
};

bool reduce_can(enum hvd_op op, enum hvd_dtype dtype)
{
    if (dtype_name(dtype) == NULL || op_name(op) == NULL || op == HVD_ADASUM)
        return false;
    return op_is_bitwise(op) ? !dtype_is_real(dtype) : !(op == HVD_AVERAGE && dtype == HVD_BOOL);
}

enum hvd_dtype reduce_partial(enum hvd_dtype dtype)
{
    return dtype_is_narrow(dtype) ? HVD_FLOAT32 : dtype;
}

bool reduce_input_is_partial(const struct reduction *reduction)
{
    return reduction->partial == reduction->dtype &&
           (reduction->prescale == 1 || reduction->dtype == HVD_BOOL);
}

struct reduce_plan reduce_plan_of(const struct reduction *reduction)
{
    const struct kernels *kernels = kernels_best();
    enum hvd_dtype dtype = reduction->dtype;
    enum hvd_dtype partial = reduction->partial;
    bool is_bool = dtype == HVD_BOOL;
    int ranks = reduction->op == HVD_AVERAGE ? reduction->ranks : 1;
    bool inverts = dtype_is_real(dtype) && (ranks & (ranks - 1)) == 0;
    return (struct reduce_plan){
        .arith = &kernels->arith[dtype],
        .op = reduction->op,
        .input_bytes = (int64_t)dtype_bytes(dtype),
        .partial_bytes = (int64_t)dtype_bytes(partial),
        .block_count = (int64_t)(sizeof(struct reduce_block) / dtype_bytes(reduce_partial(dtype))),
        .widen_input = kernels->widen[dtype],
        .widen_partial = kernels->widen[partial],
        .narrow_partial = kernels->narrow[partial],
        .narrow_result = kernels->narrow[dtype],
        .prescale = is_bool ? 1 : reduction->prescale,
        .postscale = is_bool ? 1 : reduction->postscale,
        .inverse = inverts ? 1.0 / ranks : 1,
        .divisor = inverts ? 1 : ranks,
        .is_bool = is_bool,
    };
}

/* Is an input a partial result as it is? */
static bool begin_is_copy(const struct reduce_plan *plan)
{
    return plan->widen_input == plan->widen_partial && plan->prescale == 1;
}

/* Is a partial result the result as it is? */
static bool end_is_copy(const struct reduce_plan *plan)
{
    return plan->narrow_partial == plan->narrow_result && plan->inverse == 1 && plan->divisor == 1 &&
           plan->postscale == 1 && !plan->is_bool;
}

/* Is the result the sum times one factor, such as an average's inverse? */
static bool ends_by_scaling(const struct reduce_plan *plan)
{
    return (plan->op == HVD_SUM || plan->op == HVD_AVERAGE) && plan->narrow_partial == NULL &&
           !plan->is_bool && plan->divisor == 1 && (plan->inverse == 1) != (plan->postscale == 1);
}

/* ---- One block ------------------------------------------------------------------------------ */

/* The values in the type of arithmetic: converted into [room], or where they are if nothing is to be
 * converted. */
static const void *widened(kernel_convert_f *widen, void *room, const void *values, int64_t count)
{
    if (widen == NULL)
        return values;
    widen(room, values, count);
    return room;
}

static const void *mapped(kernel_map_f *map, void *room, const void *values, int64_t count, double number)
{
    if (number == 1)
        return values;
    map(room, values, count, number);
    return room;
}

/* Store results of arithmetic in their place, where an element has [bytes]. */
static void store_result(kernel_convert_f *narrow, int64_t bytes, void *to, const void *made, int64_t count)
{
    if (narrow != NULL)
        narrow(to, made, count);
    else if (to != made)
        memcpy(to, made, (size_t)(count * bytes));
}

static const void *load_input(const struct reduce_plan *plan, void *room, const void *input, int64_t count)
{
    const void *values = widened(plan->widen_input, room, input, count);
    return mapped(plan->arith->scale, room, values, count, plan->prescale);
}

static void begin_block(const struct reduce_plan *plan, void *partial, const void *input, int64_t count)
{
    struct reduce_block block;
    void *room = plan->narrow_partial != NULL ? block.bytes : partial;
    const void *made = load_input(plan, room, input, count);
    store_result(plan->narrow_partial, plan->partial_bytes, partial, made, count);
}

static void fold_block(const struct reduce_plan *plan, void *out, const void *left, const void *input,
                       int64_t count)
{
    struct reduce_block left_block, right_block;
    const void *a = widened(plan->widen_partial, left_block.bytes, left, count);
    const void *b = load_input(plan, right_block.bytes, input, count);
    void *made = plan->narrow_partial != NULL ? left_block.bytes : out;
    plan->arith->fold(plan->op, made, a, b, count);
    store_result(plan->narrow_partial, plan->partial_bytes, out, made, count);
}

static void finish_block(const struct reduce_plan *plan, void *result, const void *partial, int64_t count)
{
    struct reduce_block block;
    void *room = plan->narrow_result != NULL ? block.bytes : result;
    const void *values = widened(plan->widen_partial, room, partial, count);
    values = mapped(plan->arith->scale, room, values, count, plan->inverse);
    values = mapped(plan->arith->divide, room, values, count, plan->divisor);
    values = mapped(plan->arith->scale, room, values, count, plan->postscale);
    if (plan->is_bool) /* it may be an input with any byte for true: make it 0 or 1 */
        plan->arith->fold(HVD_MAX, result, values, values, count);
    else
        store_result(plan->narrow_result, plan->input_bytes, result, values, count);
}

static void sum_scale_block(const struct reduce_plan *plan, void *result, const void *left, const void *input,
                            int64_t count)
{
    struct reduce_block left_block, right_block;
    const void *b = load_input(plan, right_block.bytes, input, count);
    void *made = plan->narrow_result != NULL ? left_block.bytes : result;
    plan->arith->sum_scale(made, left, b, count, plan->inverse * plan->postscale);
    store_result(plan->narrow_result, plan->input_bytes, result, made, count);
}

static void end_block(const struct reduce_plan *plan, void *result, const void *left, const void *input,
                      int64_t count)
{
    struct reduce_block sum;
    if (ends_by_scaling(plan)) {
        sum_scale_block(plan, result, left, input, count);
        return;
    }
    void *partial = end_is_copy(plan) ? result : sum.bytes;
    fold_block(plan, partial, left, input, count);
    if (partial != result)
        finish_block(plan, result, partial, count);
}

/* The block from element [at] on. [out] is not written before all inputs except the last have been read. */
static void inputs_block(const struct reduce_plan *plan, void *out, const void *const *inputs,
                         int input_count, int64_t at, int64_t count)
{
    struct reduce_block sum;
    const void *left = (const char *)inputs[0] + at * plan->input_bytes;
    if (!begin_is_copy(plan)) {
        begin_block(plan, sum.bytes, left, count);
        left = sum.bytes;
    }
    for (int i = 1; i < input_count - 1; i++) {
        fold_block(plan, sum.bytes, left, (const char *)inputs[i] + at * plan->input_bytes, count);
        left = sum.bytes;
    }
    if (input_count == 1)
        finish_block(plan, out, left, count);
    else
        end_block(plan, out, left, (const char *)inputs[input_count - 1] + at * plan->input_bytes, count);
}

/* ---- Vectors -------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void reduce_begin(const struct reduction *reduction, void *partial, const void *input, int64_t count)
{
    const struct reduce_plan plan = reduce_plan_of(reduction);
    if (begin_is_copy(&plan)) {
        reduce_convert(reduction->partial, partial, reduction->dtype, input, count);
        return;
    }
    for (int64_t i = 0; i < count; i += plan.block_count)
        begin_block(&plan, (char *)partial + i * plan.partial_bytes,
                    (const char *)input + i * plan.input_bytes, least(count - i, plan.block_count));
}

void reduce_fold(const struct reduction *reduction, void *out, const void *left, const void *input,
                 int64_t count)
{
    const struct reduce_plan plan = reduce_plan_of(reduction);
    bool whole = begin_is_copy(&plan) && plan.narrow_partial == NULL;
    int64_t step = whole ? count : plan.block_count;
    for (int64_t i = 0; i < count; i += step)
        fold_block(&plan, (char *)out + i * plan.partial_bytes, (const char *)left + i * plan.partial_bytes,
                   (const char *)input + i * plan.input_bytes, least(count - i, step));
}

void reduce_finish(const struct reduction *reduction, void *result, const void *partial, int64_t count)
{
    const struct reduce_plan plan = reduce_plan_of(reduction);
    if (end_is_copy(&plan)) {
        reduce_convert(reduction->dtype, result, reduction->partial, partial, count);
        return;
    }
    for (int64_t i = 0; i < count; i += plan.block_count)
        finish_block(&plan, (char *)result + i * plan.input_bytes,
                     (const char *)partial + i * plan.partial_bytes, least(count - i, plan.block_count));
}

void reduce_end(const struct reduction *reduction, void *result, const void *left, const void *input,
                int64_t count)
{
    const struct reduce_plan plan = reduce_plan_of(reduction);
    for (int64_t i = 0; i < count; i += plan.block_count)
        end_block(&plan, (char *)result + i * plan.input_bytes, (const char *)left + i * plan.partial_bytes,
                  (const char *)input + i * plan.input_bytes, least(count - i, plan.block_count));
}

void reduce_inputs(const struct reduce_plan *plan, void *out, void *copy, const void *const *inputs,
                   int input_count, int64_t count)
{
    for (int64_t i = 0; i < count; i += plan->block_count) {
        int64_t some = least(count - i, plan->block_count);
        void *to = (char *)out + i * plan->input_bytes;
        inputs_block(plan, to, inputs, input_count, i, some);
        if (copy != NULL)
            memcpy((char *)copy + i * plan->input_bytes, to, (size_t)(some * plan->input_bytes));
    }
}

void reduce_convert(enum hvd_dtype to_dtype, void *to, enum hvd_dtype from_dtype, const void *from,
                    int64_t count)
{
    const struct kernels *kernels = kernels_best();
    if (to_dtype != from_dtype && dtype_is_narrow(to_dtype))
        kernels->narrow[to_dtype](to, from, count);
    else if (to_dtype != from_dtype)
        kernels->widen[from_dtype](to, from, count);
    else if (to != from && count > 0)
        memcpy(to, from, (size_t)count * dtype_bytes(to_dtype));
}

/* ---- Adasum --------------------------------------------------------------------------------- */

void reduce_dots(enum hvd_dtype dtype, const void *a, const void *b, int64_t count, double dots[3])
{
    kernels_best()->dots(dtype, a, b, count, dots);
}

void reduce_blend(enum hvd_dtype dtype, void *out, const void *a, const void *b, const double factors[2],
                  int64_t count)
{
    kernels_best()->blend(dtype, out, a, b, factors, count);
}
