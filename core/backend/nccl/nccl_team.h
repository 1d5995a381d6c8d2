/* nccl_team.h: what the communicator of a process set consists of, for the files of this folder. */
#ifndef BACKEND_NCCL_NCCL_TEAM_H
#define BACKEND_NCCL_NCCL_TEAM_H

#include "backend/nccl/nccl_calls.h"

/* The unique id by which members find each other: NCCL looks at networks for it, so that a thread waits. */
struct nccl_id;

/* Memory that NCCL was asked to register. */
struct registration {
    struct registration *next;
    char *memory;
    int64_t bytes;
    void *handle; /* NCCL's; NULL: it did not */
};

enum connection { NOT_CONNECTED, CONNECTING, CONNECTED, GIVEN_UP };

struct nccl_team {
    const struct nccl *nccl;
    const struct cuda_device *device;
    struct team members;
    int node;
    enum connection connection;
    ncclComm_t comm;
    struct nccl_id *id;                 /* NULL: not asked for */
    bool splits;                        /* a split is begun and not taken */
    ncclComm_t split_comm;              /* what it makes; NULL where this rank is not among the members */
    struct registration *registrations; /* owned */
    bool captured;                      /* graphs may hold the communicator */
    int64_t lost_at_us;                 /* when NCCL first said that it has lost a member; 0: it has not */
};

/* HVD_ERR_UNSUPPORTED where NCCL cannot carry between the members with these cards. */
int nccl_cards_check(const struct nccl_team *team, const int64_t *cards, struct hvd_error *err);

/* The first member's. */
void nccl_cards_id(const int64_t *cards, ncclUniqueId *id);

/* Nobody wants it any more. Does not wait: a thread that NCCL keeps stays behind. NULL is fine. */
void nccl_id_forget(struct nccl_id *id);

/* Before the communicator is finalized. */
void nccl_team_deregister_all(struct nccl_team *team);

/* The communicator was aborted, and its registrations with it; or is gone. */
void nccl_team_drop_registrations(struct nccl_team *team);

#endif
