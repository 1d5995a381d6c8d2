/* tree_end.c: how a rank's part in the control tree ends: aborts, lost ranks and farewells. */
#include "config.h"
#include "control/tree_state.h"

#include <stdio.h>

#include "base/clock.h"
#include "node/deputy.h"

/* A rank that never sleeps checks for ended processes and due beats at this interval, and looks at the clock
 * for that only in one of CHECK_POLLS polls. */
#define CHECK_US    10000
#define CHECK_POLLS 8

/* "rank 3 (n2, pid 4711)" */
static void rank_text(const struct tree *tree, int rank, char *text, size_t text_bytes)
{
    const struct peer *peer = &tree->peer_table->peers[rank];
    snprintf(text, text_bytes, "rank %d (%s, pid %d)", rank, peer->host, (int)peer->pid);
}

/* ---- Aborts and losses ---- */

int tree_event_fd(const struct tree *tree, int rank)
{
    const struct node *node = tree->node;
    for (int i = 0; node != NULL && i < node->doorbell_count; i++) {
        if (node->doorbells[i].rank == rank)
            return node->doorbells[i].fd;
    }
    return -1;
}

/* The abort may go up the tree through ranks that stand still, so tell the leader itself to look at it. */
static void tree_wake_leader(const struct tree *tree)
{
    int leader = tree->node->members[0];
    struct node_member *slot = node_member_of(tree->node, leader);
    int event_fd = tree_event_fd(tree, leader);
    if (event_fd >= 0 && slot != NULL)
        doorbell_ring_if_armed(&(struct doorbell_eventfd){&slot->armed, event_fd});
}

void tree_raise_abort(struct tree *tree, const struct frame_abort *abort, bool own)
{
    if (tree->aborted)
        return;
    unsigned char payload[FRAME_ABORT_BYTES];
    size_t length = frame_abort_encode(payload, abort);
    tree->aborted = true;
    tree->abort = *abort;
    bool first_here = tree->node == NULL || node_memory_publish_abort(tree->node->memory, abort);
    tree->abort_first = own && first_here;
    if (tree->node != NULL)
        tree_wake_leader(tree);
    for (int i = 0; i < tree->link_count; i++)
        link_send(&tree->links[i], FRAME_ABORT, tree->peer_table->epoch, payload, length, NULL);
}

void tree_abort(struct control *control, int status, int rank, const char *sentence)
{
    struct frame_abort abort;
    frame_abort_set(&abort, status, rank >= 0 && rank < control->size ? rank : control->rank, sentence);
    tree_raise_abort(tree_of(control), &abort, true);
}

/* Which rank does the launcher say failed first? -1 where it says nothing, or names this rank, which goes on.
 */
static int first_failed(const struct control *control)
{
    const struct control_verdict *verdict = &control->verdict;
    int first = verdict->first_failed == NULL ? -1 : verdict->first_failed(verdict->arg);
    return first < control->size && first != control->rank ? first : -1;
}

/* If it left because of an abort that has not reached us yet, raise that abort. If the launcher ended it
 * because another rank had failed, name that one: those that saw it fail may have been ended before they
 * could tell. */
void tree_rank_lost(struct tree *tree, int rank, const char *how)
{
    struct frame_abort abort;
    char name[320], sentence[FRAME_SENTENCE_BYTES + 1];
    if (tree->farewelled || tree->aborted)
        return;
    if (tree->node == NULL || !node_memory_published_abort(tree->node->memory, tree->control.size, &abort)) {
        int first = first_failed(&tree->control);
        int lost = first >= 0 ? first : rank;
        rank_text(tree, lost, name, sizeof(name));
        snprintf(sentence, sizeof(sentence), "%s was lost: %s", name,
                 lost == rank ? how : "it failed first, and the launcher ends the job");
        frame_abort_set(&abort, HVD_ERR_RANK_LOST, lost, sentence);
    }
    tree_raise_abort(tree, &abort, true);
}

void tree_look_for_abort(struct tree *tree)
{
    struct frame_abort abort;
    if (tree->node == NULL || tree->farewelled || tree->aborted || !node_leads(tree->node))
        return;
    if (node_memory_published_abort(tree->node->memory, tree->control.size, &abort))
        tree_raise_abort(tree, &abort, false);
}

/* Has this rank of the node said farewell? */
static bool rank_left(const struct tree *tree, int rank)
{
    const struct node_member *slot = node_member_of(tree->node, rank);
    return slot != NULL && atomic_load(&slot->left) != 0;
}

/* "the connection of rank 0 (n1) at 10.0.0.1 with rank 3 (n2) at 10.0.0.2 was reset: ..." */
static void break_text(const struct tree *tree, int index, char *text, size_t text_bytes)
{
    char ends[CONNECTION_ENDS_BYTES], cause[CONNECTION_CAUSE_BYTES];
    connection_ends_text(&tree->ends[index], tree->peer_table, ends);
    connection_cause_text(tree->links[index].cause, tree->peer_table->lease_us, cause);
    snprintf(text, text_bytes, "the connection of %s %s", ends, cause);
}

