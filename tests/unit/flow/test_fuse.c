/* test_fuse.c: packing agreed operations into batches. */
#include "unit.h"

#include <string.h>

#include "base/backend_id.h"
#include "flow/batch/fuse.h"

/* An item as the tests write it: kind and type by letters, bytes. 'f' float32 sum, 'd' float64 sum, 'a'
 * float32 average, 'b' broadcast from 0, 'c' broadcast from 1, 'm' float32 sum over mpi, 'p' prescaled, 'q'
 * postscaled, 'h' as float16, 's' in set 1, 'r' reducescatter, 'g' allgather, 't' alltoall, 'x' Adasum. */
struct item {
    char what;
    int64_t bytes;
};

static const struct {
    const char *why;
    int64_t threshold;
    struct item items[8];
    int count;
    int batches[8];
    int batch_count;
} cases[] = {
    {"all fit", 100, {{'f', 30}, {'f', 30}, {'f', 30}}, 3, {0, 0, 0}, 1},
    {"exactly full", 90, {{'f', 30}, {'f', 30}, {'f', 30}}, 3, {0, 0, 0}, 1},
    {"one byte too many", 89, {{'f', 30}, {'f', 30}, {'f', 30}}, 3, {0, 0, 1}, 2},
    {"others may stand between", 100, {{'f', 30}, {'d', 30}, {'f', 30}, {'d', 30}}, 4, {0, 1, 0, 1}, 2},
    {"operations do not mix", 100, {{'f', 10}, {'a', 10}, {'b', 10}}, 3, {0, 1, 2}, 3},
    {"roots do not mix", 100, {{'b', 10}, {'c', 10}, {'b', 10}}, 3, {0, 1, 0}, 2},
    {"backends do not mix", 100, {{'f', 10}, {'m', 10}, {'f', 10}}, 3, {0, 1, 0}, 2},
    {"a large one stays alone", 100, {{'f', 30}, {'f', 100}, {'f', 30}}, 3, {0, 1, 0}, 2},
    {"a larger one stays alone", 100, {{'f', 30}, {'f', 1000}, {'f', 30}}, 3, {0, 1, 0}, 2},
    {"without bytes alone", 100, {{'f', 30}, {'f', 0}, {'f', 30}}, 3, {0, 1, 0}, 2},
    {"nothing fuses at 0", 0, {{'f', 30}, {'f', 30}}, 2, {0, 1}, 2},
    {"a full batch is left for a new one", 50, {{'f', 30}, {'f', 30}, {'f', 20}}, 3, {0, 1, 1}, 2},
    {"factors do not mix", 100, {{'f', 10}, {'p', 10}, {'q', 10}, {'p', 10}}, 4, {0, 1, 2, 1}, 3},
    {"transferred types do not mix", 100, {{'f', 10}, {'h', 10}, {'h', 10}}, 3, {0, 1, 1}, 2},
    {"sets do not mix", 100, {{'f', 10}, {'s', 10}, {'f', 10}, {'s', 10}}, 4, {0, 1, 0, 1}, 2},
    {"reducescatters fuse", 100, {{'r', 10}, {'r', 10}}, 2, {0, 0}, 1},
    {"allgathers fuse", 100, {{'g', 10}, {'g', 10}}, 2, {0, 0}, 1},
    {"alltoalls stay alone", 100, {{'t', 10}, {'t', 10}}, 2, {0, 1}, 2},
    {"Adasums stay alone", 100, {{'x', 10}, {'x', 10}}, 2, {0, 1}, 2},
    {"none", 100, {{0}}, 0, {0}, 0},
};

static struct desc *describe(char what)
{
    struct desc *desc = desc_create(1);
    desc->kind = DESC_ALLREDUCE;
    desc->tensors[0].dtype = what == 'd' ? HVD_FLOAT64 : HVD_FLOAT32;
    if (what == 'a')
        desc->op = HVD_AVERAGE;
    if (what == 'x')
        desc->op = HVD_ADASUM;
    if (what == 'b' || what == 'c')
        desc->kind = DESC_BROADCAST;
    if (what == 'r')
        desc->kind = DESC_REDUCESCATTER;
    if (what == 'g')
        desc->kind = DESC_ALLGATHER;
    if (what == 't')
        desc->kind = DESC_ALLTOALL;
    if (what == 'p')
        desc->prescale = 2;
    if (what == 'q')
        desc->postscale = 2;
    if (what == 'h')
        desc->wire = HVD_WIRE_FLOAT16;
    desc->set = what == 's';
    desc->root = what == 'c';
    return desc;
}

