/* nccl_team.h: what the communicator of a process set consists of, for the files of this folder. */
#ifndef BACKEND_NCCL_NCCL_TEAM_H
#define BACKEND_NCCL_NCCL_TEAM_H

#include "backend/nccl/nccl_calls.h"

enum connection { NOT_CONNECTED, CONNECTING, CONNECTED, GIVEN_UP };

struct nccl_team {
    const struct nccl *nccl;
    const struct cuda_device *device;
    struct team members;
    int node;
    enum connection connection;
    ncclComm_t comm;
    void *registration; /* NCCL's handle of the fusion buffer; NULL: it is not registered */
    int64_t lost_at_us; /* when NCCL first said that it has lost a member; 0: it has not */
};

/* Before the communicator is finalized. */
void nccl_team_deregister(struct nccl_team *team);

#endif
