/* split.c: how long NCCL takes to split a communicator, beside connecting the same ranks anew. */
#include <stdlib.h>

#include "options/config.h"
#include "tests/bench/parts.h"
#include "tools/hvdbench/bare_nccl.h"
#include "tools/hvdbench/gpu_tensors.h"
#include "tools/hvdbench/report.h"

enum split_way { SPLIT, ANEW, WAYS };

struct split {
    struct bench *bench;
    struct bench_gpu gpu;
    struct bare_nccl bare, second;
    struct way ways[WAYS];
};

static int run_split(void *arg, struct hvd_error *err)
{
    struct split *split = arg;
    return bare_nccl_split(&split->bare, split->bench, &split->second, err);
}

static int run_anew(void *arg, struct hvd_error *err)
{
    struct split *split = arg;
    return bare_nccl_connect(&split->bare, split->bench, &split->second, err);
}

static int end(void *arg, struct hvd_error *err)
{
    struct split *split = arg;
    (void)err;
    bare_nccl_disconnect(&split->second);
    return HVD_OK;
}

static const struct way way_table[WAYS] = {
    [SPLIT] = {.name = "split", .title = "ncclCommSplit", .key = "split_us", .run = run_split, .finish = end},
    [ANEW] =
        {.name = "anew", .title = "ncclCommInitRankConfig", .key = "anew_us", .run = run_anew, .finish = end},
};

static void show(const struct split *split)
{
    char text[2 * REPORT_TEXT_BYTES];
    bool timed = !bench_gpu_is_double(&split->gpu);
    if (split->bench->options->json) {
        struct json json = report_open(split->bench);
        json_text(&json, "gpu", split->gpu.name);
        for (int way = 0; way < WAYS && timed; way++)
            json_number(&json, split->ways[way].key, split->ways[way].us.median);
        json_close_line(&json);
        return;
    }
    printf("split: a communicator of all ranks, %s, on %s, NCCL %d\n", report_ranks(split->bench, text),
           split->gpu.name, nccl_version(split->bare.nccl));
    if (!timed)
        printf("  no figures, because this is no GPU\n");
    for (int way = 0; way < WAYS && timed; way++)
        printf("  %12s  %s\n", report_time(split->ways[way].us.median, text), split->ways[way].title);
}

static int measure(struct split *split, struct hvd_error *err)
{
    const struct turns turns = {split->bench->options->warmup, split->bench->options->rounds, 1};
    turns_bind(split->ways, way_table, WAYS, split);
    int rc = turns_measure(split->bench, &turns, split->ways, WAYS, err);
    if (rc == HVD_OK && split->bench->rank == 0)
        show(split);
    return rc;
}

int case_split(struct bench *bench, struct hvd_error *err)
{
    extern char **environ;
    struct split split = {.bench = bench};
    struct hvd_config config;
    int rc = config_load(&config, environ, NULL, err);
    if (rc == HVD_OK)
        rc = bench_gpu_open(&split.gpu, gpu_of_rank(), err);
    rc = bench_agree(bench, rc, err);
    if (rc == HVD_OK)
        rc = bare_nccl_open(&split.bare, bench, config.nccl_library, err);
    if (rc == HVD_OK)
        rc = measure(&split, err);
    bare_nccl_close(&split.bare);
    bench_gpu_close(&split.gpu);
    return rc;
}
