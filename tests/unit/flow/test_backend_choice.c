/* test_backend_choice.c: which backends a rank says can carry an operation. */
#include "unit.h"

#include "descs.h"
#include "flow/backend_choice.h"

#define BIT(backend) (UINT32_C(1) << (backend))
#define SHM          BIT(BACKEND_SHM)
#define TCP          BIT(BACKEND_TCP)
#define HIER         BIT(BACKEND_HIER_TCP)
#define LOCAL        BIT(BACKEND_LOCAL)

enum { ALL = 0, THREE = 1, FAR = 2, SPREAD = 3, ALONE = 4, NONE = 9 };

static const int ranks[] = {0, 1, 2, 3};
static struct set_registry *sets;
static struct process_set members_of[5];
static struct backends backends;
static struct desc *desc;
static const struct nccl_use no_nccl;

static void add(hvd_set set, int size, int ppn, uint32_t usable)
{
    const struct team members = {.set = set, .size = size, .ppn = ppn, .ranks = ranks};
    ck_assert_int_eq(set_registry_add(sets, &members, false, usable, &members_of[set], NULL), HVD_OK);
}

/* A rank that has four backends; not each of them reaches all members of each set. */
static void begin(void)
{
    backends = (struct backends){
        .available = {
            [BACKEND_LOCAL] = true, [BACKEND_SHM] = true, [BACKEND_HIER_TCP] = true, [BACKEND_TCP] = true}};
    ck_assert_int_eq(set_registry_create(&sets, 0, NULL), HVD_OK);
    add(ALL, 4, 0, SHM | TCP);
    add(THREE, 3, 0, SHM | TCP | HIER);
    add(FAR, 2, 0, TCP);
    add(SPREAD, 4, 2, HIER | TCP);
    add(ALONE, 1, 0, LOCAL | SHM | TCP);
    desc = desc_vector("x", 10);
}

static void end(void)
{
    desc_release(desc);
    set_registry_destroy(sets);
}

static uint32_t chosen(enum desc_kind kind, hvd_set set)
{
    desc->kind = kind;
    desc->set = set;
    return backend_choice(&backends, sets, &no_nccl, desc);
}

START_TEST(those_that_the_set_may_use_and_that_carry_the_operation)
{
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, ALL), SHM | TCP);
    ck_assert_uint_eq(chosen(DESC_BROADCAST, ALL), SHM | TCP);
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, FAR), TCP);
    ck_assert_uint_eq(chosen(DESC_REDUCESCATTER, SPREAD), HIER | TCP);
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, ALONE), LOCAL);
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, NONE), 0);
}
END_TEST

/* An alltoall over hier needs equally many members on each node. */
START_TEST(the_shape_of_the_set_counts)
{
    ck_assert_uint_eq(chosen(DESC_ALLTOALL, THREE), SHM | TCP);
    ck_assert_uint_eq(chosen(DESC_ALLGATHER, THREE), SHM | TCP | HIER);
    ck_assert_uint_eq(chosen(DESC_ALLTOALL, SPREAD), HIER | TCP);
}
END_TEST

START_TEST(each_type_of_a_group_counts)
{
    struct desc *group = desc_group(3, 10);
    ck_assert_uint_eq(backend_choice(&backends, sets, &no_nccl, group), SHM | TCP);
    group->op = HVD_AVERAGE;
    ck_assert_uint_eq(backend_choice(&backends, sets, &no_nccl, group), SHM | TCP);
    group->tensors[2].dtype = HVD_BOOL; /* has no average */
    ck_assert_uint_eq(backend_choice(&backends, sets, &no_nccl, group), 0);
    group->tensors[2].dtype = HVD_FLOAT32;
    group->tensors[0].dtype = HVD_BOOL;
    ck_assert_uint_eq(backend_choice(&backends, sets, &no_nccl, group), 0);
    desc_release(group);
}
END_TEST

START_TEST(adasum_needs_a_power_of_two)
{
    desc->op = HVD_ADASUM;
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, ALL), SHM | TCP);
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, THREE), 0);
    ck_assert_uint_eq(chosen(DESC_ALLREDUCE, FAR), TCP);
    /* other kinds do not look at it */
    ck_assert_uint_eq(chosen(DESC_BROADCAST, THREE), SHM | TCP | HIER);
}
END_TEST

START_TEST(a_new_set_may_use_what_this_rank_has)
{
    ck_assert_uint_eq(chosen(DESC_SET_ADD, ALL), LOCAL | SHM | TCP | HIER);
    backends.available[BACKEND_SHM] = false;
    ck_assert_uint_eq(chosen(DESC_SET_ADD, ALL), LOCAL | TCP | HIER);
}
END_TEST

START_TEST(a_join_may_use_what_the_set_and_this_rank_have)
{
    ck_assert_uint_eq(chosen(DESC_JOIN, ALL), SHM | TCP);
    backends.available[BACKEND_TCP] = false;
    ck_assert_uint_eq(chosen(DESC_JOIN, ALL), SHM);
    ck_assert_uint_eq(chosen(DESC_JOIN, FAR), 0);
    ck_assert_uint_eq(chosen(DESC_JOIN, NONE), 0);
}
END_TEST

START_TEST(what_moves_no_data_needs_none)
{
    ck_assert_uint_eq(chosen(DESC_BARRIER, ALL), 0);
    ck_assert_uint_eq(chosen(DESC_SET_REMOVE, ALL), 0);
    ck_assert_uint_eq(chosen(DESC_SHUTDOWN, ALL), 0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("backend_choice");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, those_that_the_set_may_use_and_that_carry_the_operation);
    tcase_add_test(tcase, the_shape_of_the_set_counts);
    tcase_add_test(tcase, each_type_of_a_group_counts);
    tcase_add_test(tcase, adasum_needs_a_power_of_two);
    tcase_add_test(tcase, a_new_set_may_use_what_this_rank_has);
    tcase_add_test(tcase, a_join_may_use_what_the_set_and_this_rank_have);
    tcase_add_test(tcase, what_moves_no_data_needs_none);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("backend_choice", fill);
}
