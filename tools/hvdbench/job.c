/* job.c: join and leave the job that hvdbench is a rank of, and agree on failures. */
#include "tools/hvdbench/job.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cores.h"
#include "base/module.h"
#include "tools/hvdbench/cache_line_latency.h"

int bench_hvd_error(int status, const char *what, struct hvd_error *err)
{
    return error_set(err, status, "%s: %s", what, hvd_error_text());
}

/* ---- Failing together ----------------------------------------------------------------------------- */

int bench_agree(struct bench *bench, int status, struct hvd_error *err)
{
    int32_t first = status == HVD_OK ? INT32_MAX : bench->rank;
    int32_t shared_status = status;
    struct hvd_error none = {""};
    struct hvd_error *text = err != NULL ? err : &none;
    struct hvd_tensor who = hvd_vector("hvdbench.agree", &first, 1, HVD_INT32);
    int rc = hvd_allreduce(&who, HVD_MIN, NULL);
    if (rc != HVD_OK)
        return status != HVD_OK ? status : bench_hvd_error(rc, "agreeing with the other ranks", err);
    if (first == INT32_MAX)
        return HVD_OK;
    struct hvd_tensor code = hvd_vector("hvdbench.status", &shared_status, 1, HVD_INT32);
    struct hvd_tensor said = hvd_vector("hvdbench.sentence", text->text, sizeof(text->text), HVD_UINT8);
    rc = hvd_broadcast(&code, first, NULL);
    if (rc == HVD_OK)
        rc = hvd_broadcast(&said, first, NULL);
    if (rc != HVD_OK)
        return bench_hvd_error(rc, "agreeing with the other ranks", err);
    bench->agreed = true;
    return shared_status;
}

static int gather(const char *name, enum hvd_op op, double *numbers, int64_t count, struct hvd_error *err)
{
    struct hvd_tensor tensor = hvd_vector(name, numbers, count, HVD_FLOAT64);
    int rc = hvd_allreduce(&tensor, op, NULL);
    return rc == HVD_OK ? HVD_OK : bench_hvd_error(rc, "gathering what was measured", err);
}

int bench_max(double *numbers, int64_t count, struct hvd_error *err)
{
    return gather("hvdbench.max", HVD_MAX, numbers, count, err);
}

int bench_sum(double *numbers, int64_t count, struct hvd_error *err)
{
    return gather("hvdbench.sum", HVD_SUM, numbers, count, err);
}

/* ---- MPI ------------------------------------------------------------------------------------------ */

const struct bench_mpi *bench_open_mpi(struct hvd_error *why)
{
    void *module = NULL;
    if (getenv("PMIX_NAMESPACE") == NULL) {
        error_set(why, HVD_ERR_UNSUPPORTED,
                  "MPI needs PMIx, and the ranks have none; start them by hvdrun or srun --mpi=pmix");
        return NULL;
    }
    const struct bench_mpi *mpi = module_open(BENCH_MPI_MODULE, BENCH_MPI_SYMBOL, &module, why);
    if (mpi == NULL || mpi->open(why) != HVD_OK)
        return NULL;
    return mpi;
}

/* Either all ranks use MPI, or none does. */
static int choose_mpi(struct bench *bench, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int status = HVD_OK;
    if (bench->mpi == NULL)
        status = error_set(&why, HVD_ERR_UNSUPPORTED, "%s", bench->mpi_why);
    else if (bench->mpi->size() != bench->size)
        status =
            error_set(&why, HVD_ERR_UNSUPPORTED, "there are %d ranks in MPI_COMM_WORLD, but %d in the job",
                      bench->mpi->size(), bench->size);
    status = bench_agree(bench, status, &why);
    if (status == HVD_OK)
        return HVD_OK;
    if (!bench->agreed) {
        *err = why;
        return status;
    }
    bench->agreed = false;
    snprintf(bench->mpi_why, sizeof(bench->mpi_why), "%s", why.text);
    if (bench->mpi != NULL)
        bench->mpi->close();
    bench->mpi = NULL;
    return HVD_OK;
}

/* ---- Cores ---------------------------------------------------------------------------------------- */

/* The first CPU that this rank may run on; -1 if unknown. */
static int find_core(void)
{
    struct cores cores;
    cores_of_thread(&cores);
    for (int core = 0; core < CORES_MAX; core++)
        if ((cores.words[core / 64] >> core % 64 & 1) != 0)
            return core;
    return -1;
}

/* Unbound ranks all have the same first core; then nothing is known. */
static int find_cores(struct bench *bench, struct hvd_error *err)
{
    int core = hvd_node_rank() == 0 ? find_core() : -1;
    double ends[] = {core < 0 ? -INFINITY : (double)-core, core < 0 ? -INFINITY : (double)core};
    int status = bench_max(ends, 2, err);
    bench->line_ns = NAN;
    if (status != HVD_OK || !isfinite(ends[0]))
        return status;
    bench->cores[0] = (int)-ends[0];
    bench->cores[1] = (int)ends[1];
    if (hvd_node_rank() == 0 && hvd_local_rank() == 0)
        bench->line_ns = cache_line_round_trip_ns(bench->cores[0], bench->cores[1]);
    double known_ns = isnan(bench->line_ns) ? -INFINITY : bench->line_ns;
    status = bench_max(&known_ns, 1, err);
    bench->line_ns = isfinite(known_ns) ? known_ns : NAN;
    return status;
}

/* ---- Coming and going ----------------------------------------------------------------------------- */

int bench_join(struct bench *bench, bool wants_mpi, struct hvd_error *err)
{
    struct hvd_error why = {"left out by --no-mpi"};
    wants_mpi = wants_mpi && !bench->options->no_mpi;
    if (wants_mpi)
        bench->mpi = bench_open_mpi(&why);
    if (bench->mpi == NULL)
        snprintf(bench->mpi_why, sizeof(bench->mpi_why), "%s", why.text);
    int status = hvd_init();
    if (status != HVD_OK)
        return bench_hvd_error(status, "hvd_init", err);
    bench->rank = hvd_rank();
    bench->size = hvd_size();
    bench->local_size = hvd_local_size();
    bench->node_count = hvd_node_count();
    status = find_cores(bench, err);
    return status == HVD_OK && wants_mpi ? choose_mpi(bench, err) : status;
}

int bench_leave(struct bench *bench, struct hvd_error *err)
{
    int status = hvd_shutdown();
    if (status != HVD_OK)
        return bench_hvd_error(status, "hvd_shutdown", err);
    if (bench->mpi != NULL)
        bench->mpi->close();
    bench->mpi = NULL;
    return HVD_OK;
}
