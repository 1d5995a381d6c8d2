/* test_nccl_choice.c: what NCCL is asked to carry, and which factors it may apply. */
#include "unit.h"

#include "backend/nccl/nccl.h"

static struct backend_need need_of(enum backend_kind kind, enum hvd_dtype dtype, enum hvd_op op, int ranks)
{
    return (struct backend_need){.kind = kind, .dtype = dtype, .partial = dtype, .op = op, .ranks = ranks};
}

START_TEST(carries)
{
    static const struct nccl_use all = {.possible = true, .float8 = true};
    static const struct nccl_use nothing;
    static const struct {
        enum backend_kind kind;
        enum hvd_dtype dtype;
        enum hvd_op op;
        double prescale, postscale;
        bool yes;
    } cases[] = {{COLL_ALLREDUCE, HVD_FLOAT32, HVD_AVERAGE, 0.3, 7, true},
                 {COLL_ALLREDUCE, HVD_FLOAT8_E4M3, HVD_AVERAGE, 0.3, 7, true},
                 {COLL_REDUCESCATTER, HVD_FLOAT8_E5M2, HVD_MAX, 1, 1, true},
                 {COLL_ALLREDUCE, HVD_FLOAT64, HVD_MIN, 1, 1, true},
                 {COLL_REDUCESCATTER, HVD_BFLOAT16, HVD_SUM, 2, 1, true},
                 {COLL_ALLREDUCE, HVD_FLOAT16, HVD_PRODUCT, 1, 1, true},
                 {COLL_ALLREDUCE, HVD_INT32, HVD_BOR, 1, 1, false},
                 {COLL_ALLREDUCE, HVD_INT64, HVD_SUM, 1, 1, true},
                 {COLL_ALLREDUCE, HVD_INT32, HVD_MAX, 1, 1, true},
                 {COLL_ALLREDUCE, HVD_UINT8, HVD_SUM, 1, 1, true},
                 {COLL_ALLREDUCE, HVD_INT8, HVD_SUM, 1, 1, true},
                 {COLL_ALLREDUCE, HVD_INT32, HVD_AVERAGE, 1, 1, false},
                 {COLL_ALLREDUCE, HVD_INT32, HVD_SUM, 2, 1, false},
                 {COLL_REDUCESCATTER, HVD_INT64, HVD_SUM, 1, 0.5, false},
                 {COLL_ALLREDUCE, HVD_INT16, HVD_SUM, 1, 1, false},
                 {COLL_ALLREDUCE, HVD_UINT16, HVD_MAX, 1, 1, false},
                 {COLL_ALLREDUCE, HVD_BOOL, HVD_MAX, 1, 1, false},
                 {COLL_BROADCAST, HVD_BOOL, HVD_SUM, 1, 1, true},
                 {COLL_ALLGATHER, HVD_INT16, HVD_SUM, 1, 1, true},
                 {COLL_ALLTOALL, HVD_UINT16, HVD_SUM, 1, 1, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct backend_need need = need_of(cases[i].kind, cases[i].dtype, cases[i].op, 4);
        ck_assert_msg(nccl_carries(&all, &need, cases[i].prescale, cases[i].postscale) == cases[i].yes,
                      "case %d", (int)i);
        ck_assert(!nccl_carries(&nothing, &need, cases[i].prescale, cases[i].postscale));
    }
}
END_TEST

START_TEST(moves_float8_where_it_does_not_reduce_them)
{
    static const struct nccl_use old = {.possible = true};
    struct backend_need need = need_of(COLL_ALLREDUCE, HVD_FLOAT8_E4M3, HVD_SUM, 4);
    ck_assert(!nccl_carries(&old, &need, 1, 1));
    need.dtype = HVD_FLOAT16;
    ck_assert(nccl_carries(&old, &need, 1, 1));
    need = need_of(COLL_ALLGATHER, HVD_FLOAT8_E5M2, HVD_SUM, 4);
    ck_assert(nccl_carries(&old, &need, 1, 1));
}
END_TEST

START_TEST(scales)
{
    static const struct {
        enum hvd_dtype dtype;
        enum hvd_op op;
        int ranks;
        double prescale, postscale;
        bool yes;
    } cases[] = {{HVD_FLOAT32, HVD_AVERAGE, 3, 1, 1, true},
                 {HVD_FLOAT64, HVD_SUM, 3, 0.1, 7, true},
                 {HVD_FLOAT16, HVD_SUM, 3, 1, 1, true},
                 {HVD_FLOAT16, HVD_AVERAGE, 4, 1, 1, true},
                 {HVD_FLOAT16, HVD_AVERAGE, 3, 1, 1, false},
                 {HVD_FLOAT16, HVD_AVERAGE, 3, 3, 1, true}, /* the factor is 1 */
                 {HVD_BFLOAT16, HVD_AVERAGE, 6, 1, 1.5, true},
                 {HVD_BFLOAT16, HVD_AVERAGE, 6, 1, 1, false},
                 {HVD_BFLOAT16, HVD_SUM, 2, 0.5, 0.25, true},
                 {HVD_BFLOAT16, HVD_SUM, 2, -2, 1, false},
                 {HVD_FLOAT16, HVD_SUM, 2, 65536, 1, false}, /* infinite */
                 {HVD_FLOAT8_E4M3, HVD_AVERAGE, 2, 1, 1, false},
                 {HVD_FLOAT8_E5M2, HVD_SUM, 2, 1, 1, true},
                 {HVD_FLOAT32, HVD_MAX, 2, 2, 1, false},
                 {HVD_FLOAT32, HVD_MAX, 2, 1, 1, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct backend_need need = need_of(COLL_ALLREDUCE, cases[i].dtype, cases[i].op, cases[i].ranks);
        ck_assert_msg(nccl_scales(&need, cases[i].prescale, cases[i].postscale) == cases[i].yes, "case %d",
                      (int)i);
    }
    struct backend_need need = need_of(COLL_BROADCAST, HVD_FLOAT16, HVD_AVERAGE, 3);
    ck_assert(nccl_scales(&need, 1, 1));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nccl choice");
    tcase_add_test(tcase, carries);
    tcase_add_test(tcase, moves_float8_where_it_does_not_reduce_them);
    tcase_add_test(tcase, scales);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nccl_choice", fill);
}
