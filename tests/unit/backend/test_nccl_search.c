/* test_nccl_search.c: which of several NCCLs hvd takes. */
#define _GNU_SOURCE
#include "temp_folder.h"
#include "unit.h"

#include <dlfcn.h>
#include <limits.h>

#include "backend/nccl/nccl.h"

static struct nccl *nccl;
static struct hvd_error err;

/* The double of NCCL, under its usual name, and one that is like NCCL 2.18. */
static void build_path(char path[PATH_MAX], const char *file)
{
    const char *build = getenv("HVD_BUILD");
    snprintf(path, PATH_MAX, "%s/tests/double/nccl/.libs/%s", build != NULL ? build : ".", file);
}

/* Put a link to the library [file] of the build tree into the test's folder. */
static void put_link(const char *name, const char *file)
{
    char target[PATH_MAX], real[PATH_MAX], whole[300];
    folder_put(name, "");
    snprintf(whole, sizeof(whole), "%s/%s", folder, name);
    build_path(target, file);
    ck_assert_ptr_nonnull(realpath(target, real));
    ck_assert_int_eq(unlink(whole), 0);
    ck_assert_int_eq(symlink(real, whole), 0);
}

static void load(const char *path)
{
    ck_assert_msg(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL, "%s", dlerror());
}

/* Any library under the name of one of torch's. */
static void load_torch(void)
{
    char path[200];
    put_link("torch/lib/libtorch_cpu.so", "libnccl218.so.2");
    snprintf(path, sizeof(path), "%s/torch/lib/libtorch_cpu.so", folder);
    load(path);
}

static void open_named(const char *named)
{
    nccl_close(nccl);
    nccl = NULL;
    ck_assert_msg(nccl_open(named, NULL, &nccl, &err) == HVD_OK, "%s", err.text);
}

START_TEST(the_loaded_one_comes_first)
{
    char usual[PATH_MAX], older[PATH_MAX];
    build_path(usual, NCCL_LIBRARY);
    build_path(older, "libnccl218.so.2");
    load(usual);
    open_named("");
    ck_assert_str_eq(nccl_file(nccl), usual);
    ck_assert_str_eq(nccl_origin(nccl), "loaded by this process before");
    ck_assert(!nccl_is_instead(nccl));
    open_named(usual); /* the same file */
    ck_assert(!nccl_is_instead(nccl));
    open_named(older);
    ck_assert_str_eq(nccl_file(nccl), usual);
    ck_assert(nccl_is_instead(nccl));
}
END_TEST

START_TEST(then_the_named_one)
{
    char older[PATH_MAX];
    build_path(older, "libnccl218.so.2");
    open_named(older);
    ck_assert_str_eq(nccl_file(nccl), older);
    ck_assert_str_eq(nccl_origin(nccl), "named by --hvd-nccl-library");
    ck_assert(!nccl_is_instead(nccl));
}
END_TEST

START_TEST(a_named_one_that_is_missing_is_not_replaced)
{
    struct nccl *none = NULL;
    load_torch();
    put_link("nvidia/nccl/lib/" NCCL_LIBRARY, NCCL_LIBRARY);
    ck_assert_int_eq(nccl_open("/nowhere/libnccl.so.2", NULL, &none, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "NCCL cannot be loaded: /nowhere/libnccl.so.2"));
    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(then_the_one_that_the_loader_finds)
{
    char usual[200];
    snprintf(usual, sizeof(usual), "%s/usual/%s", folder, NCCL_LIBRARY);
    load_torch();
    put_link("nvidia/nccl/lib/" NCCL_LIBRARY, NCCL_LIBRARY);
    put_link("usual/" NCCL_LIBRARY, NCCL_LIBRARY);
    open_named("");
    ck_assert_str_eq(nccl_file(nccl), usual);
    ck_assert_str_eq(nccl_origin(nccl), "found by the loader");
}
END_TEST

START_TEST(then_the_one_beside_torch)
{
    char beside[200];
    snprintf(beside, sizeof(beside), "%s/torch/lib/../../nvidia/nccl/lib/%s", folder, NCCL_LIBRARY);
    load_torch();
    ck_assert_int_eq(nccl_open("", NULL, &nccl, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "NCCL cannot be loaded: "));
    ck_assert_ptr_null(strstr(err.text, "/torch/"));
    folder_put("nvidia/nccl/lib/" NCCL_LIBRARY, "no library");
    ck_assert_int_eq(nccl_open("", NULL, &nccl, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, beside) != NULL, "%s", err.text);
    put_link("nvidia/nccl/lib/" NCCL_LIBRARY, NCCL_LIBRARY);
    open_named("");
    ck_assert_str_eq(nccl_file(nccl), beside);
    ck_assert_str_eq(nccl_origin(nccl), "found beside torch");
}
END_TEST

static void begin(void)
{
    nccl = NULL;
    folder_put("usual/" NCCL_LIBRARY, "no library"); /* this machine's is not found */
}

static void forget(void)
{
    nccl_close(nccl);
    folder_empty();
}

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("search");
    tcase_add_checked_fixture(tcase, begin, forget);
    tcase_add_test(tcase, the_loaded_one_comes_first);
    tcase_add_test(tcase, then_the_named_one);
    tcase_add_test(tcase, a_named_one_that_is_missing_is_not_replaced);
    tcase_add_test(tcase, then_the_one_that_the_loader_finds);
    tcase_add_test(tcase, then_the_one_beside_torch);
    suite_add_tcase(suite, tcase);
}

/* The loader reads its path only when a program starts: start again, with a folder of the test in it. */
static int start_again(char **argv)
{
    char path[PATH_MAX];
    const char *rest = getenv("LD_LIBRARY_PATH");
    snprintf(folder, sizeof(folder), "/tmp/test_unit.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return EXIT_FAILURE;
    }
    snprintf(path, sizeof(path), "%s/usual", folder);
    mkdir(path, 0755); /* the loader remembers what is missing */
    snprintf(path, sizeof(path), "%s/usual%s%s", folder, rest != NULL ? ":" : "", rest != NULL ? rest : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("NCCL_SEARCH_FOLDER", folder, 1);
    execv("/proc/self/exe", argv);
    perror("/proc/self/exe");
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *made = getenv("NCCL_SEARCH_FOLDER");
    (void)argc;
    if (made == NULL)
        return start_again(argv);
    snprintf(folder, sizeof(folder), "%s", made);
    int rc = unit_run("nccl_search", fill);
    folder_remove();
    return rc;
}
