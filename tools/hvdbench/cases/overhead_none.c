/* overhead_none.c: the case overhead in a build without CUDA or without NCCL: always an error. */
#include "backend/nccl/nccl.h"
#include "tools/hvdbench/cases/cases.h"

int case_overhead(struct bench *bench, struct hvd_error *err)
{
    struct nccl *nccl = NULL;
    return bench_agree(bench, nccl_open("", NULL, &nccl, err), err);
}