void tree_end_link(struct tree *tree, int index)
{
    struct link *link = &tree->links[index];
    bool peer_left = link->fd >= 0 ? tree->peer_left[index] : rank_left(tree, link->rank);
    char how[CONNECTION_ENDS_BYTES + CONNECTION_CAUSE_BYTES + 32];
    if (link->fd < 0 && tree->dead[index] != NULL)
        snprintf(how, sizeof(how), "%s", tree->dead[index]);
    else if (link->cause != 0)
        break_text(tree, index, how, sizeof(how));
    else
        snprintf(how, sizeof(how), "its connection ended without hvd_shutdown%s",
                 link_has_partial_frame(link) ? ", in the middle of a message" : "");
    int rank = link->rank;
    link_close(link);
    if (!peer_left)
        tree_rank_lost(tree, rank, how);
}

void tree_link_corrupt(struct tree *tree, int index, const char *what)
{
    int rank = tree->links[index].rank;
    char name[320], sentence[FRAME_SENTENCE_BYTES + 1];
    struct frame_abort abort;
    rank_text(tree, rank, name, sizeof(name));
    snprintf(sentence, sizeof(sentence), "%s sent %s", name, what);
    frame_abort_set(&abort, HVD_ERR_SYSTEM, rank, sentence);
    tree_raise_abort(tree, &abort, true);
    link_close(&tree->links[index]);
}

/* The process of [rank] was lost. Returns how; NULL: it is not lost, as it has ended its part by itself and
 * its links tell the rest. */
static const char *loss_text(const struct tree *tree, int rank, enum process_loss loss)
{
    const struct node_member *slot = tree->node == NULL ? NULL : node_member_of(tree->node, rank);
    if (loss == PROCESS_ENDED)
        return "its process ended without hvd_shutdown";
    if (slot != NULL && atomic_load(&slot->closed) != 0)
        return NULL;
    return loss == PROCESS_REPLACED ? "it started another program (exec) without hvd_shutdown"
                                    : "a descriptor of hvd was closed by the program";
}

/* Returns whether it is at the other end of a link. */
static bool handle_loss(struct tree *tree, int rank, const char *how)
{
    int index = 0;
    if (tree->node != NULL && rank == tree->node->members[0] && !rank_left(tree, rank))
        deputy_end_connections(tree->node->deputy_fd);
    while (index < tree->link_count && (!tree->links[index].open || tree->links[index].rank != rank))
        index++;
    if (index < tree->link_count)
        tree->dead[index] = how;
    else if (!rank_left(tree, rank))
        tree_rank_lost(tree, rank, how);
    return index < tree->link_count;
}

bool tree_must_check(struct tree *tree)
{
    bool now = tree->must_check;
    if ((tree->watch.fd < 0 && tree->beat_fd < 0) || (!now && tree->polls++ % CHECK_POLLS != 0))
        return false;
    int64_t now_us = clock_us();
    if (!now && now_us - tree->checked_us < CHECK_US)
        return false;
    tree->must_check = false;
    tree->checked_us = now_us;
    return true;
}

bool tree_check_processes(struct tree *tree)
{
    bool found = false;
    enum process_loss loss;
    if (tree->watch.fd < 0)
        return false;
    for (int rank = process_watch_next(&tree->watch, &loss); rank >= 0;
         rank = process_watch_next(&tree->watch, &loss)) {
        const char *how = loss_text(tree, rank, loss);
        if (how != NULL)
            found = handle_loss(tree, rank, how) || found;
    }
    return found;
}

int tree_deliver_abort(struct tree *tree, struct control_event *event)
{
    if (!tree->aborted || tree->abort_delivered)
        return HVD_IN_PROGRESS;
    tree->abort_delivered = true;
    *event = (struct control_event){.kind = CONTROL_ABORT,
                                    .status = tree->abort.status,
                                    .rank = tree->abort.rank,
                                    .sentence = tree->abort.sentence,
                                    .first = tree->abort_first};
    return HVD_OK;
}

/* ---- Leaving ---- */

bool tree_flushed(struct control *control)
{
    struct tree *tree = tree_of(control);
    for (int i = 0; i < tree->link_count; i++) {
        if (!link_flushed(&tree->links[i]))
            return false;
    }
    return true;
}

void tree_mark_left(struct tree *tree)
{
    if (!tree->farewelled || tree->slot == NULL || atomic_load(&tree->slot->left) != 0)
        return;
    for (int i = 0; i < tree->link_count; i++) {
        if (tree->links[i].fd < 0 && !link_flushed(&tree->links[i]))
            return;
    }
    atomic_store(&tree->slot->left, 1);
}

void tree_farewell(struct control *control)
{
    struct tree *tree = tree_of(control);
    tree->farewelled = true;
    for (int i = 0; i < tree->link_count; i++) {
        struct link *link = &tree->links[i];
        /* 24 bytes; if there is no memory for them the other end reports a loss, and rightly so */
        if (link->fd >= 0)
            link_send(link, FRAME_FAREWELL, tree->peer_table->epoch, NULL, 0, NULL);
    }
    tree_mark_left(tree);
}
