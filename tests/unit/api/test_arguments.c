/* test_arguments.c: what a caller may arguments for, and the sentence about each thing that it may not. */
#include "config.h"
#include "unit.h"

#include <math.h>
#include <string.h>

#include "api/arguments.h"

/* One question, made right; each case breaks something. */
static float memory[64];
static struct hvd_tensor tensors[2];
static struct hvd_result results[2];
static struct hvd_options options;
static int64_t splits[3];
static struct membership membership;
static struct arguments arguments;
static struct hvd_error err;

static void begin(void)
{
    static const struct hvd_options plain = HVD_OPTIONS_INIT;
    for (int i = 0; i < 2; i++)
        tensors[i] = (struct hvd_tensor){.name = i == 0 ? "x" : "y",
                                         .input = memory,
                                         .output = memory + 32,
                                         .dtype = HVD_FLOAT32,
                                         .ndim = 2,
                                         .shape = {6, 2}};
    options = plain;
    splits[0] = 1;
    splits[1] = 2;
    splits[2] = 3;
    membership = (struct membership){.set = 4, .rank = 1, .size = 3, .root = 0};
    arguments =
        (struct arguments){.kind = DESC_ALLREDUCE, .tensors = tensors, .count = 1, .options = &options};
}

static void to_result(enum desc_kind kind)
{
    arguments.kind = kind;
    arguments.results = results;
    tensors[0].output = tensors[1].output = NULL;
}

/* ---- What may be asked ---- */

static void nothing(void)
{
}

static void in_place(void)
{
    tensors[0].output = memory;
}

static void empty(void)
{
    tensors[0].shape[0] = 0;
    tensors[0].shape[1] = INT64_MAX;
    tensors[0].input = tensors[0].output = NULL;
}

static void scalar(void)
{
    tensors[0].ndim = 0;
}

static void everything_optional(void)
{
    options.prescale = -0.5;
    options.postscale = 1e300;
    options.wire = HVD_WIRE_BFLOAT16;
}

static void mixed_group(void)
{
    arguments.grouped = true;
    arguments.count = 2;
    tensors[1].dtype = HVD_BOOL;
    tensors[1].ndim = 0;
}

static void adasum(void)
{
    arguments.op = HVD_ADASUM;
    membership.size = 2;
    tensors[0].dtype = HVD_BFLOAT16;
}

static void gather(void)
{
    to_result(DESC_ALLGATHER);
}

static void exchange(void)
{
    to_result(DESC_ALLTOALL);
    arguments.splits = splits;
}

static void exchange_evenly(void)
{
    to_result(DESC_ALLTOALL);
}

/* Its share is two rows: what is behind them may be the input. */
static void share(void)
{
    arguments.kind = DESC_REDUCESCATTER;
    tensors[0].input = memory + 4;
    tensors[0].output = memory;
}

/* The first of three ranks gets one row, as splits[0] says. */
static void share_by_splits(void)
{
    arguments.kind = DESC_REDUCESCATTER;
    arguments.splits = splits;
    membership.rank = 0;
    tensors[0].input = memory + 2;
    tensors[0].output = memory;
}

/* The last of three ranks has no row of two. */
static void share_of_nothing(void)
{
    arguments.kind = DESC_REDUCESCATTER;
    membership.rank = 2;
    tensors[0].shape[0] = 2;
    tensors[0].output = NULL;
}

static void broadcast_elsewhere(void)
{
    arguments.kind = DESC_BROADCAST;
    tensors[0].input = NULL;
}

static void reduce_elsewhere(void)
{
    arguments.kind = DESC_REDUCE;
    tensors[0].output = NULL;
}

static void gather_to_a_root(void)
{
    to_result(DESC_GATHER);
}

/* Rank 1 is not the root: neither its splits nor its input count. */
static void scatter_elsewhere(void)
{
    to_result(DESC_SCATTER);
    arguments.splits = splits;
    splits[0] = 7;
    tensors[0].input = NULL;
}

static void scatter_evenly(void)
{
    to_result(DESC_SCATTER);
    membership.rank = 0;
}

/* [length] letters. */
static char *name_of(size_t length)
{
    static char name[HVD_MAX_NAME + 2];
    memset(name, 'n', length);
    return name;
}

static void longest_name(void)
{
    tensors[0].name = name_of(HVD_MAX_NAME);
}

static void (*const good[])(void) = {nothing,
                                     in_place,
                                     empty,
                                     scalar,
                                     mixed_group,
                                     everything_optional,
                                     adasum,
                                     gather,
                                     exchange,
                                     exchange_evenly,
                                     share,
                                     share_by_splits,
                                     share_of_nothing,
                                     longest_name,
                                     broadcast_elsewhere,
                                     reduce_elsewhere,
                                     gather_to_a_root,
                                     scatter_elsewhere,
                                     scatter_evenly};

