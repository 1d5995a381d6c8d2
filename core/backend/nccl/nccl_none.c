/* nccl_none.c: nccl.h in a build without NCCL's header or without CUDA: there is no library, and so no
 * communicator. */
#include "backend/nccl/nccl.h"

#include <stddef.h>

static int no_nccl(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_UNSUPPORTED, "this hvd was built without NCCL; build it where nccl.h is");
}

int nccl_open(const char *library, const struct hvd_log *log, struct nccl **ncclp, struct hvd_error *err)
{
    (void)library;
    (void)log;
    *ncclp = NULL;
    return no_nccl(err);
}

struct nccl *nccl_hold(const struct nccl *nccl)
{
    return (struct nccl *)(uintptr_t)nccl;
}

void nccl_close(struct nccl *nccl)
{
    (void)nccl;
}

int nccl_version(const struct nccl *nccl)
{
    (void)nccl;
    return 0;
}

struct nccl_use nccl_use_on(const struct nccl *nccl, const struct cuda_device *device)
{
    (void)nccl;
    (void)device;
    return (struct nccl_use){.possible = false};
}

void *nccl_memory_create(const struct nccl *nccl, const struct cuda_device *device, int64_t bytes)
{
    (void)nccl;
    (void)device;
    (void)bytes;
    return NULL;
}

void nccl_memory_destroy(const struct nccl *nccl, void *memory)
{
    (void)nccl;
    (void)memory;
}

int nccl_team_create(const struct nccl *nccl, const struct cuda_device *device, const struct team *members,
                     int node, struct nccl_team **teamp, struct hvd_error *err)
{
    (void)nccl;
    (void)device;
    (void)members;
    (void)node;
    (void)teamp;
    return no_nccl(err);
}

int nccl_team_write_card(struct nccl_team *team, int64_t card[NCCL_CARD_WORDS], struct hvd_error *err)
{
    (void)team;
    (void)card;
    return no_nccl(err);
}

int nccl_team_connect(struct nccl_team *team, const int64_t *cards, struct hvd_error *err)
{
    (void)team;
    (void)cards;
    return no_nccl(err);
}

int nccl_team_test(struct nccl_team *team, struct hvd_error *err)
{
    (void)team;
    return no_nccl(err);
}

bool nccl_team_register(struct nccl_team *team, void *memory, int64_t bytes)
{
    (void)team;
    (void)memory;
    (void)bytes;
    return false;
}

bool nccl_team_knows(const struct nccl_team *team, const void *memory)
{
    (void)team;
    (void)memory;
    return false;
}

bool nccl_team_reaches(const struct nccl_team *team, const void *address)
{
    (void)team;
    (void)address;
    return false;
}

void nccl_team_deregister(struct nccl_team *team, const void *memory)
{
    (void)team;
    (void)memory;
}

void nccl_team_forget(struct nccl_team *team, const void *memory)
{
    (void)team;
    (void)memory;
}

int nccl_team_split(struct nccl_team *team, int rank, struct hvd_error *err)
{
    (void)team;
    (void)rank;
    return no_nccl(err);
}

int nccl_team_take_split(struct nccl_team *team, const struct team *members, struct nccl_team **teamp,
                         struct hvd_error *err)
{
    (void)team;
    (void)members;
    (void)teamp;
    return no_nccl(err);
}

int nccl_team_start(struct nccl_team *team, const struct backend_batch *batches, int count,
                    struct CUstream_st *stream, struct hvd_error *err)
{
    (void)team;
    (void)batches;
    (void)count;
    (void)stream;
    return no_nccl(err);
}

void nccl_team_captured(struct nccl_team *team)
{
    (void)team;
}

void nccl_team_abort(struct nccl_team *team)
{
    (void)team;
}

void nccl_team_destroy(struct nccl_team *team)
{
    (void)team;
}
