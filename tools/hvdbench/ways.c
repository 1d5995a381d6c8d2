/* ways.c: the ways of reducing a load that hvdbench compares: hvd, MPI as one would call it directly, and
 * plain copies. */
#include "tools/hvdbench/ways.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

/* ---- Preparing and checking ----------------------------------------------------------------------- */

static int fill_tensors(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    (void)err;
    load_fill_tensors(&ways->load, ways->load.tensors);
    return HVD_OK;
}

static int fill_alloc(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    (void)err;
    load_fill_tensors(&ways->load, ways->alloc_tensors);
    return HVD_OK;
}

static int fill_whole(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    (void)err;
    load_fill_whole(&ways->load);
    return HVD_OK;
}

static int fill_floats(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    (void)err;
    load_fill_floats(&ways->load);
    return HVD_OK;
}

static int check_hvd(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return load_check_tensors(&ways->load, ways->load.tensors, "hvd_allreduce", err);
}

static int check_alloc(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return load_check_tensors(&ways->load, ways->alloc_tensors, "hvd_allreduce", err);
}

static int check_each(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return load_check_tensors(&ways->load, ways->load.tensors, "MPI_Allreduce", err);
}

static int check_whole(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return load_check_whole(&ways->load, "MPI_Allreduce", err);
}

static int check_exchange(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return load_check_previous(&ways->load, ways->load.arena, err);
}

/* ---- Running -------------------------------------------------------------------------------------- */

/* Submit all tensors in the order of backward propagation, then wait for all. A single tensor uses the
 * blocking call. */
static int reduce(const struct ways *ways, const struct hvd_tensor *tensors, struct hvd_error *err)
{
    int count = ways->load.count;
    int status = HVD_OK;
    int submitted = 0;
    if (count == 1) {
        status = hvd_allreduce(&tensors[0], HVD_SUM, NULL);
        return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_allreduce", err);
    }
    while (submitted < count && status == HVD_OK) {
        status =
            hvd_allreduce_async(&tensors[submitted], HVD_SUM, NULL, NULL, NULL, &ways->handles[submitted]);
        submitted += status == HVD_OK;
    }
    if (status != HVD_OK)
        bench_hvd_error(status, "hvd_allreduce_async", err);
    for (int i = 0; i < submitted; i++) {
        int rc = hvd_wait(ways->handles[i]);
        if (rc != HVD_OK && status == HVD_OK)
            status = bench_hvd_error(rc, "hvd_wait", err);
    }
    return status;
}

static int run_hvd(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return reduce(ways, ways->load.tensors, err);
}

static int run_hvd_alloc(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    return reduce(ways, ways->alloc_tensors, err);
}

/* One call per element type, which is one call for most models. */
static int run_mpi_one(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    int status = HVD_OK;
    for (int i = 0; i < ways->load.run_count && status == HVD_OK; i++) {
        const struct load_block *run = &ways->load.runs[i];
        status = ways->mpi->allreduce(run->data, run->count, run->dtype, err);
    }
    return status;
}

static int run_mpi_pieces(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    int status = HVD_OK;
    for (int i = 0; i < ways->load.run_count; i++) {
        const struct load_block *run = &ways->load.runs[i];
        int64_t bytes = (int64_t)dtype_bytes(run->dtype);
        int64_t piece = MPI_PIECE_BYTES / bytes;
        for (int64_t at = 0; at < run->count && status == HVD_OK; at += piece) {
            int64_t count = run->count - at < piece ? run->count - at : piece;
            status = ways->mpi->allreduce(run->data + at * bytes, count, run->dtype, err);
        }
    }
    return status;
}

static int run_mpi_each(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    const struct load *load = &ways->load;
    int status = HVD_OK;
    for (int i = 0; i < load->count && status == HVD_OK; i++)
        status = ways->mpi->allreduce(load->tensors[i].output, load->counts[i], load->tensors[i].dtype, err);
    return status;
}

static int run_exchange(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    const struct load *load = &ways->load;
    (void)err;
    for (int i = 0; i < load->run_count; i++) {
        const struct load_block *run = &load->runs[i];
        exchange_run(&ways->exchange, load->arena + (run->data - load->whole), run->data,
                     run->count * (int64_t)dtype_bytes(run->dtype));
    }
    return HVD_OK;
}

static int run_memcpy(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    (void)err;
    memcpy(ways->load.arena, ways->load.whole, (size_t)ways->load.model->bytes);
    return HVD_OK;
}

/* 1, so that the data stays the same however often it is scaled; volatile hides that from the compiler. */
static volatile const float touch_factor = 1.0F;

static int run_touch(void *arg, struct hvd_error *err)
{
    const struct ways *ways = arg;
    float *data = (float *)(void *)ways->load.whole;
    int64_t count = ways->load.model->bytes / (int64_t)sizeof(float);
    float factor = touch_factor;
    (void)err;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        data[i] *= factor;
    return HVD_OK;
}