START_TEST(what_is_right_is_taken)
{
    good[_i]();
    ck_assert_msg(arguments_check(&arguments, &membership, &err) == HVD_OK, "%s", err.text);
}
END_TEST

/* ---- What may not ---- */

static void no_name(void)
{
    tensors[0].name = NULL;
}

static void empty_name(void)
{
    tensors[0].name = "";
}

static void long_name(void)
{
    tensors[0].name = name_of(HVD_MAX_NAME + 1);
}

static void control_name(void)
{
    tensors[0].name = "ab\001";
}

static void no_dtype(void)
{
    tensors[0].dtype = (enum hvd_dtype)99;
}

static void many_dimensions(void)
{
    tensors[0].ndim = 9;
}

static void negative_dimension(void)
{
    tensors[0].shape[1] = -2;
}

static void too_large(void)
{
    tensors[0].shape[0] = INT64_C(1) << 61;
}

static void no_input(void)
{
    tensors[0].input = NULL;
}

static void no_output(void)
{
    tensors[0].output = NULL;
}

static void overlap_below(void)
{
    tensors[0].output = memory + 11;
}

static void overlap_above(void)
{
    tensors[0].input = memory + 43;
}

static void no_op(void)
{
    arguments.op = (enum hvd_op)9;
}

static void bits_of_reals(void)
{
    arguments.op = HVD_BXOR;
}

static void bits_that_are_scaled(void)
{
    arguments.op = HVD_BAND;
    tensors[0].dtype = HVD_INT32;
    options.postscale = 0.5;
}

static void average_of_bools(void)
{
    arguments.op = HVD_AVERAGE;
    tensors[0].dtype = HVD_BOOL;
}

static void adasum_of_three(void)
{
    arguments.op = HVD_ADASUM;
}

static void adasum_of_integers(void)
{
    arguments.op = HVD_ADASUM;
    membership.size = 2;
    tensors[0].dtype = HVD_INT64;
}

static void adasum_of_shares(void)
{
    arguments.kind = DESC_REDUCESCATTER;
    arguments.op = HVD_ADASUM;
    membership.size = 2;
}

static void prescale_0(void)
{
    options = (struct hvd_options){.size = sizeof(options), .set = 4, .postscale = 1};
}

static void postscale_inf(void)
{
    options.postscale = INFINITY;
}

static void prescale_nan(void)
{
    options.prescale = NAN;
}

static void no_memory_kind(void)
{
    tensors[0].memory = (enum hvd_memory)4;
}

static void no_device(void)
{
    tensors[0].memory = HVD_MEMORY_DEVICE;
    tensors[0].device = -1;
}

static void no_wire(void)
{
    options.wire = (enum hvd_wire)3;
}

static void wire_of_double(void)
{
    options.wire = HVD_WIRE_FLOAT16;
    tensors[0].dtype = HVD_FLOAT64;
}

static void wire_of_a_member(void)
{
    mixed_group();
    options.wire = HVD_WIRE_FLOAT16;
}

static void wire_of_adasum(void)
{
    adasum();
    tensors[0].dtype = HVD_FLOAT32;
    options.wire = HVD_WIRE_BFLOAT16;
}

static void scaled_broadcast(void)
{
    arguments.kind = DESC_BROADCAST;
    options.prescale = 2;
}

static void scaled_gather(void)
{
    gather();
    options.postscale = 0;
}

static void wired_exchange(void)
{
    exchange();
    options.wire = HVD_WIRE_BFLOAT16;
}

static void root_outside(void)
{
    arguments.kind = DESC_BROADCAST;
    arguments.root = 7;
    membership.root = -1;
}

static void root_beyond(void)
{
    root_outside();
    membership.set = HVD_ALL_RANKS;
}

static void no_input_on_root(void)
{
    arguments.kind = DESC_BROADCAST;
    membership.root = membership.rank;
    tensors[0].input = NULL;
}

static void gathered_scalar(void)
{
    gather();
    tensors[0].ndim = 0;
}

static void exchanged_scalar(void)
{
    exchange_evenly();
    tensors[0].ndim = 0;
}

static void shared_scalar(void)
{
    arguments.kind = DESC_REDUCESCATTER;
    tensors[0].ndim = 0;
}

static void gathered_into_output(void)
{
    gather();
    tensors[0].output = memory;
}

static void no_result(void)
{
    exchange();
    arguments.results = NULL;
}

