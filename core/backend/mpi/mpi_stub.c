/* mpi_stub.c: stands in libhvd for the module backend_mpi.so, so that MPI is loaded only where it carries
 * tensors. */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/module.h"
#include "base/mpi_symbols.h"
#include "backend/sched/chain.h"
#include "backend/sched/pairwise.h"
#include "backend/mpi/mpi_choice.h"
#include "backend/mpi/start_watch.h"
#include "backend/backend_env.h"

#define LIBRARY_VERSION_BYTES 8193 /* the largest MPI_MAX_LIBRARY_VERSION_STRING of any MPI, and a 0 */

#ifdef HAVE_MPI
static const char *const built_with = BUILT_WITH_MPI;
#else
static const char *const built_with = NULL;
#endif

/* ---- Is it available? ----------------------------------------------------------------------- */

static bool has_entries(const char *path)
{
    bool found = false;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return false;
    for (struct dirent *entry = readdir(folder); entry != NULL && !found; entry = readdir(folder))
        found = entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

/* InfiniBand, RoCE, Omni-Path and EFA devices are all of the first class, those of Slingshot of the second.
 */
static bool has_rdma_device(void)
{
    return has_entries("/sys/class/infiniband") || has_entries("/sys/class/cxi");
}

static bool is_asked_for(const struct hvd_config *config)
{
    for (int i = 0; option_list_choice(config->backends, i) >= 0; i++) {
        int backend = option_list_choice(config->backends, i);
        if (backend == BACKEND_MPI || backend == BACKEND_HIER_MPI)
            return true;
    }
    return false;
}

static bool stub_available(const struct backend_env *env, const char **whyp)
{
    char *library = calloc(LIBRARY_VERSION_BYTES, 1);
    int length = 0;
    int flag = 0;
    struct mpi_symbols symbols;
    struct mpi_facts facts = {
        .size = env->job->size,
        .node_count = env->shape->node_count,
        .sub_job = env->job->launcher_ranks != NULL,
        .built_with = built_with,
        .asked = is_asked_for(env->config),
        .pmix = getenv("PMIX_NAMESPACE") != NULL,
        .rdma = has_rdma_device(),
        .encrypt = env->config->encrypt,
    };
    if (library != NULL && mpi_symbols_find(&symbols)) {
        symbols.get_library_version(library, &length);
        facts.library = library;
        symbols.initialized(&flag);
        facts.initialized = flag != 0;
        symbols.finalized(&flag);
        facts.finalized = flag != 0;
        if (facts.initialized && !facts.finalized)
            symbols.query_thread(&facts.thread_level);
    }
    bool available = mpi_choice(&facts, whyp);
    free(library);
    return available;
}

static bool stub_supports(const struct backend_need *need)
{
    return chain_supports(need) || pairwise_supports(need);
}

/* ---- The module behind it ------------------------------------------------------------------- */

struct stub {
    const struct backend_ops *ops; /* the module's */
    void *module;
    void *state;
};

/* dlclose does not unload the module: module_open keeps it, as MPI must stay loaded. */
static int stub_open(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    int status;
    struct stub *stub = calloc(1, sizeof(*stub));
    if (stub == NULL)
        return error_set_errno(err, "backend mpi: no memory for %zu bytes", sizeof(*stub));
    stub->ops = module_open("backend_mpi.so", "backend_mpi_module", &stub->module, err);
    status = HVD_ERR_SYSTEM;
    if (stub->ops == NULL)
        goto fail;
    struct start_watch *start_watch = start_watch_begin(env);
    status = stub->ops->open(env, deadline_us, &stub->state, err);
    start_watch_end(start_watch);
    if (status < 0)
        goto fail;
    *statep = stub;
    return HVD_OK;
fail:
    if (stub->module != NULL)
        dlclose(stub->module);
    free(stub);
    return status;
}

static bool stub_takes_gpu(const void *state)
{
    const struct stub *stub = state;
    return stub->ops->takes_gpu(stub->state);
}

static int stub_add_team(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                         struct hvd_error *err)
{
    struct stub *stub = state;
    return stub->ops->add_team(stub->state, team, deadline_us, teamp, err);
}

static void stub_remove_team(void *state, void *team)
{
    struct stub *stub = state;
    stub->ops->remove_team(stub->state, team);
}

static int stub_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    struct stub *stub = state;
    return stub->ops->start(stub->state, team, batch, err);
}

static int stub_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct stub *stub = state;
    return stub->ops->test(stub->state, team, movedp, rankp, err);
}

static int stub_waits_for(const void *state, void *team)
{
    const struct stub *stub = state;
    return stub->ops->waits_for(stub->state, team);
}

static void stub_after_fork(void *state)
{
    struct stub *stub = state;
    stub->ops->after_fork(stub->state);
}

static void stub_close(void *state)
{
    struct stub *stub = state;
    if (stub == NULL)
        return;
    stub->ops->close(stub->state);
    dlclose(stub->module);
    free(stub);
}

const struct backend_ops backend_mpi = {
    .id = BACKEND_MPI,
    .available = stub_available,
    .open = stub_open,
    .opens_early =
        false, /* MPI_Init takes 0.2 s, and while MPI is initialised a lost rank ends the Slurm step */
    .polled = true,
    .spans_from = 1,
    .supports = stub_supports,
    .takes_gpu = stub_takes_gpu,
    .add_team = stub_add_team,
    .remove_team = stub_remove_team,
    .start = stub_start,
    .test = stub_test,
    .waits_for = stub_waits_for,
    .after_fork = stub_after_fork,
    .close = stub_close,
};
