/* test_memory_budget.c: fusion buffers that do not fit are refused with the numbers; limits of cgroups are
 * found. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/memory_budget.h"

#define GIB (INT64_C(1) << 30)

static const struct {
    struct memory_budget budget;
    int64_t fusion_bytes;
    int rank_count;
    const char *sentence; /* NULL: fits */
} cases[] = {
    {{64 * GIB, INT64_MAX}, 16 * GIB, 4, NULL},
    {{64 * GIB, INT64_MAX}, 0, 1000, NULL},
    {{INT64_MAX, INT64_MAX}, 16 * GIB, 4, NULL}, /* not known */
    {{23 * GIB + 12345, INT64_MAX},
     16 * GIB,
     4,
     "fusion=16G for 4 ranks on n1 needs 64G, but the node has 23G, enough for 1; lower --hvd-fusion"},
    {{64 * GIB, 8 * GIB},
     16 * GIB,
     1,
     "fusion=16G for 1 rank on n1 needs 16G, but the job's cgroup allows 8G, enough for 0; lower "
     "--hvd-fusion"},
    {{64 * GIB, 512 << 20},
     64 << 20,
     9,
     "fusion=64M for 9 ranks on n1 needs 576M, but the job's cgroup allows 512M, enough for 8; lower "
     "--hvd-fusion"},
};

START_TEST(buffers_must_fit)
{
    struct hvd_error err = {""};
    int rc = memory_budget_check(&cases[_i].budget, cases[_i].fusion_bytes, cases[_i].rank_count, "n1", &err);
    ck_assert_int_eq(rc, cases[_i].sentence == NULL ? HVD_OK : HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text, cases[_i].sentence == NULL ? "" : cases[_i].sentence);
}
END_TEST

/* ---- A tree of cgroups in a folder that is removed again ---- */

static char root[64];
static const char *const folders[] = {"", "/job", "/job/step", "/memory", "/memory/job"};
static char files[4][128];
static int file_count;

static const char *write_file(const char *name, const char *text)
{
    char *path = files[file_count++];
    snprintf(path, sizeof(files[0]), "%s%s", root, name);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static void make_tree(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(root, sizeof(root), "%.40s/hvd-budget-XXXXXX", parent != NULL ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (size_t i = 1; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s%s", root, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
}

static void remove_tree(void)
{
    while (file_count > 0)
        unlink(files[--file_count]);
    for (size_t i = sizeof(folders) / sizeof(folders[0]); i-- > 0;) {
        char path[128];
        snprintf(path, sizeof(path), "%s%s", root, folders[i]);
        rmdir(path);
    }
}

static const struct {
    const char *self; /* /proc/self/cgroup */
    const char *name, *text;
    const char *other_name, *other_text;
    int64_t bytes;
} trees[] = {
    {"0::/job/step\n", "/job/memory.max", "8000\n", "/job/step/memory.max", "max\n", 8000},
    {"0::/job/step\n", "/job/memory.max", "8000\n", "/job/step/memory.max", "7000\n", 7000},
    {"0::/job", "/job/memory.max", "3000", "/memory.max", "4000", 3000},
    {"0::/\n", "/memory.max", "5000\n", "/job/memory.max", "4000\n", 5000},
    {"0::/hidden/above\n", "/memory.max", "5000\n", "/job/memory.max", "4000\n", 5000},
    {"5:cpu,cpuacct:/job\n4:memory:/job\n", "/memory/job/memory.limit_in_bytes", "6000\n",
     "/memory/memory.limit_in_bytes", "9223372036854771712\n", 6000},
    {"0::/job/step\n", "/job/memory.max", "many\n", "/job/step/memory.max", "", INT64_MAX},
    {"nonsense\n:\n::\n", "/memory.max", "1\n", "/job/memory.max", "1\n", INT64_MAX},
    {"", "/memory.max", "1\n", "/job/memory.max", "1\n", INT64_MAX},
};

START_TEST(the_lowest_limit_counts)
{
    const char *self = write_file("/self", trees[_i].self);
    write_file(trees[_i].name, trees[_i].text);
    write_file(trees[_i].other_name, trees[_i].other_text);
    int64_t bytes = memory_budget_cgroup_bytes(self, root);
    remove_tree();
    ck_assert_int_eq(bytes, trees[_i].bytes);
}
END_TEST

START_TEST(this_machine_has_memory)
{
    struct memory_budget budget = {0, 0};
    memory_budget_read(&budget);
    ck_assert_int_gt(budget.node_bytes, 0);
    ck_assert_int_gt(budget.cgroup_bytes, 0);
    ck_assert_int_eq(memory_budget_cgroup_bytes("/nowhere", "/nowhere"), INT64_MAX);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("memory_budget");
    tcase_add_loop_test(tcase, buffers_must_fit, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, this_machine_has_memory);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("cgroup");
    tcase_add_checked_fixture(tcase, make_tree, remove_tree);
    tcase_add_loop_test(tcase, the_lowest_limit_counts, 0, sizeof(trees) / sizeof(trees[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("memory_budget", fill);
}
