/* load.c: a model's tensors in the memory of one rank, and a contiguous buffer of the same size. */
#include "tools/hvdbench/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "options/parse.h"
#include "bootstrap/memory_budget.h"
#include "base/dtype.h"
#include "base/round_up.h"

#define PAGE_BYTES 4096
#define GAP_BYTES  CACHE_LINE_BYTES /* between tensors, so that no two of them are contiguous */

/* ---- Memory --------------------------------------------------------------------------------------- */

/* The memory that the kernel reports as available without swapping; INT64_MAX if it does not report it. */
static int64_t available_bytes(void)
{
    long long kib = -1;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && kib < 0 && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemAvailable: %lld", &kib) != 1)
            kib = -1;
    if (file != NULL)
        fclose(file);
    return kib < 0 ? INT64_MAX : (int64_t)kib * 1024;
}

/* Fail now if the kernel would kill a rank for lack of memory while it fills its tensors. */
static int check_memory(int64_t bytes, int local_size, struct hvd_error *err)
{
    struct memory_budget budget;
    char each[32];
    char there[32];
    memory_budget_read(&budget);
    int64_t present = available_bytes();
    present = budget.cgroup_bytes < present ? budget.cgroup_bytes : present;
    if (bytes <= present / (local_size > 0 ? local_size : 1))
        return HVD_OK;
    format_size(round_up(bytes, 1 << 20), each, sizeof(each));
    format_size(present >> 20 << 20, there, sizeof(there));
    return error_set(
        err, HVD_ERR_NO_MEMORY,
        "each of %d ranks on this node needs %s, but only %s are free; take fewer ranks or bytes", local_size,
        each, there);
}

static unsigned char *allocate_pages(int64_t bytes)
{
    return aligned_alloc(PAGE_BYTES, (size_t)round_up(bytes, PAGE_BYTES));
}

/* ---- Setting up ----------------------------------------------------------------------------------- */

/* The model's tensor that is the load's tensor [index]. The load has the last layer first. */
static const struct model_tensor *source_of(const struct load *load, int index)
{
    return &load->model->tensors[load->count - 1 - index];
}

int64_t load_arena_bytes(const struct model *model)
{
    return model->bytes + (int64_t)model->count * (CACHE_LINE_BYTES + GAP_BYTES);
}

void load_place_tensors(const struct load *load, unsigned char *arena, struct hvd_tensor *tensors)
{
    unsigned char *at = arena;
    for (int i = 0; i < load->count; i++) {
        const struct model_tensor *source = source_of(load, i);
        tensors[i] =
            (struct hvd_tensor){source->name, at, at, source->dtype, source->ndim, {0}, HVD_MEMORY_ANY, 0};
        memcpy(tensors[i].shape, source->shape, sizeof(tensors[i].shape));
        at += round_up(source->count * (int64_t)dtype_bytes(source->dtype), CACHE_LINE_BYTES) + GAP_BYTES;
    }
}

static void place_runs(struct load *load)
{
    unsigned char *at = load->whole;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct load_block run = {(enum hvd_dtype)dtype, 0, at};
        for (int i = 0; i < load->count; i++)
            run.count += load->tensors[i].dtype == run.dtype ? load->counts[i] : 0;
        if (run.count == 0)
            continue;
        load->runs[load->run_count++] = run;
        at += round_up(run.count * (int64_t)dtype_bytes(run.dtype), CACHE_LINE_BYTES);
    }
}