static void no_results(void)
{
    gather();
    arguments.grouped = true;
    arguments.results = NULL;
}

static void uneven(void)
{
    exchange_evenly();
    tensors[0].shape[0] = 7;
}

static void small_sum(void)
{
    exchange();
    splits[2] = 2;
}

static void great_sum(void)
{
    exchange();
    splits[2] = 4;
}

static void small_sum_of_shares(void)
{
    share_by_splits();
    splits[2] = 2;
}

static void reduce_at_root(void)
{
    reduce_elsewhere();
    membership.rank = 0;
}

static void adasum_at_root(void)
{
    reduce_at_root();
    arguments.op = HVD_ADASUM;
    membership.size = 2;
}

static void uneven_scatter(void)
{
    scatter_evenly();
    tensors[0].shape[0] = 7;
}

static void negative_split(void)
{
    exchange();
    splits[0] = -1;
    splits[1] = 4;
}

static void overflowing_splits(void)
{
    exchange();
    splits[1] = splits[2] = INT64_MAX;
}

static void no_tensor(void)
{
    arguments.tensors = NULL;
}

static void no_tensors(void)
{
    arguments.tensors = NULL;
    arguments.grouped = true;
}

static void empty_group(void)
{
    arguments.grouped = true;
    arguments.count = 0;
}

static void large_group(void)
{
    arguments.grouped = true;
    arguments.count = HVD_MAX_GROUP + 1;
}

static void bad_member(void)
{
    mixed_group();
    tensors[1].ndim = 1;
    tensors[1].shape[0] = -1;
}

static void nameless_member(void)
{
    mixed_group();
    tensors[1].name = NULL;
}

static void share_that_overlaps(void)
{
    share();
    tensors[0].input = memory + 3;
}

