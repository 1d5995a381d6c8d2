/* rank_claim.h: lets one process at a time have a rank of the launcher's job. A program that a rank starts
 * inherits the variables that say which rank it is, and would take part in its place. */
#ifndef BOOTSTRAP_RANK_CLAIM_H
#define BOOTSTRAP_RANK_CLAIM_H

#include <stdbool.h>

#include "base/status.h"

/* Zeroed: nothing is held. */
struct rank_claim {
    bool held;
    int fd;
};

/* Claim the rank that the environment gives this process, before wire-up: HVD_OK, also where there is nothing
 * to claim. HVD_ERR_STATE, with what to do, if another process of this user and network namespace has it. */
int rank_claim_take(struct rank_claim *claim, struct hvd_error *err);

/* Also in a forked child. */
void rank_claim_release(struct rank_claim *claim);

#endif
