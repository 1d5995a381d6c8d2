/* test_mpi_choice.c: when MPI may carry tensors; and how libhvd finds that out in a process whose MPI is a
 * fake. */
#include "config.h"
#include "unit.h"

#include <string.h>

#include "backend/mpi/mpi_choice.h"
#include "backend/backend_env.h"

#define OURS   "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"
#define NEWER  "Open MPI v5.0.2, package: Open MPI"
#define FORTY  "Open MPI v40.1.4, package: Open MPI"
#define OTHERS "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022"

static const struct {
    struct mpi_facts facts;
    const char *why; /* part of the phrase; NULL: it may be used */
} cases[] = {
    /* size, nodes, built with, asked, library, initialised, finalised, level, PMIx, RDMA, part, encrypted */
    {{4, 2, NULL, true, OURS, true, false, 3, true, true, false, false}, "built without MPI"},
    {{1, 1, "4.1.4", true, OURS, true, false, 3, true, true, false, false}, "one rank"},
    {{4, 1, "4.1.4", false, OURS, true, false, 3, true, true, false, false}, "one node; backends=mpi"},
    {{4, 1, "4.1.4", true, OURS, true, false, 3, true, true, false, false}, NULL},
    {{4, 2, "4.1.4", false, OTHERS, true, false, 3, true, true, false, false}, "another MPI library"},
    {{4, 2, "4.1.4", false, NEWER, true, false, 3, true, true, false, false}, "another MPI library"},
    {{4, 2, "4.1.4", false, FORTY, true, false, 3, true, true, false, false}, "another MPI library"},
    {{4, 2, "4.1.4", false, OTHERS, false, false, 0, true, true, false, false}, "another MPI library"},
    {{4, 2, "4.1.4", false, "", true, false, 3, true, true, false, false}, "another MPI library"},
    {{4, 2, "4.1.4", false, OURS, true, true, 3, true, true, false, false}, "MPI_Finalize"},
    {{4, 2, "4.1.4", false, OURS, true, false, 0, true, true, false, false},
     "MPI_THREAD_SINGLE; ask for MPI_THREAD_SERIALIZED"},
    {{4, 2, "4.1.4", false, OURS, true, false, 1, true, true, false, false},
     "MPI_THREAD_FUNNELED; ask for MPI_THREAD_SERIALIZED"},
    {{4, 2, "4.1.4", false, OURS, true, false, 2, false, true, false, false}, NULL},
    {{4, 2, "4.1.4", false, OURS, true, false, 3, false, true, false, false}, NULL},
    {{4, 2, "4.1.4", true, OURS, true, false, 3, false, false, false, false}, NULL},
    {{4, 2, "4.1.4", false, OURS, true, false, 3, false, false, false, false}, "no RDMA device"},
    {{4, 2, "4.1.4", true, NULL, false, false, 0, false, true, false, false}, "no PMIx"},
    {{4, 2, "4.1.4", true, OURS, false, false, 0, false, true, false, false}, "no PMIx"},
    {{4, 2, "4.1.4", false, NULL, false, false, 0, true, false, false, false}, "no RDMA device"},
    {{4, 2, "4.1.4", false, NULL, false, false, 0, true, true, false, false}, NULL},
    {{4, 2, "4.1.4", true, NULL, false, false, 0, true, false, false, false}, NULL},
    {{4, 2, "4.1.4", true, NULL, false, false, 0, true, true, true, false}, "part of the launcher's"},
    {{4, 2, "4.1.4", true, OURS, true, false, 3, true, true, false, true}, "cannot encrypt what MPI sends"},
    {{4, 2, "4.1.4", false, OURS, true, false, 2, true, true, true, false}, NULL},
};

START_TEST(decides)
{
    const char *why = NULL;
    bool usable = mpi_choice(&cases[_i].facts, &why);
    ck_assert_msg(usable == (cases[_i].why == NULL), "%s", why != NULL ? why : "usable");
    if (!usable)
        ck_assert_msg(strstr(why, cases[_i].why) != NULL, "%s", why);
}
END_TEST

/* ---- The fake: exported by this program, so that libhvd's look-up by name finds it ------------- */

#define FAKE __attribute__((visibility("default")))

static struct {
    const char *library;
    int initialized, finalized, level;
} fake;

FAKE int MPI_Get_library_version(char *text, int *lengthp);
FAKE int MPI_Initialized(int *flagp);
FAKE int MPI_Finalized(int *flagp);
FAKE int MPI_Query_thread(int *levelp);

int MPI_Get_library_version(char *text, int *lengthp)
{
    size_t length = strlen(fake.library);
    memcpy(text, fake.library, length + 1);
    *lengthp = (int)length;
    return 0;
}

int MPI_Initialized(int *flagp)
{
    *flagp = fake.initialized;
    return 0;
}

int MPI_Finalized(int *flagp)
{
    *flagp = fake.finalized;
    return 0;
}

int MPI_Query_thread(int *levelp)
{
    *levelp = fake.level;
    return 0;
}

static bool ask_stub(const char **whyp)
{
    struct hvd_job job = {.rank = 1, .size = 4};
    struct tree_shape shape = {.node_count = 2};
    struct hvd_config config = {.backends = 0};
    ck_assert_int_eq(option_parse(OPTION_OF(backends), "backends", "tcp,mpi", &config, NULL), HVD_OK);
    struct backend_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    return backend_mpi.available(&env, whyp);
}

START_TEST(asks_the_library_in_the_process)
{
    const char *why = NULL;
    unsetenv("PMIX_NAMESPACE");
    fake.library = OTHERS;
    ck_assert(!ask_stub(&why));
#ifdef HAVE_MPI
    ck_assert_ptr_nonnull(strstr(why, "another MPI library"));
    fake.library = "Open MPI v" BUILT_WITH_MPI ", package: fake";
    ck_assert(!ask_stub(&why));
    ck_assert_ptr_nonnull(strstr(why, "no PMIx"));
    setenv("PMIX_NAMESPACE", "fake", 1);
    ck_assert(ask_stub(&why));
    unsetenv("PMIX_NAMESPACE");
    fake.initialized = 1;
    fake.level = 1;
    ck_assert(!ask_stub(&why));
    ck_assert_ptr_nonnull(strstr(why, "MPI_THREAD_FUNNELED"));
    fake.level = 2;
    ck_assert(ask_stub(&why));
    fake.finalized = 1;
    ck_assert(!ask_stub(&why));
    ck_assert_ptr_nonnull(strstr(why, "MPI_Finalize"));
#else
    ck_assert_ptr_nonnull(strstr(why, "built without MPI"));
#endif
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("mpi_choice");
    tcase_add_loop_test(tcase, decides, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, asks_the_library_in_the_process);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("mpi_choice", fill);
}