static const struct {
    void (*break_it)(void);
    const char *sentence; /* begins with this */
} bad[] = {
    {no_name, "allreduce: a tensor needs a name: the same on all ranks, 1 to 255 bytes"},
    {empty_name, "allreduce: a tensor needs a name: the same on all ranks, 1 to 255 bytes"},
    {long_name,
     "allreduce: the name \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...\" is longer than 255 bytes"},
    {control_name, "allreduce: byte 2 of the name is the control character 1; use printable characters"},
    {no_dtype, "allreduce \"x\": dtype is 99, which is not in enum hvd_dtype"},
    {many_dimensions, "allreduce \"x\": ndim is 9; expected 0 to 8"},
    {negative_dimension, "allreduce \"x\": shape[1] is -2; expected 0 or more"},
    {too_large, "allreduce \"x\": the tensor would have more than 2^47 bytes, the maximum of one operation"},
    {no_input, "allreduce \"x\": input is NULL, but there are 12 elements to read"},
    {no_output, "allreduce \"x\": output is NULL, but there are 12 elements to write"},
    {overlap_below, "allreduce \"x\": input and output overlap in part; give the same memory, or separate"},
    {overlap_above, "allreduce \"x\": input and output overlap in part; give the same memory, or separate"},
    {share_that_overlaps, "reducescatter \"x\": input and output overlap in part"},
    {no_op, "allreduce \"x\": op is 9, which is not in enum hvd_op"},
    {bits_of_reals, "allreduce \"x\": a bitwise xor needs integers or bools; this tensor is float32"},
    {bits_that_are_scaled,
     "allreduce \"x\": options.postscale is 0.5, but a bitwise and does not scale; leave it 1"},
    {average_of_bools, "allreduce \"x\": bools have no average; use HVD_SUM (or) or HVD_PRODUCT (and)"},
    {adasum_of_three,
     "allreduce \"x\": Adasum needs a power-of-two number of ranks, but process set 4 has 3"},
    {adasum_of_integers, "allreduce \"x\": Adasum needs a floating-point tensor; this one is int64"},
    {adasum_of_shares, "reducescatter \"x\": HVD_ADASUM is not supported; use hvd_allreduce"},
    {prescale_0,
     "allreduce \"x\": options.prescale is 0; expected a finite number other than 0 (begin options "
     "with HVD_OPTIONS_INIT)"},
    {postscale_inf, "allreduce \"x\": options.postscale is inf; expected a finite number other than 0"},
    {prescale_nan, "allreduce \"x\": options.prescale is nan; expected a finite number other than 0"},
    {no_memory_kind, "allreduce \"x\": memory is 4, which is not in enum hvd_memory"},
    {no_device, "allreduce \"x\": device is -1; expected CUDA's number of the GPU, 0 or more"},
    {no_wire, "allreduce \"x\": options.wire is 3, which is not in enum hvd_wire"},
    {wire_of_double,
     "allreduce \"x\": options.wire is float16, but only float32 can be sent as another type; this "
     "tensor is float64"},
    {wire_of_a_member, "grouped allreduce \"y\": options.wire is float16, but only float32 can be sent"},
    {wire_of_adasum,
     "allreduce \"x\": options.wire is bfloat16, but Adasum is always exact; leave it HVD_WIRE_EXACT"},
    {scaled_broadcast, "broadcast \"x\": options.prescale is 2, but broadcast does not scale; leave it 1"},
    {scaled_gather, "allgather \"x\": options.postscale is 0, but allgather does not scale; leave it 1"},
    {wired_exchange,
     "alltoall \"x\": options.wire is 2, but alltoall is always exact; leave it HVD_WIRE_EXACT"},
    {root_outside, "broadcast \"x\": root is 7; expected a member of process set 4, by its rank in the job"},
    {root_beyond, "broadcast \"x\": root is 7; expected a rank from 0 to 2"},
    {no_input_on_root, "broadcast \"x\": input is NULL, but there are 12 elements to read"},
    {gathered_scalar, "allgather \"x\": a scalar has no rows; give it one dimension (ndim 1, shape[0] 1)"},
    {exchanged_scalar, "alltoall \"x\": a scalar has no rows; give it one dimension (ndim 1, shape[0] 1)"},
    {shared_scalar, "reducescatter \"x\": a scalar has no rows; give it one dimension (ndim 1, shape[0] 1)"},
    {gathered_into_output,
     "allgather \"x\": output is not NULL, but the result goes to the hvd_result; leave it NULL"},
    {no_result, "alltoall \"x\": the pointer to the result is NULL; pass a zeroed struct hvd_result to let "
                "hvd allocate"},
    {no_results, "grouped allgather \"x\": the pointer to the results is NULL; pass a zeroed"},
    {uneven,
     "alltoall \"x\": 7 rows cannot be divided evenly among the 3 members of process set 4; give splits"},
    {small_sum, "alltoall \"x\": the sum of the 3 splits is 5, but shape[0] is 6; they must be equal"},
    {great_sum, "alltoall \"x\": the sum of the 3 splits is 7, but shape[0] is 6; they must be equal"},
    {small_sum_of_shares,
     "reducescatter \"x\": the sum of the 3 splits is 5, but shape[0] is 6; they must be equal"},
    {reduce_at_root, "reduce \"x\": output is NULL, but there are 12 elements to write"},
    {adasum_at_root, "reduce \"x\": HVD_ADASUM is not supported; use hvd_allreduce"},
    {uneven_scatter,
     "scatter \"x\": 7 rows cannot be divided evenly among the 3 members of process set 4; give splits"},
    {negative_split, "alltoall \"x\": splits[0] is -1; expected 0 or more"},
    {overflowing_splits,
     "alltoall \"x\": with splits[1], which is 9223372036854775807, the sum of the splits is "
     "2^63 or more; it must be shape[0], 6"},
    {no_tensor, "allreduce: the pointer to the tensor is NULL"},
    {no_tensors, "grouped allreduce: the pointer to the tensors is NULL"},
    {empty_group, "grouped allreduce: count is 0; expected 1 to 16384 tensors"},
    {large_group, "grouped allreduce \"x\": count is 16385; expected 1 to 16384 tensors"},
    {bad_member, "grouped allreduce \"y\": shape[0] is -1; expected 0 or more"},
    {nameless_member, "grouped allreduce, tensors[1]: a tensor needs a name"},
};

START_TEST(what_is_wrong_is_said)
{
    bad[_i].break_it();
    ck_assert_int_eq(arguments_check(&arguments, &membership, &err), HVD_ERR_INVALID);
    ck_assert_msg(strncmp(err.text, bad[_i].sentence, strlen(bad[_i].sentence)) == 0, "%s", err.text);
}
END_TEST

/* ---- What was asked for before ---- */

/* The description of [arguments], as it is handed in. */
static struct desc *describe(void)
{
    struct desc *desc = desc_create(arguments.count);
    desc->kind = arguments.kind;
    desc->set = options.set;
    desc->op = arguments.op;
    desc->root = arguments.root;
    desc->wire = options.wire;
    desc->prescale = options.prescale;
    desc->postscale = options.postscale;
    desc->grouped = arguments.grouped;
    for (int i = 0; i < arguments.count; i++) {
        struct desc_tensor *to = &desc->tensors[i];
        to->dtype = tensors[i].dtype;
        to->ndim = tensors[i].ndim;
        memcpy(to->shape, tensors[i].shape, sizeof(to->shape));
        if (arguments.kind == DESC_ALLGATHER)
            to->shape[0] = 0;
        memcpy(to->name, tensors[i].name, strlen(tensors[i].name) + 1);
    }
    return desc;
}