static struct fuse_item make_item(char what, int64_t bytes)
{
    return (struct fuse_item){
        .desc = describe(what), .backend = what == 'm' ? BACKEND_MPI : BACKEND_TCP, .bytes = bytes};
}

static void drop_items(const struct fuse_item *items, int count)
{
    for (int i = 0; i < count; i++)
        desc_release(items[i].desc);
}

START_TEST(items_find_their_batch)
{
    struct fuse_item items[8] = {{0}};
    int item_count = cases[_i].count;
    for (int i = 0; i < item_count; i++)
        items[i] = make_item(cases[_i].items[i].what, cases[_i].items[i].bytes);
    int count = fuse_plan(items, item_count, cases[_i].threshold);
    ck_assert_msg(count == cases[_i].batch_count, "%s: %d batches", cases[_i].why, count);
    for (int i = 0; i < item_count; i++)
        ck_assert_msg(items[i].batch == cases[_i].batches[i], "%s: item %d in batch %d", cases[_i].why, i,
                      items[i].batch);
    drop_items(items, item_count);
}
END_TEST

#define MANY 400

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* Whatever comes: no batch over the threshold, numbers in the order of first members, every item somewhere.
 */
START_TEST(random_items_keep_the_rules)
{
    static const char kinds[] = "fdabcmpqhsrg";
    unsigned seed = (unsigned)_i + 1;
    struct fuse_item items[MANY];
    int64_t bytes_of[MANY] = {0};
    for (int i = 0; i < MANY; i++) {
        char what = kinds[next_random(&seed) % (sizeof(kinds) - 1)];
        items[i] = make_item(what, next_random(&seed) % 700);
    }
    int count = fuse_plan(items, MANY, 1000);
    int seen = 0;
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_le(items[i].batch, seen);
        seen += items[i].batch == seen;
        bytes_of[items[i].batch] += items[i].bytes;
    }
    ck_assert_int_eq(seen, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_le(bytes_of[i], 1000);
    drop_items(items, MANY);
}
END_TEST

/* A rank that is in one set only cuts its items as those do which see the others' in between. */
START_TEST(a_set_is_cut_alike_whatever_stands_between)
{
    unsigned seed = (unsigned)_i + 1;
    struct fuse_item items[MANY];
    struct fuse_item own[MANY];
    int own_count = 0;
    for (int i = 0; i < MANY; i++) {
        /* many kinds, each in a set of its own */
        bool mine = next_random(&seed) % 4 == 0;
        struct desc *desc = describe("fd"[next_random(&seed) % 2]);
        desc->set = mine ? 7 : 100 + (int)(next_random(&seed) % 150);
        items[i] =
            (struct fuse_item){.desc = desc, .backend = BACKEND_TCP, .bytes = next_random(&seed) % 700};
        if (mine)
            own[own_count++] = items[i];
    }
    fuse_plan(items, MANY, 1000);
    fuse_plan(own, own_count, 1000);
    int number_of[MANY];
    int at = 0;
    memset(number_of, 0xff, sizeof(number_of));
    for (int i = 0; i < MANY; i++) {
        if (items[i].desc->set != 7)
            continue;
        if (number_of[own[at].batch] < 0)
            number_of[own[at].batch] = items[i].batch;
        ck_assert_int_eq(number_of[own[at].batch], items[i].batch);
        at++;
    }
    for (int i = 1; i < own_count && number_of[i] >= 0; i++)
        ck_assert_int_lt(number_of[i - 1], number_of[i]);
    drop_items(items, MANY);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("fuse");
    unit_add_rounds(tcase, items_find_their_batch, 0, sizeof(cases) / sizeof(cases[0]));
    unit_add_rounds(tcase, random_items_keep_the_rules, 0, 20);
    unit_add_rounds(tcase, a_set_is_cut_alike_whatever_stands_between, 0, 20);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("fuse", fill);
}
