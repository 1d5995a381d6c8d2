/* startup_tree.c: connects a rank to its neighbours in the control tree. */
#include "bootstrap/startup.h"

#include "base/clock.h"
#include "control/tree.h"
#include "net/seal.h"

#define REPORT_RESERVE_US \
    INT64_C(1000000) /* reserved from the time to connect, to tell all ranks which rank was not reached */

int64_t startup_connect_deadline(const struct startup *startup)
{
    int64_t spare_us = (startup->deadline_us - clock_us()) / 4;
    return startup->deadline_us - (spare_us < REPORT_RESERVE_US ? spare_us : REPORT_RESERVE_US);
}

/* Connect to the parent and children on other nodes; the sockets go into [link_fds], their seals into
 * [link_seals]. */
static int connect_links(struct startup *startup, int link_fds[TREE_MAX_LINKS],
                         struct seal *link_seals[TREE_MAX_LINKS], struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    const struct tree_shape *shape = &bootstrap->shape;
    struct endpoint_connection wants[TREE_MAX_LINKS];
    int want_links[TREE_MAX_LINKS] = {0}, want_count = 0;
    for (int link = 0; link < TREE_MAX_LINKS; link++) {
        link_fds[link] = -1;
        link_seals[link] = NULL;
    }
    for (int link = TREE_PARENT; link <= shape->child_count; link++) {
        int rank = link == TREE_PARENT ? shape->parent : shape->child_ranks[link - 1];
        if (rank < 0 || bootstrap->peer_table.node_of_rank[rank] == shape->leader)
            continue;
        want_links[want_count] = link;
        wants[want_count++] = (struct endpoint_connection){
            .rank = rank, .purpose = ENDPOINT_CONTROL, .connect = link == TREE_PARENT, .fd = -1};
    }
    int rc = endpoint_establish(bootstrap->endpoint, &bootstrap->peer_table, wants, want_count,
                                startup_connect_deadline(startup), err);
    for (int i = 0; rc == HVD_OK && i < want_count; i++) {
        link_fds[want_links[i]] = wants[i].fd;
        link_seals[want_links[i]] = wants[i].seal;
    }
    return rc;
}

int startup_connect_tree(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peer_table *peer_table = &bootstrap->peer_table;
    int link_fds[TREE_MAX_LINKS];
    struct seal *link_seals[TREE_MAX_LINKS];
    int rc = tree_shape_of_rank(peer_table->node_of_rank, peer_table->size, peer_table->rank,
                                &bootstrap->shape, err);
    if (rc == HVD_OK)
        rc = connect_links(startup, link_fds, link_seals, err);
    if (rc != HVD_OK)
        return rc;
    if (bootstrap->shape.local_size == 1) {
        node_close(startup->node);
        startup->node = startup->attached = NULL;
    }
    bootstrap->arena = node_arena(startup->node);
    bootstrap->windows = node_take_windows(startup->node);
    rc = control_open(&bootstrap->control, peer_table, &bootstrap->shape, startup->node, link_fds, err);
    if (rc == HVD_OK) {
        startup->node = NULL; /* control owns it now */
        control_seal(bootstrap->control, link_seals);
    }
    for (int link = 0; rc != HVD_OK && link < TREE_MAX_LINKS; link++)
        seal_free(link_seals[link]);
    return rc;
}