static const struct way way_table[WAY_COUNT] = {
    [WAY_HVD] = {.name = "hvd",
                 .title = "hvd_allreduce, tensors in malloc memory",
                 .key = "hvd_us",
                 .prepare = fill_tensors,
                 .run = run_hvd,
                 .check = check_hvd},
    [WAY_HVD_ALLOC] = {.name = "hvd-alloc",
                       .title = "hvd_allreduce, tensors in hvd_alloc memory",
                       .key = "hvd_alloc_us",
                       .prepare = fill_alloc,
                       .run = run_hvd_alloc,
                       .check = check_alloc},
    [WAY_MPI_ONE] = {.name = "mpi-one",
                     .title = "one MPI_Allreduce for all tensors of a type",
                     .key = "mpi_one_us",
                     .prepare = fill_whole,
                     .run = run_mpi_one,
                     .check = check_whole},
    [WAY_MPI_PIECES] = {.name = "mpi-pieces",
                        .title = "MPI_Allreduce of 512 KiB pieces",
                        .key = "mpi_pieces_us",
                        .prepare = fill_whole,
                        .run = run_mpi_pieces,
                        .check = check_whole},
    [WAY_MPI_EACH] = {.name = "mpi-each",
                      .title = "one MPI_Allreduce per tensor",
                      .key = "mpi_each_us",
                      .prepare = fill_tensors,
                      .run = run_mpi_each,
                      .check = check_each},
    [WAY_EXCHANGE] = {.name = "exchange",
                      .title = "copy between two ranks through shared memory",
                      .key = "exchange_us",
                      .prepare = fill_whole,
                      .run = run_exchange,
                      .check = check_exchange},
    [WAY_MEMCPY] = {.name = "memcpy",
                    .title = "memcpy of the same bytes in each rank",
                    .key = "memcpy_us",
                    .prepare = fill_whole,
                    .run = run_memcpy},
    [WAY_TOUCH] = {.name = "touch",
                   .title = "scale the same bytes in place in each rank",
                   .key = "touch_us",
                   .prepare = fill_floats,
                   .run = run_touch},
};

/* ---- The list ------------------------------------------------------------------------------------- */

static bool is_mpi(enum way_id id)
{
    return id == WAY_MPI_ONE || id == WAY_MPI_PIECES || id == WAY_MPI_EACH;
}

/* MPI is left out if it lacks one of the load's types. */
static const struct bench_mpi *choose_mpi(const struct ways *ways, struct bench *bench)
{
    for (int i = 0; i < ways->load.run_count && bench->mpi != NULL; i++) {
        enum hvd_dtype dtype = ways->load.runs[i].dtype;
        if (bench->mpi->has(dtype))
            continue;
        struct hvd_error why;
        error_set(&why, HVD_ERR_UNSUPPORTED, "MPI has no %s", dtype_name(dtype));
        memcpy(bench->mpi_why, why.text, sizeof(why.text));
        return NULL;
    }
    return bench->mpi;
}

static bool is_wanted(unsigned wanted, enum way_id id)
{
    return (wanted >> id & 1) != 0;
}

/* Place the tensors of the load a second time, in memory of hvd_alloc. */
static int open_alloc(struct ways *ways, struct hvd_error *err)
{
    const struct load *load = &ways->load;
    int status = hvd_alloc(load_arena_bytes(load->model), &ways->alloc_arena);
    if (status != HVD_OK)
        return error_set(err, status, "%s", hvd_error_text());
    ways->alloc_tensors = calloc((size_t)load->count, sizeof(ways->alloc_tensors[0]));
    if (ways->alloc_tensors == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for %d tensors", load->count);
    load_place_tensors(load, ways->alloc_arena, ways->alloc_tensors);
    return HVD_OK;
}

static int open_memory(struct ways *ways, const struct bench *bench, const struct model *model,
                       unsigned wanted, struct hvd_error *err)
{
    bool gives = is_wanted(wanted, WAY_HVD_ALLOC);
    const struct load_job job = {bench->rank, bench->size, bench->local_size,
                                 gives ? load_arena_bytes(model) : 0};
    int status = load_init(&ways->load, model, &job, err);
    if (status != HVD_OK)
        return status;
    ways->handles = calloc((size_t)model->count, sizeof(ways->handles[0]));
    if (ways->handles == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for %d handles", model->count);
    return gives ? open_alloc(ways, err) : HVD_OK;
}

int ways_init(struct ways *ways, struct bench *bench, const struct model *model, unsigned wanted,
              struct hvd_error *err)
{
    *ways = (struct ways){.count = 0};
    int status = bench_agree(bench, open_memory(ways, bench, model, wanted, err), err);
    if (status != HVD_OK) {
        ways_fini(ways);
        return status;
    }
    ways->mpi = choose_mpi(ways, bench);
    if (bench->size == 1 || bench->node_count > 1)
        wanted &= ~(1U << WAY_EXCHANGE);
    if (is_wanted(wanted, WAY_EXCHANGE))
        status = exchange_open(&ways->exchange, bench, err);
    if (status != HVD_OK) {
        ways_fini(ways);
        return status;
    }
    for (int id = 0; id < WAY_COUNT; id++) {
        if (!is_wanted(wanted, (enum way_id)id) || (is_mpi((enum way_id)id) && ways->mpi == NULL))
            continue;
        ways->list[ways->count] = way_table[id];
        ways->list[ways->count++].arg = ways;
    }
    return HVD_OK;
}

void ways_fini(struct ways *ways)
{
    exchange_close(&ways->exchange);
    load_fini(&ways->load);
    hvd_free(ways->alloc_arena);
    free(ways->alloc_tensors);
    free(ways->handles);
    *ways = (struct ways){.count = 0};
}

const struct way *ways_find(const struct ways *ways, enum way_id id)
{
    for (int i = 0; i < ways->count; i++)
        if (ways->list[i].key == way_table[id].key)
            return &ways->list[i];
    return NULL;
}

const struct way *ways_hvd(const struct ways *ways)
{
    const struct way *hvd = ways_find(ways, WAY_HVD);
    return hvd != NULL ? hvd : ways_find(ways, WAY_HVD_ALLOC);
}

const struct way *ways_best_mpi(const struct ways *ways)
{
    const struct way *best = NULL;
    for (int id = WAY_MPI_ONE; id <= WAY_MPI_EACH; id++) {
        const struct way *way = ways_find(ways, (enum way_id)id);
        if (way != NULL && (best == NULL || way->us.median < best->us.median))
            best = way;
    }
    return best;
}