static void ask_for(enum desc_kind kind)
{
    begin();
    arguments.kind = kind;
    if (kind == DESC_ALLGATHER)
        to_result(kind);
}

/* What breaks a question after it was described must be seen, as if it were new. */
START_TEST(a_wrong_repetition_is_not_taken)
{
    static const enum desc_kind kinds[] = {DESC_ALLREDUCE, DESC_BROADCAST, DESC_ALLGATHER,
                                           DESC_REDUCESCATTER};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ask_for(kinds[i]);
        struct desc *desc = describe();
        ck_assert(arguments_match_desc(&arguments, desc));
        bad[_i].break_it();
        if (arguments_match_desc(&arguments, desc)) {
            struct hvd_error full = {""};
            struct hvd_error again = {""};
            ck_assert_int_eq(arguments_check(&arguments, &membership, &full),
                             arguments_check_again(&arguments, &membership, &again));
            ck_assert_str_eq(full.text, again.text);
        }
        desc_release(desc);
    }
}
END_TEST

START_TEST(a_broadcast_of_another_root_is_no_repetition)
{
    ask_for(DESC_BROADCAST);
    struct desc *desc = describe();
    ck_assert(arguments_match_desc(&arguments, desc));
    arguments.root = 2;
    ck_assert(!arguments_match_desc(&arguments, desc));
    desc_release(desc);
}
END_TEST

START_TEST(rows_of_an_allgather_may_differ)
{
    ask_for(DESC_ALLGATHER);
    struct desc *desc = describe();
    tensors[0].shape[0] = 9;
    ck_assert(arguments_match_desc(&arguments, desc));
    ck_assert_int_eq(arguments_check_again(&arguments, &membership, &err), HVD_OK);
    tensors[0].shape[0] = -1;
    ck_assert_int_eq(arguments_check_again(&arguments, &membership, &err), HVD_ERR_INVALID);
    tensors[0].shape[0] = INT64_MAX / 4;
    ck_assert_int_eq(arguments_check_again(&arguments, &membership, &err), HVD_ERR_INVALID);
    tensors[0].shape[0] = 9;
    tensors[0].shape[1] = 3;
    ck_assert(!arguments_match_desc(&arguments, desc));
    desc_release(desc);
}
END_TEST

static void other_kind(void)
{
    arguments.kind = DESC_REDUCESCATTER;
}

static void other_set(void)
{
    options.set = 7;
}

static void other_op(void)
{
    arguments.op = HVD_MAX;
}

static void other_wire(void)
{
    options.wire = HVD_WIRE_BFLOAT16;
}

static void other_prescale(void)
{
    options.prescale = 0.5;
}

static void other_postscale(void)
{
    options.postscale = 0.5;
}

static void a_group(void)
{
    arguments.grouped = true;
}

static void fewer(void)
{
    arguments.count = 1;
}

static void other_name(void)
{
    tensors[1].name = "z";
}

static void other_dtype(void)
{
    tensors[1].dtype = HVD_INT32;
}

static void fewer_dimensions(void)
{
    tensors[1].ndim = 1;
}

static void other_shape(void)
{
    tensors[1].shape[1] = 3;
}

static void (*const others[])(void) = {other_kind,     other_set,       other_op,         other_wire,
                                       other_prescale, other_postscale, a_group,          fewer,
                                       other_name,     other_dtype,     fewer_dimensions, other_shape};

START_TEST(another_question_is_no_repetition)
{
    arguments.count = 2;
    struct desc *desc = describe();
    in_place();
    ck_assert(arguments_match_desc(&arguments, desc));
    ck_assert_int_eq(arguments_check_again(&arguments, &membership, &err), HVD_OK);
    others[_i]();
    ck_assert(!arguments_match_desc(&arguments, desc));
    desc_release(desc);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("arguments");
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_loop_test(tcase, what_is_right_is_taken, 0, sizeof(good) / sizeof(good[0]));
    tcase_add_loop_test(tcase, what_is_wrong_is_said, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_loop_test(tcase, a_wrong_repetition_is_not_taken, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, a_broadcast_of_another_root_is_no_repetition);
    tcase_add_test(tcase, rows_of_an_allgather_may_differ);
    tcase_add_loop_test(tcase, another_question_is_no_repetition, 0, sizeof(others) / sizeof(others[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("arguments", fill);
}
