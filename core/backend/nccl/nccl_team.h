/* nccl_team.h: the communicator of a process set, for the files of this folder. */
#ifndef BACKEND_NCCL_NCCL_TEAM_H
#define BACKEND_NCCL_NCCL_TEAM_H

#include "backend/nccl/nccl_calls.h"

/* The unique id by which members find each other. NCCL examines the networks to create it, so a thread waits
 * for it. */
struct nccl_id;

/* Memory that nccl_team_register was called for. */
struct registration {
    struct registration *next;
    char *memory;
    int64_t bytes;
    void *handle; /* NCCL's; NULL: registration failed */
};

enum connection { NOT_CONNECTED, CONNECTING, CONNECTED, GIVEN_UP };

struct nccl_team {
    const struct nccl *nccl;
    const struct cuda_device *device;
    struct team members;
    int node;
    enum connection connection;
    ncclComm_t comm;
    struct nccl_id *id;                 /* NULL: not requested */
    bool splits;                        /* a split has begun and was not taken */
    ncclComm_t split_comm;              /* its result; NULL if this rank is not a member */
    struct registration *registrations; /* owned */
    bool captured;                      /* graphs may hold the communicator */
    int64_t lost_at_us;                 /* when NCCL first reported a lost member; 0: never */
    char name[48];                      /* `process set 3`, or `messages of ranks 0 and 5` */
};

/* HVD_ERR_UNSUPPORTED if NCCL cannot connect members with these cards. */
int nccl_cards_check(const struct nccl_team *team, const int64_t *cards, struct hvd_error *err);

/* The id of the first member. */
void nccl_cards_id(const int64_t *cards, ncclUniqueId *id);

/* Drop the id. Does not wait: a thread that is blocked in NCCL is left behind. NULL is fine. */
void nccl_id_forget(struct nccl_id *id);

/* Call it before the communicator is finalized. */
void nccl_team_deregister_all(struct nccl_team *team);

/* Call it after the communicator, and its registrations with it, was aborted or destroyed. */
void nccl_team_drop_registrations(struct nccl_team *team);

#endif