int load_init(struct load *load, const struct model *model, const struct load_job *job, struct hvd_error *err)
{
    int64_t arena_bytes = load_arena_bytes(model);
    *load = (struct load){.model = model, .rank = job->rank, .size = job->size, .count = model->count};
    int64_t whole_bytes = model->bytes + (int64_t)DTYPE_COUNT * CACHE_LINE_BYTES;
    /* Open MPI allocates another half of the buffer while it reduces it in one call */
    int status =
        check_memory(arena_bytes + whole_bytes + model->bytes / 2 + job->more_bytes, job->local_size, err);
    if (status != HVD_OK)
        return status;
    load->tensors = calloc((size_t)model->count, sizeof(load->tensors[0]));
    load->counts = calloc((size_t)model->count, sizeof(load->counts[0]));
    load->arena = allocate_pages(arena_bytes);
    load->whole = allocate_pages(whole_bytes);
    if (load->tensors == NULL || load->counts == NULL || load->arena == NULL || load->whole == NULL) {
        status = error_set(err, HVD_ERR_NO_MEMORY, "out of memory for two times %lld bytes of tensors",
                           (long long)model->bytes);
        goto fail;
    }
    for (int i = 0; i < load->count; i++)
        load->counts[i] = source_of(load, i)->count;
    load_place_tensors(load, load->arena, load->tensors);
    place_runs(load);
    for (int i = 0; i < load->run_count && status == HVD_OK; i++) {
        enum hvd_dtype dtype = load->runs[i].dtype;
        status = pattern_init(&load->patterns[dtype], dtype, job->rank, job->size, err);
    }
    if (status == HVD_OK && load->patterns[HVD_FLOAT32].own == NULL)
        status = pattern_init(&load->patterns[HVD_FLOAT32], HVD_FLOAT32, job->rank, job->size, err);
    if (status != HVD_OK)
        goto fail;
    load_fill_tensors(load, load->tensors);
    load_fill_whole(load);
    return HVD_OK;
fail:
    load_fini(load);
    return status;
}

void load_fini(struct load *load)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        pattern_fini(&load->patterns[dtype]);
    free(load->tensors);
    free(load->counts);
    free(load->arena);
    free(load->whole);
    *load = (struct load){0};
}

/* ---- Contents ------------------------------------------------------------------------------------- */

/* Tensors start at different offsets of the pattern, so that a mix-up is noticed. */
static int64_t shift_of(int tensor)
{
    return (int64_t)tensor * 17;
}

void load_fill_tensors(const struct load *load, const struct hvd_tensor *tensors)
{
    for (int i = 0; i < load->count; i++)
        pattern_fill(&load->patterns[tensors[i].dtype], tensors[i].output, load->counts[i], shift_of(i));
}

void load_fill_whole(const struct load *load)
{
    for (int i = 0; i < load->run_count; i++)
        pattern_fill(&load->patterns[load->runs[i].dtype], load->runs[i].data, load->runs[i].count, 0);
}

void load_fill_floats(const struct load *load)
{
    pattern_fill(&load->patterns[HVD_FLOAT32], load->whole, load->model->bytes / 4, 0);
}

static int is_wrong(const struct load *load, const char *function, const char *what, int64_t element,
                    struct hvd_error *err)
{
    return error_set(err, HVD_ERR_SYSTEM,
                     "%s gave rank %d a wrong sum: element %lld of %s is not what %d ranks put in", function,
                     load->rank, (long long)element, what, load->size);
}

int load_check_tensors(const struct load *load, const struct hvd_tensor *tensors, const char *function,
                       struct hvd_error *err)
{
    for (int i = 0; i < load->count; i++) {
        int64_t wrong = pattern_find_wrong(&load->patterns[tensors[i].dtype], tensors[i].output,
                                           load->counts[i], shift_of(i));
        if (wrong >= 0)
            return is_wrong(load, function, tensors[i].name, wrong, err);
    }
    return HVD_OK;
}

int load_check_whole(const struct load *load, const char *function, struct hvd_error *err)
{
    for (int i = 0; i < load->run_count; i++) {
        int64_t wrong = pattern_find_wrong(&load->patterns[load->runs[i].dtype], load->runs[i].data,
                                           load->runs[i].count, 0);
        if (wrong >= 0)
            return is_wrong(load, function, dtype_name(load->runs[i].dtype), wrong, err);
    }
    return HVD_OK;
}

int load_check_previous(const struct load *load, const unsigned char *copy, struct hvd_error *err)
{
    int previous = (load->rank + load->size - 1) % load->size;
    int status = HVD_OK;
    for (int i = 0; i < load->run_count && status == HVD_OK; i++) {
        const struct load_block *run = &load->runs[i];
        struct pattern pattern = {0};
        status = pattern_init(&pattern, run->dtype, previous, load->size, err);
        if (status != HVD_OK)
            return status;
        int64_t wrong = pattern_find_changed(&pattern, copy + (run->data - load->whole), run->count, 0);
        pattern_fini(&pattern);
        if (wrong >= 0)
            status =
                error_set(err, HVD_ERR_SYSTEM,
                          "the exchange gave rank %d a wrong element %lld of %s: it is not what rank %d has",
                          load->rank, (long long)wrong, dtype_name(run->dtype), previous);
    }
    return status;
}
