/* test_fuse.c: packing agreed operations into batches. */
#include "unit.h"

#include <string.h>

#include "base/planes.h"
#include "flow/fuse.h"

/* An item as the tests write it: kind and type by letters, bytes. 'f' float32 sum, 'd' float64 sum, 'a'
 * float32 average, 'b' broadcast from 0, 'c' broadcast from 1, 'm' float32 sum over mpi. */
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
    {"planes do not mix", 100, {{'f', 10}, {'m', 10}, {'f', 10}}, 3, {0, 1, 0}, 2},
    {"a large one stays alone", 100, {{'f', 30}, {'f', 100}, {'f', 30}}, 3, {0, 1, 0}, 2},
    {"a larger one stays alone", 100, {{'f', 30}, {'f', 1000}, {'f', 30}}, 3, {0, 1, 0}, 2},
    {"without bytes alone", 100, {{'f', 30}, {'f', 0}, {'f', 30}}, 3, {0, 1, 0}, 2},
    {"nothing fuses at 0", 0, {{'f', 30}, {'f', 30}}, 2, {0, 1}, 2},
    {"a full batch is left for a new one", 50, {{'f', 30}, {'f', 30}, {'f', 20}}, 3, {0, 1, 1}, 2},
    {"none", 100, {{0}}, 0, {0}, 0},
};

static struct desc describe(char what)
{
    struct desc desc = {.kind = DESC_ALLREDUCE, .dtype = HVD_FLOAT32};
    if (what == 'd')
        desc.dtype = HVD_FLOAT64;
    if (what == 'a')
        desc.op = HVD_AVERAGE;
    if (what == 'b' || what == 'c')
        desc.kind = DESC_BROADCAST;
    desc.root = what == 'c';
    return desc;
}

START_TEST(items_find_their_batch)
{
    struct desc descs[8];
    struct fuse_item items[8] = {0};
    int batches[8] = {0};
    for (int i = 0; i < cases[_i].count; i++) {
        descs[i] = describe(cases[_i].items[i].what);
        items[i] = (struct fuse_item){&descs[i], cases[_i].items[i].what == 'm' ? PLANE_MPI : PLANE_TCP,
                                      cases[_i].items[i].bytes};
    }
    int count = fuse_plan(items, cases[_i].count, cases[_i].threshold, batches);
    ck_assert_msg(count == cases[_i].batch_count, "%s: %d batches", cases[_i].why, count);
    for (int i = 0; i < cases[_i].count; i++)
        ck_assert_msg(batches[i] == cases[_i].batches[i], "%s: item %d in batch %d", cases[_i].why, i,
                      batches[i]);
}
END_TEST

/* Whatever comes: no batch over the threshold, numbers in the order of first members, every item somewhere.
 */
START_TEST(random_items_keep_the_rules)
{
    static const char kinds[] = "fdabcm";
    unsigned seed = (unsigned)_i + 1;
    struct desc descs[200];
    struct fuse_item items[200];
    int batches[200];
    int64_t bytes_of[200] = {0};
    for (int i = 0; i < 200; i++) {
        seed = seed * 1103515245u + 12345u;
        char what = kinds[(seed >> 16) % 6];
        descs[i] = describe(what);
        items[i] = (struct fuse_item){&descs[i], what == 'm' ? PLANE_MPI : PLANE_TCP, (seed >> 20) % 700};
    }
    int count = fuse_plan(items, 200, 1000, batches);
    int seen = 0;
    for (int i = 0; i < 200; i++) {
        ck_assert_int_le(batches[i], seen);
        seen += batches[i] == seen;
        bytes_of[batches[i]] += items[i].bytes;
    }
    ck_assert_int_eq(seen, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_le(bytes_of[i], 1000);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("fuse");
    tcase_add_loop_test(tcase, items_find_their_batch, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_loop_test(tcase, random_items_keep_the_rules, 0, 20);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("fuse", fill);
}
