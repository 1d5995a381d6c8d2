/* startup.h: the start of a job under way, as its parts share it; for them alone. bootstrap.c runs its steps:
 * it finds the ranks of the node and attaches to their memory. Then startup_leader.c acts for the node, and
 * startup_member.c waits for what its leader says. Both connect to the control tree by startup_tree.c.
 * startup_reunion.c prepares the later starts of the process. */
#ifndef BOOTSTRAP_STARTUP_H
#define BOOTSTRAP_STARTUP_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/nic_discovery.h"
#include "bootstrap/peer_exchange.h"
#include "bootstrap/start_report.h"
#include "node/node.h"

/* What a leader's outcome says besides its status. */
enum outcome_value {
    OUTCOME_FENCE = 1, /* another fence follows, and another outcome */
    OUTCOME_GO_ON = 2  /* only this node failed: the others learn it after the next step */
};

/* The start of a job under way. [bootstrap] is complete as far as the steps have come. */
struct startup {
    struct bootstrap *bootstrap;
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_start *start;
    int64_t deadline_us;
    struct wireup wireup;
    struct peer_info *peer_info; /* of this rank */
    struct node_group group;
    struct leader_list leaders;
    struct node *node;      /* owned until control has it */
    struct node *attached;  /* the same, as long as it lives; NULL: this rank shares no memory */
    uint32_t outcome_count; /* on a member: outcomes of its leader so far */
    struct nic_discovery nic_discovery;
    uint16_t reunion_port; /* where rank 0 listens for the later starts; 0: nowhere */
};

/* Does the memory of this node suffice for [rank_count] ranks? [host] is its name, for the sentence. */
int startup_check_memory(const struct startup *startup, int rank_count, const char *host,
                         struct hvd_error *err);

/* Where the ranks of this job meet in the later starts of their processes (wireup.h): 1. Before the first
 * fence, rank 0 puts it. 2. Before the last one, all ranks read it. 3. The start has succeeded on this rank.
 */
int startup_offer_reunion(struct startup *startup, struct hvd_error *err);
int startup_read_reunion(struct startup *startup, struct hvd_error *err);
void startup_plan_reunion(const struct startup *startup);

/* Check the process sets of the start, as far as one rank can. */
int startup_check_process_sets(const struct startup *startup, struct hvd_error *err);

/* Until when to connect: it leaves some time, so that all ranks learn which rank was not reached. */
int64_t startup_connect_deadline(const struct startup *startup);

int startup_fence(struct startup *startup, struct hvd_error *err);

/* Where leaders exchange what they have to say. */
struct leader_exchange startup_exchange(const struct startup *startup);

/* All peers are known: build the tree, connect its links, and open control on them. */
int startup_connect_tree(struct startup *startup, struct hvd_error *err);

/* From the attached node to the control tree: on a rank that acts for its node, and on one that another acts
 * for. */
int startup_lead(struct startup *startup, struct hvd_error *err);
int startup_follow(struct startup *startup, struct hvd_error *err);

#endif
